// A program that does not end.
%builtins output

func main{output_ptr: felt*}() {
    loop:
    jmp loop;
}
