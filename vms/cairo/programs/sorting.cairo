// The numbers of program_input["values"], sorted by merging.
%builtins output range_check

from starkware.cairo.common.alloc import alloc
from starkware.cairo.common.math import unsigned_div_rem
from starkware.cairo.common.math_cmp import is_le
from starkware.cairo.common.memcpy import memcpy

// Merges two sorted arrays into `merged`.
func merge{range_check_ptr}(a: felt*, a_len: felt, b: felt*, b_len: felt, merged: felt*) {
    if (a_len == 0) {
        memcpy(merged, b, b_len);
        return ();
    }
    if (b_len == 0) {
        memcpy(merged, a, a_len);
        return ();
    }
    let a_first = is_le([a], [b]);
    if (a_first != 0) {
        assert [merged] = [a];
        return merge(a + 1, a_len - 1, b, b_len, merged + 1);
    }
    assert [merged] = [b];
    return merge(a, a_len, b + 1, b_len - 1, merged + 1);
}

func sort{range_check_ptr}(values: felt*, len: felt) -> (sorted: felt*) {
    alloc_locals;
    if (len == 0) {
        return (sorted=values);
    }
    if (len == 1) {
        return (sorted=values);
    }
    let (local half, _) = unsigned_div_rem(len, 2);
    let (local low) = sort(values, half);
    let (local high) = sort(values + half, len - half);
    let (local sorted) = alloc();
    merge(low, half, high, len - half, sorted);
    return (sorted=sorted);
}

func main{output_ptr: felt*, range_check_ptr}() {
    alloc_locals;
    local len;
    let (local values) = alloc();
    %{
        ids.len = len(program_input["values"])
        segments.write_arg(ids.values, program_input["values"])
    %}
    let (sorted) = sort(values, len);
    memcpy(output_ptr, sorted, len);
    let output_ptr = output_ptr + len;
    return ();
}
