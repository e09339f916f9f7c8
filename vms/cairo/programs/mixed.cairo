// Pedersen, Poseidon, bitwise operations and range checks in one program, n = program_input[0] times.
%builtins output pedersen range_check bitwise poseidon

from starkware.cairo.common.bitwise import bitwise_xor
from starkware.cairo.common.builtin_poseidon.poseidon import poseidon_hash
from starkware.cairo.common.cairo_builtins import BitwiseBuiltin, HashBuiltin, PoseidonBuiltin
from starkware.cairo.common.hash import hash2
from starkware.cairo.common.math import unsigned_div_rem

func rounds{
    pedersen_ptr: HashBuiltin*, range_check_ptr, bitwise_ptr: BitwiseBuiltin*, poseidon_ptr: PoseidonBuiltin*
}(a: felt, b: felt, n: felt) -> (a: felt, b: felt) {
    alloc_locals;
    if (n == 0) {
        return (a=a, b=b);
    }
    let (hashed) = hash2{hash_ptr=pedersen_ptr}(a, n);
    let (local mixed) = poseidon_hash(hashed, b);
    let (local quotient, remainder) = unsigned_div_rem(n * 1000003, 17);
    let (both) = bitwise_xor(quotient, remainder);
    return rounds(mixed, both, n - 1);
}

func main{
    output_ptr: felt*,
    pedersen_ptr: HashBuiltin*,
    range_check_ptr,
    bitwise_ptr: BitwiseBuiltin*,
    poseidon_ptr: PoseidonBuiltin*,
}() {
    alloc_locals;
    local n;
    %{ ids.n = program_input[0] %}
    let (a, b) = rounds(1, 2, n);
    assert [output_ptr] = a;
    assert [output_ptr + 1] = b;
    let output_ptr = output_ptr + 2;
    return ();
}
