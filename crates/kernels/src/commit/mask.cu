// Randomness in committed polynomials.

#include "field/baby_bear.cuh"
#include "field/goldilocks.cuh"
#include "field/koala_bear.cuh"

// Column c of the result, from column `first` on, along the grid's y axis: values and random values take turns. Its
// values are those of column c of the trace, or of column c - width of the masks; its random values are those of column
// codewords + c of the masks.
template <class F>
__global__ void __launch_bounds__(BLOCK_THREADS)
interleave(F* out, const F* trace, const F* masks, u64 rows, u32 first, u32 width, u32 codewords) {
    const u64 row = (u64)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (row >= rows) return;
    const u64 column = first + blockIdx.y;
    F* to = out + (u64)blockIdx.y * 2 * rows + 2 * row;
    to[0] = column < width ? trace[column * rows + row] : masks[(column - width) * rows + row];
    to[1] = masks[(codewords + column) * rows + row];
}

// values[c][r] += factors[r >> log_block] * mask[c][r], the columns along the grid's y axis.
template <class F>
__global__ void __launch_bounds__(BLOCK_THREADS)
add_multiple(F* values, const F* mask, const F* factors, u64 rows, u32 log_block) {
    const u64 row = (u64)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (row >= rows) return;
    const u64 at = blockIdx.y * rows + row;
    values[at] = values[at] + factors[row >> log_block] * mask[at];
}
