// Runs the instructions of a graph for each row, one row a thread at a time. All threads execute the same instruction,
// so no branch diverges. `interpret.rs` encodes the instructions.

// An instruction: the operation in bits 0 to 7, the operands' descriptions in bits 8 to 19 and 20 to 31; where the
// result goes; the operands.
enum { ADD, SUB, MUL, NEG, ADD_E, SUB_E, MUL_E, MUL_E_BY_BASE, NEG_E, FOLD, FOLD_E, STORE, STORE_E };

// An operand's description: its source in bits 0 and 1, whether it lies in the base field although the operation wants
// an element of the extension in bit 2; for a column, its matrix in bits 3 to 5 and the number of its offset in bits
// 6 to 11. In a field without an extension, bit 2 tells parameters of the one kind from those of the other.
enum { SLOT, COLUMN, CONSTANT, PARAMETER };

struct Tape {
    u32 instructions, offsets, folds, padding;
    i32 offset[OFFSETS];
};

// What operands are read from. Values of earlier instructions are in slots, of which each thread has its own: the first
// in shared memory, the others in global memory.
struct Machine {
    const LaunchNumbers& shape;
    const F* const* inputs;
    F* near;
    F* far;
    const u32* rows;
    u32 threads;
    const F* constants;
    const F* parameters;
    const E* extension_parameters;
};

STEP F& slot(const Machine& m, u32 index) {
    return index < NEAR_SLOTS ? m.near[index * THREADS] : m.far[(u64)(index - NEAR_SLOTS) * m.threads];
}

STEP const F* column(const Machine& m, u32 description) {
    const u32 input = description >> 3 & 7;
    return at_row(m.shape, m.inputs[input], input, m.rows[(description >> 6 & 63) * THREADS]);
}

STEP F base_operand(const Machine& m, u32 description, u32 x) {
    switch (description & 3) {
        case SLOT: return slot(m, x);
        case COLUMN: return load(column(m, description), m.shape.stride[description >> 3 & 7], x);
        case CONSTANT: return m.constants[x];
        default:
            return E::DEGREE == 1 && description & 4 ? coefficient(m.extension_parameters[x], 0) : m.parameters[x];
    }
}

STEP E operand(const Machine& m, u32 description, u32 x) {
    if (description & 4) return E::from_base(base_operand(m, description, x));
    E y;
    switch (description & 3) {
        case SLOT:
            for (int d = 0; d < E::DEGREE; ++d) coefficient(y, d) = slot(m, x + d);
            return y;
        case COLUMN: return load_extension(column(m, description), m.shape.stride[description >> 3 & 7], x);
        case CONSTANT:
            for (int d = 0; d < E::DEGREE; ++d) coefficient(y, d) = m.constants[x + d];
            return y;
        default: return element_at(m.extension_parameters, x);
    }
}

STEP void set(const Machine& m, u32 index, F x) { slot(m, index) = x; }
STEP void set_extension(const Machine& m, u32 index, E x) {
    for (int d = 0; d < E::DEGREE; ++d) slot(m, index + d) = coefficient(x, d);
}

__global__ void __launch_bounds__(THREADS) interpret(
    const LaunchNumbers shape, const Tape tape, const uint4* __restrict__ instructions,
    const F* __restrict__ constants, const F* input_0, const F* input_1, const F* input_2, const F* input_3,
    const F* input_4, const F* input_5, const F* input_6, const F* input_7, F* output_0, F* output_1, F* output_2,
    F* output_3, F* output_4, F* output_5, F* output_6, F* output_7, const F* __restrict__ parameters,
    const E* __restrict__ extension_parameters, const E* __restrict__ weights, const F* __restrict__ scale, F* folded,
    F* far_slots) {
    __shared__ const F* inputs[MATRICES];
    __shared__ F* outputs[MATRICES];
    __shared__ F near_slots[NEAR_SLOTS * THREADS];
    __shared__ u32 rows[OFFSETS * THREADS];
    if (threadIdx.x == 0) {
        inputs[0] = input_0, inputs[1] = input_1, inputs[2] = input_2, inputs[3] = input_3;
        inputs[4] = input_4, inputs[5] = input_5, inputs[6] = input_6, inputs[7] = input_7;
        outputs[0] = output_0, outputs[1] = output_1, outputs[2] = output_2, outputs[3] = output_3;
        outputs[4] = output_4, outputs[5] = output_5, outputs[6] = output_6, outputs[7] = output_7;
    }
    __syncthreads();
    const u32 thread = blockIdx.x * THREADS + threadIdx.x, threads = gridDim.x * THREADS;
    const Machine m = {shape,     inputs,     near_slots + threadIdx.x, far_slots + thread, rows + threadIdx.x, threads,
                       constants, parameters, extension_parameters};
    for (u64 at = thread; at < shape.rows; at += threads) {
        const u32 row = (u32)at;
        for (u32 i = 0; i < tape.offsets; ++i) {
            rows[i * THREADS + threadIdx.x] = tape.offset[i] == 0 ? row : row_at(shape, row, tape.offset[i]);
        }
        E::Sum sum = E::Sum::zero();
        E total = E::zero();
        uint4 next = instructions[0];
        for (u32 i = 0; i < tape.instructions; ++i) {
            const uint4 now = next;
            // The list ends with an instruction that is read and not executed.
            next = instructions[i + 1];
            const u32 a = now.x >> 8 & 0xfff, b = now.x >> 20, to = now.y;
            switch (now.x & 0xff) {
                case ADD: set(m, to, base_operand(m, a, now.z) + base_operand(m, b, now.w)); break;
                case SUB: set(m, to, base_operand(m, a, now.z) - base_operand(m, b, now.w)); break;
                case MUL: set(m, to, base_operand(m, a, now.z) * base_operand(m, b, now.w)); break;
                case NEG: set(m, to, -base_operand(m, a, now.z)); break;
                case ADD_E: set_extension(m, to, operand(m, a, now.z) + operand(m, b, now.w)); break;
                case SUB_E: set_extension(m, to, operand(m, a, now.z) - operand(m, b, now.w)); break;
                case MUL_E: set_extension(m, to, operand(m, a, now.z) * operand(m, b, now.w)); break;
                case MUL_E_BY_BASE: set_extension(m, to, operand(m, a, now.z) * base_operand(m, b, now.w)); break;
                case NEG_E: set_extension(m, to, -operand(m, a, now.z)); break;
                case FOLD: add_weighted(sum, weights, to, base_operand(m, a, now.z)); break;
                case FOLD_E: add_weighted_extension(total, weights, to, operand(m, a, now.z)); break;
                case STORE: store(outputs[b] + row, shape.output_stride[b], to, base_operand(m, a, now.z)); break;
                case STORE_E:
                    store_extension(outputs[b] + row, shape.output_stride[b], to, operand(m, a, now.z));
                    break;
            }
        }
        if (tape.folds) fold(shape, folded, scale, row, sum.reduce() + total);
    }
}
