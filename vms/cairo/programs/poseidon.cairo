// A chain of n = program_input[0] Poseidon hashes.
%builtins output poseidon

from starkware.cairo.common.cairo_builtins import PoseidonBuiltin
from starkware.cairo.common.builtin_poseidon.poseidon import poseidon_hash

func chain{poseidon_ptr: PoseidonBuiltin*}(value: felt, n: felt) -> (value: felt) {
    if (n == 0) {
        return (value=value);
    }
    let (next) = poseidon_hash(value, n);
    return chain(next, n - 1);
}

func main{output_ptr: felt*, poseidon_ptr: PoseidonBuiltin*}() {
    alloc_locals;
    local n;
    %{ ids.n = program_input[0] %}
    let (value) = chain(0, n);
    assert [output_ptr] = value;
    let output_ptr = output_ptr + 1;
    return ();
}
