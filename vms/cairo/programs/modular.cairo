// Sums and products modulo a prime of 381 bits, n = program_input[0] times.
%builtins output range_check96 add_mod mul_mod

from starkware.cairo.common.cairo_builtins import ModBuiltin, UInt384
from starkware.cairo.common.modulo import run_mod_p_circuit
from starkware.cairo.common.registers import get_label_location

func rounds{range_check96_ptr: felt*, add_mod_ptr: ModBuiltin*, mul_mod_ptr: ModBuiltin*}(
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
    return rounds(values[3].d0, values[2].d1, n - 1);

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

func main{
    output_ptr: felt*, range_check96_ptr: felt*, add_mod_ptr: ModBuiltin*, mul_mod_ptr: ModBuiltin*
}() {
    alloc_locals;
    local n;
    %{ ids.n = program_input[0] %}
    let (value) = rounds(1, 2, n);
    assert [output_ptr] = value;
    let output_ptr = output_ptr + 1;
    return ();
}
