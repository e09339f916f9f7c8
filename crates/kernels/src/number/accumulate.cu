#ifdef ACCUMULATE_FIELD
#include "number/field.cuh"
#endif
#include "number/complex.cuh"
#include "number/number.cuh"

// Running sums and products of rows. A block scans a tile of a row and writes the tile's total; the totals of a row are
// scanned in the same way; then `accumulate_shift` joins each tile with the total of all tiles before it.

struct Sums {
    template <class T> static __device__ __forceinline__ T join(const T& x, const T& y) { return num::add(x, y); }
};
struct Products {
    template <class T> static __device__ __forceinline__ T join(const T& x, const T& y) { return num::mul(x, y); }
};

constexpr u32 THREADS = BLOCK_THREADS, TILE = THREADS * PER_THREAD;

// Rows of n elements, `tiles` tiles each. `in` may be `out`.
template <class T, class Op>
__global__ void __launch_bounds__(THREADS) accumulate_tiles(T* out, const T* in, T* totals, u64 n, u64 tiles) {
    __shared__ T shared[THREADS];
    const u64 row = blockIdx.x / tiles, tile = blockIdx.x % tiles;
    const u64 first = tile * TILE + threadIdx.x * PER_THREAD;
    in += row * n;
    out += row * n;
    T x[PER_THREAD];
#pragma unroll
    for (u32 k = 0; k < PER_THREAD; ++k)
        if (first + k < n) x[k] = k == 0 ? in[first] : Op::join(x[k - 1], in[first + k]);
        else if (k > 0) x[k] = x[k - 1];
    // Threads past the end of the row have no element; the last thread before them holds the total.
    const u64 left = n - tile * TILE;
    const u32 busy = left >= TILE ? THREADS : (u32)((left + PER_THREAD - 1) / PER_THREAD);
    if (threadIdx.x < busy) shared[threadIdx.x] = x[PER_THREAD - 1];
    __syncthreads();
    for (u32 distance = 1; distance < busy; distance *= 2) {
        const bool joins = threadIdx.x >= distance && threadIdx.x < busy;
        T sum = shared[0];
        if (joins) sum = Op::join(shared[threadIdx.x - distance], shared[threadIdx.x]);
        __syncthreads();
        if (joins) shared[threadIdx.x] = sum;
        __syncthreads();
    }
    if (threadIdx.x >= busy) return;
#pragma unroll
    for (u32 k = 0; k < PER_THREAD; ++k)
        if (first + k < n) out[first + k] = threadIdx.x == 0 ? x[k] : Op::join(shared[threadIdx.x - 1], x[k]);
    if (threadIdx.x == busy - 1) totals[blockIdx.x] = shared[busy - 1];
}

// `totals` has the running total of each row's tiles.
template <class T, class Op>
__global__ void __launch_bounds__(THREADS) accumulate_shift(T* out, const T* totals, u64 n, u64 tiles) {
    const u64 row = blockIdx.x / tiles, tile = blockIdx.x % tiles;
    if (tile == 0) return;
    const T before = totals[blockIdx.x - 1];
    out += row * n;
#pragma unroll
    for (u32 k = 0; k < PER_THREAD; ++k) {
        const u64 at = tile * TILE + k * THREADS + threadIdx.x;
        if (at < n) out[at] = Op::join(before, out[at]);
    }
}
