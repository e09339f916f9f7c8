// Sums of the AND, XOR and OR of n = program_input[0] pairs of numbers.
%builtins output bitwise

from starkware.cairo.common.bitwise import bitwise_operations
from starkware.cairo.common.cairo_builtins import BitwiseBuiltin

func sums{bitwise_ptr: BitwiseBuiltin*}(
    a: felt, b: felt, n: felt, ands: felt, xors: felt, ors: felt
) -> (ands: felt, xors: felt, ors: felt) {
    if (n == 0) {
        return (ands=ands, xors=xors, ors=ors);
    }
    let (x, y, z) = bitwise_operations(a, b);
    return sums(a * 3 + 1, b * 5 + 2, n - 1, ands + x, xors + y, ors + z);
}

func main{output_ptr: felt*, bitwise_ptr: BitwiseBuiltin*}() {
    alloc_locals;
    local n;
    %{ ids.n = program_input[0] %}
    let (ands, xors, ors) = sums(1, 2, n, 0, 0, 0);
    assert [output_ptr] = ands;
    assert [output_ptr + 1] = xors;
    assert [output_ptr + 2] = ors;
    let output_ptr = output_ptr + 3;
    return ();
}
