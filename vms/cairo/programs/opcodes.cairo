// Every opcode that Cairo 0 can write, n = program_input[0] times.
%builtins output

from starkware.cairo.common.registers import get_fp_and_pc, get_label_location

func twice(x: felt) -> (y: felt) {
    return (y=2 * x);
}

// Adds what each opcode computes to the sum.
func opcodes(sum: felt, n: felt) -> (sum: felt) {
    alloc_locals;
    if (n == 0) {
        return (sum=sum);
    }
    let (local callback) = get_label_location(twice);
    let (local here) = get_label_location(after_jumps);
    let (local there) = get_label_location(between_jumps);
    let (__fp__, _) = get_fp_and_pc();
    local table = cast(__fp__, felt);
    local small = n + 3;
    local large = small * 0x400000000000000000000000000000000000000000000000000000000000000;
    local product = large * (large + small);
    local negative = small - 1000;

    // A call of an address, and a value behind two pointers.
    [ap] = small, ap++;
    call abs callback;
    local doubled = [ap - 1];
    local again = [[fp + 3] + 4];

    // ap by a number, a value and an expression.
    [ap] = 2, ap++;
    ap += 3;
    [ap] = 1, ap++;
    ap += [ap - 1];
    [ap] = 1, ap++;
    [ap] = 1, ap++;
    ap += [ap - 1] + 1;

    // No reference survives a jump, so what follows names the locals by their places: callback is [fp].
    // Jumps by a number, by a value, if a value is not zero, to an address, to an address in a table.
    jmp rel 2;
    [ap] = 1, ap++;
    jmp rel [ap - 1], ap++;
    [ap] = 3, ap++;
    [ap] = 7, ap++;
    jmp rel [ap - 2] if [ap - 1] != 0, ap++;
    jmp rel 0;
    jmp abs [fp + 2];
    jmp rel 0;

    between_jumps:
    [ap] = [fp + 3], ap++;
    jmp abs [[ap - 1] + 1];

    after_jumps:
    return opcodes([fp - 4] + [fp + 8] + [fp + 9] + [fp + 6] + [fp + 7], [fp - 3] - 1);
}

func main{output_ptr: felt*}() {
    alloc_locals;
    local n;
    %{ ids.n = program_input[0] %}
    let (sum) = opcodes(0, n);
    assert [output_ptr] = sum;
    let output_ptr = output_ptr + 1;
    return ();
}
