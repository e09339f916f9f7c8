// Single values from many buffers.

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
