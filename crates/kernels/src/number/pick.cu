#include "field/word.cuh"

// Elements at given places of memory, read (`take`) or written (`put`), one thread per element. An element is N words
// of type W, its alignment, and is only moved. A place outside the memory is never accessed: `take` gives zeros for it,
// and `put` skips it.

template <class W, int N>
__global__ void __launch_bounds__(BLOCK_THREADS)
take(W* __restrict__ out, const W* __restrict__ from, const i64* __restrict__ places, u64 count, u64 limit) {
    const u64 i = (u64)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (i >= count) return;
    const u64 place = (u64)places[i];
#pragma unroll
    for (int k = 0; k < N; ++k) out[i * N + k] = place < limit ? from[place * N + k] : (W)0;
}

template <class W, int N>
__global__ void __launch_bounds__(BLOCK_THREADS)
put(W* __restrict__ to, const W* __restrict__ values, const i64* __restrict__ places, u64 count, u64 limit) {
    const u64 i = (u64)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (i >= count) return;
    const u64 place = (u64)places[i];
    if (place >= limit) return;
#pragma unroll
    for (int k = 0; k < N; ++k) to[place * N + k] = values[i * N + k];
}
