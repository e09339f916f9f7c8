// Replaces 2^31 - 1 by 0. Four words per thread.

#include "layout/slab.cuh"

__device__ __forceinline__ u32 canonical_word(u32 x) { return x == 0x7fffffffu ? 0 : x; }

__global__ void canonical(u32* words, u64 count) {
    const u64 first = 4 * ((u64)blockIdx.x * blockDim.x + threadIdx.x);
    if (first + 4 <= count) {
        uint4* const place = (uint4*)(words + first);
        const uint4 x = *place;
        if (x.x == 0x7fffffffu || x.y == 0x7fffffffu || x.z == 0x7fffffffu || x.w == 0x7fffffffu)
            *place = make_uint4(canonical_word(x.x), canonical_word(x.y), canonical_word(x.z), canonical_word(x.w));
    } else {
        for (u64 i = first; i < count; ++i) words[i] = canonical_word(words[i]);
    }
}
