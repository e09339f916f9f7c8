// A program that fails: an assertion does not hold.
%builtins output

func main{output_ptr: felt*}() {
    assert [output_ptr] = 1;
    assert [output_ptr] = 2;
    return ();
}
