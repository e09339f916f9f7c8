// Polynomials in coefficient form, evaluated at a point.

#include "layout/slab.cuh"

// The part of a tile of BLOCK_THREADS * ROWS coefficients in the values of up to GROUP columns at x: for column k
// of the group, partial[tile][k] = sum_r c[r] x^r over the rows r of the tile. `powers` is the slab of x^r. A
// thread holds the powers of its rows in registers, whatever the number of columns, and reduces a column's sum
// once.
template <class E, int ROWS, int GROUP>
__global__ void __launch_bounds__(BLOCK_THREADS)
evaluate_tiles(E* partial, const typename E::Base* __restrict__ values, const typename E::Base* __restrict__ powers,
               const u32* __restrict__ columns, u64 rows, u32 count) {
    typedef typename E::Base F;
    constexpr int WARPS = BLOCK_THREADS / 32;
    __shared__ E sums[WARPS][GROUP];
    const u64 first = (u64)blockIdx.x * (BLOCK_THREADS * ROWS) + threadIdx.x;
    const u32 start = blockIdx.y * GROUP, end = start + GROUP < count ? start + GROUP : count;
    E power[ROWS];
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        const u64 row = first + k * BLOCK_THREADS;
#pragma unroll
        for (int d = 0; d < E::DEGREE; ++d) power[k].c[d] = row < rows ? powers[d * rows + row] : F::zero();
    }
    for (u32 column = start; column < end; ++column) {
        const F* from = values + columns[column] * rows;
        typename E::Sum sum = E::Sum::zero();
#pragma unroll
        for (int k = 0; k < ROWS; ++k) {
            const u64 row = first + k * BLOCK_THREADS;
            sum.mul_add(power[k], row < rows ? from[row] : F::zero());
        }
        const E total = warp_sum(sum.reduce());
        if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32][column - start] = total;
    }
    __syncthreads();
    const u32 column = start + threadIdx.x;
    if (threadIdx.x >= GROUP || column >= end) return;
    E total = sums[0][threadIdx.x];
    for (int warp = 1; warp < WARPS; ++warp) total = total + sums[warp][threadIdx.x];
    partial[(u64)blockIdx.x * count + column] = total;
}

// out[slots[k]] = sum over the tiles of partial[tile][k], one warp per k.
template <class E>
__global__ void __launch_bounds__(BLOCK_THREADS)
evaluate_sum(E* out, const E* __restrict__ partial, const u32* __restrict__ slots, u32 tiles, u32 count) {
    const u32 k = blockIdx.x * (BLOCK_THREADS / 32) + threadIdx.x / 32;
    E total = E::zero();
    if (k < count) {
        for (u64 tile = threadIdx.x % 32; tile < tiles; tile += 32) total = total + partial[tile * count + k];
    }
    total = warp_sum(total);
    if (k < count && threadIdx.x % 32 == 0) out[slots[k]] = total;
}
