// The n-th Fibonacci number, for n = program_input[0].
%builtins output

func fibonacci(a: felt, b: felt, n: felt) -> (value: felt) {
    if (n == 0) {
        return (value=b);
    }
    return fibonacci(b, a + b, n - 1);
}

func main{output_ptr: felt*}() {
    alloc_locals;
    local n;
    %{ ids.n = program_input[0] %}
    let (value) = fibonacci(1, 1, n);
    assert [output_ptr] = n;
    assert [output_ptr + 1] = value;
    let output_ptr = output_ptr + 2;
    return ();
}
