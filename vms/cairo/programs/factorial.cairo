// The factorial of n = program_input[0], with a range check of every factor.
%builtins output range_check

from starkware.cairo.common.math import assert_in_range

func factorial{range_check_ptr}(product: felt, n: felt, most: felt) -> (value: felt) {
    if (n == 0) {
        return (value=product);
    }
    assert_in_range(n, 1, most + 1);
    return factorial(product * n, n - 1, most);
}

func main{output_ptr: felt*, range_check_ptr}() {
    alloc_locals;
    local n;
    %{ ids.n = program_input[0] %}
    let (value) = factorial(1, n, n);
    assert [output_ptr] = value;
    let output_ptr = output_ptr + 1;
    return ();
}
