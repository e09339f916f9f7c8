// A chain of n = program_input[0] Pedersen hashes.
%builtins output pedersen

from starkware.cairo.common.cairo_builtins import HashBuiltin
from starkware.cairo.common.hash import hash2

func chain{hash_ptr: HashBuiltin*}(value: felt, n: felt) -> (value: felt) {
    if (n == 0) {
        return (value=value);
    }
    let (next) = hash2(value, n);
    return chain(next, n - 1);
}

func main{output_ptr: felt*, pedersen_ptr: HashBuiltin*}() {
    alloc_locals;
    local n;
    %{ ids.n = program_input[0] %}
    let (value) = chain{hash_ptr=pedersen_ptr}(0, n);
    assert [output_ptr] = value;
    let output_ptr = output_ptr + 1;
    return ();
}
