// Keccak-256 of n = program_input[0] words of eight bytes, computed with the bitwise builtin: Cairo's AIR has no component for
// the Keccak builtin.
%builtins output range_check bitwise

from starkware.cairo.common.alloc import alloc
from starkware.cairo.common.cairo_builtins import BitwiseBuiltin
from starkware.cairo.common.cairo_keccak.keccak import cairo_keccak, finalize_keccak

func fill(words: felt*, n: felt) {
    if (n == 0) {
        return ();
    }
    assert [words] = n * 12345678901;
    return fill(words + 1, n - 1);
}

func main{output_ptr: felt*, range_check_ptr, bitwise_ptr: BitwiseBuiltin*}() {
    alloc_locals;
    local n;
    %{ ids.n = program_input[0] %}
    let (words) = alloc();
    fill(words, n);
    let (keccak_ptr: felt*) = alloc();
    local keccak_start: felt* = keccak_ptr;
    let (hash) = cairo_keccak{keccak_ptr=keccak_ptr}(inputs=words, n_bytes=8 * n);
    finalize_keccak(keccak_ptr_start=keccak_start, keccak_ptr_end=keccak_ptr);
    assert [output_ptr] = hash.low;
    assert [output_ptr + 1] = hash.high;
    let output_ptr = output_ptr + 2;
    return ();
}
