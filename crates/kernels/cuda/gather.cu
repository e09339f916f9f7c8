// Single values from many buffers.

#include "field/word.cuh"

// Value k of `width` words at values[k] goes to out[k width ..]: a thread a word, so that the words of a value are
// read and written together.
__global__ void __launch_bounds__(256)
gather_words(u32* __restrict__ out, const u32* const* __restrict__ values, u32 words, u32 width) {
    const u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= words) return;
    out[i] = values[i / width][i % width];
}
