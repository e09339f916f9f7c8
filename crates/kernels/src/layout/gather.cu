// Values from many buffers, and rows of many matrices.

#include "field/word.cuh"

// Value k, of `width` words, is value picks[k].y of source picks[k].x. One thread per word, so that the words of a
// value are read and written together.
__global__ void __launch_bounds__(BLOCK_THREADS)
gather_words(u32* __restrict__ out, const u32* const* __restrict__ sources, const uint2* __restrict__ picks, u32 words,
             u32 width) {
    const u32 i = blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (i >= words) return;
    const uint2 pick = picks[i / width];
    out[i] = sources[pick.x][(u64)pick.y * width + i % width];
}

// Rows of `matrices` column-major matrices of values of `width` words. `list` has four numbers for each matrix: the
// place of its first value in `out`, its columns, its rows, and the place of its first index among the indices, which
// follow. No matrix gives nothing, so that these places ascend. One thread per word, as above.
__global__ void __launch_bounds__(BLOCK_THREADS)
gather_rows(u32* __restrict__ out, const u32* const* __restrict__ sources, const u32* __restrict__ list, u32 matrices,
            u32 words, u32 width) {
    const u32 i = blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (i >= words) return;
    const u32 value = i / width;
    // The last matrix whose first value is not after this one.
    u32 matrix = 0, last = matrices - 1;
    while (matrix < last) {
        const u32 middle = last - (last - matrix) / 2;
        if (list[4 * middle] <= value) matrix = middle;
        else last = middle - 1;
    }
    const u32* about = list + 4 * matrix;
    const u32 place = value - about[0], columns = about[1], k = place / columns;
    const u64 row = list[4 * matrices + about[3] + k], column = place - k * columns;
    out[i] = sources[matrix][(column * about[2] + row) * width + i % width];
}
