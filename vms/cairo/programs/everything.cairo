// Every builtin of Cairo's AIR and the opcodes of Blake2s, each so many times as program_input says: rounds with
// Pedersen, Poseidon, range checks and bitwise operations; products on the curve; rounds of modular arithmetic; blocks.
%builtins output pedersen range_check bitwise ec_op poseidon range_check96 add_mod mul_mod

from starkware.cairo.common.alloc import alloc
from starkware.cairo.common.bitwise import bitwise_xor
from starkware.cairo.common.builtin_poseidon.poseidon import poseidon_hash
from starkware.cairo.common.cairo_builtins import (
    BitwiseBuiltin,
    EcOpBuiltin,
    HashBuiltin,
    ModBuiltin,
    PoseidonBuiltin,
    UInt384,
)
from starkware.cairo.common.ec import StarkCurve
from starkware.cairo.common.ec_point import EcPoint
from starkware.cairo.common.hash import hash2
from starkware.cairo.common.math import unsigned_div_rem
from starkware.cairo.common.modulo import run_mod_p_circuit
from starkware.cairo.common.registers import get_label_location

func hashes{
    pedersen_ptr: HashBuiltin*, range_check_ptr, bitwise_ptr: BitwiseBuiltin*, poseidon_ptr: PoseidonBuiltin*
}(a: felt, b: felt, n: felt) -> (a: felt) {
    alloc_locals;
    if (n == 0) {
        return (a=a);
    }
    let (hashed) = hash2{hash_ptr=pedersen_ptr}(a, n);
    let (local mixed) = poseidon_hash(hashed, b);
    let (local quotient, remainder) = unsigned_div_rem(n * 1000003, 17);
    let (both) = bitwise_xor(quotient, remainder);
    return hashes(mixed, both, n - 1);
}

// The x of p + m_1 G + m_2 G + .., where each factor is the x before.
func products{ec_op_ptr: EcOpBuiltin*}(p: EcPoint, n: felt) -> (x: felt) {
    if (n == 0) {
        return (x=p.x);
    }
    assert ec_op_ptr.p = p;
    assert ec_op_ptr.q = EcPoint(x=StarkCurve.GEN_X, y=StarkCurve.GEN_Y);
    assert ec_op_ptr.m = p.x;
    let r = ec_op_ptr.r;
    let ec_op_ptr = ec_op_ptr + EcOpBuiltin.SIZE;
    return products(r, n - 1);
}

func modular{range_check96_ptr: felt*, add_mod_ptr: ModBuiltin*, mul_mod_ptr: ModBuiltin*}(
    a: felt, b: felt, n: felt
) -> (value: felt) {
    alloc_locals;
    if (n == 0) {
        return (value=a);
    }
    local values: UInt384* = cast(range_check96_ptr, UInt384*);
    assert values[0] = UInt384(d0=a, d1=b, d2=n, d3=0x123456789abcdef012);
    assert values[1] = UInt384(d0=b, d1=n, d2=a, d3=0x1fedcba987654321);
    let (additions: felt*) = get_label_location(offsets_of_additions);
    let (products: felt*) = get_label_location(offsets_of_products);
    run_mod_p_circuit(
        p=UInt384(
            d0=0xb153ffffb9feffffffffaaab,
            d1=0x6730d2a0f6b0f6241eabfffe,
            d2=0x434bacd764774b84f38512bf,
            d3=0x1a0111ea397fe69a4b1ba7b6,
        ),
        values_ptr=values,
        add_mod_offsets_ptr=additions,
        add_mod_n=1,
        mul_mod_offsets_ptr=products,
        mul_mod_n=1,
    );
    let range_check96_ptr = range_check96_ptr + 4 * UInt384.SIZE;
    return modular(values[3].d0, values[2].d1, n - 1);

    // Value 2 is value 0 + value 1.
    offsets_of_additions:
    dw 0;
    dw 4;
    dw 8;

    // Value 3 is value 2 * value 0.
    offsets_of_products:
    dw 8;
    dw 0;
    dw 12;
}

// The opcode has no syntax. Offsets -5, -4 and -3 from fp name the counter, the state and the message; [ap] is where the
// compressed state is written. The opcode's number is in bit 63.
func compress(output: felt*, counter: felt, state: felt*, message: felt*) {
    assert [ap] = cast(output, felt);
    dw 9226608988349300731;
    return ();
}

// The same for a last block: bit 64.
func compress_last(output: felt*, counter: felt, state: felt*, message: felt*) {
    assert [ap] = cast(output, felt);
    dw 18449981025204076539;
    return ();
}

// Compresses the two states before each state into it.
func blocks(state: felt*, counter: felt, n: felt) -> (state: felt*) {
    if (n == 0) {
        compress_last(output=state + 8, counter=counter, state=state, message=state - 8);
        return (state=state + 8);
    }
    compress(output=state + 8, counter=counter, state=state, message=state - 8);
    return blocks(state + 8, counter + 64, n - 1);
}

func main{
    output_ptr: felt*,
    pedersen_ptr: HashBuiltin*,
    range_check_ptr,
    bitwise_ptr: BitwiseBuiltin*,
    ec_op_ptr: EcOpBuiltin*,
    poseidon_ptr: PoseidonBuiltin*,
    range_check96_ptr: felt*,
    add_mod_ptr: ModBuiltin*,
    mul_mod_ptr: ModBuiltin*,
}() {
    alloc_locals;
    local n_hashes;
    local n_products;
    local n_modular;
    local n_blocks;
    %{ ids.n_hashes = program_input[0] %}
    %{ ids.n_products = program_input[1] %}
    %{ ids.n_modular = program_input[2] %}
    %{ ids.n_blocks = program_input[3] %}
    let (hash) = hashes(1, 2, n_hashes);
    assert [output_ptr] = hash;
    let (x) = products(
        EcPoint(
            x=0x49ee3eba8c1600700ee1b87eb599f16716b0b1022947733551fde4050ca6804,
            y=0x3ca0cfe4b3bc6ddf346d49d06ea0ed34e621062c0e056c1d0405d266e10268a,
        ),
        n_products,
    );
    assert [output_ptr + 1] = x;
    let (value) = modular(1, 2, n_modular);
    assert [output_ptr + 2] = value;

    // The first state, and 8 words before it.
    let (words: felt*) = alloc();
    assert words[0] = 0x6b08e647;
    assert words[1] = 0xbb67ae85;
    assert words[2] = 0x3c6ef372;
    assert words[3] = 0xa54ff53a;
    assert words[4] = 0x510e527f;
    assert words[5] = 0x9b05688c;
    assert words[6] = 0x1f83d9ab;
    assert words[7] = 0x5be0cd19;
    assert words[8] = 0x00000001;
    assert words[9] = 0xffffffff;
    assert words[10] = 0x80000000;
    assert words[11] = 0x7fffffff;
    assert words[12] = 0x12345678;
    assert words[13] = 0x9abcdef0;
    assert words[14] = 0x0f0f0f0f;
    assert words[15] = 0;
    let (state) = blocks(words + 8, 64, n_blocks);
    assert [output_ptr + 3] = state[0];
    assert [output_ptr + 4] = state[7];
    let output_ptr = output_ptr + 5;
    return ();
}
