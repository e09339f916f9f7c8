// Sums and dot products of columns, in two passes: partial sums of columns, then the sums of the parts.

#include "layout/slab.cuh"

// How the matrix is split: a warp takes COLUMNS columns of one part of the rows. The steps are the distances between
// the results of columns and of coefficients.
struct Cut {
    u64 rows;          // the first rows of each column, all or fewer
    u64 stride;        // from one column to the next
    u64 part_rows;     // a multiple of 128
    u32 parts;
    u32 columns;
    u32 column_warps;  // warps of a block that take the same rows, each for columns of its own
    u32 column_step;
    u32 coefficient_step;
    u32 padding;
};

// For part p and column c of the matrix (column-major, over the base field), the coefficients d of
//   SLABS = 1, 2:  sum_r weights_k[r] matrix[r][c]   for k < SLABS
//   SLABS = 0:     sum_r matrix[r][c]                as if for one k
// at parts[(k columns E::DEGREE + c column_step + d coefficient_step) parts + p].
// A thread uses the weights it has loaded for COLUMNS columns; the warps of a block find them in the L1 cache, and
// blocks of the same rows, which run at the same time, in the L2 cache.
template <class E, int SLABS, int COLUMNS>
__global__ void __launch_bounds__(BLOCK_THREADS, SLABS == 2 ? 2 : 0)
column_parts(typename E::Base* parts, const typename E::Base* __restrict__ matrix,
             const typename E::Base* __restrict__ weights0, const typename E::Base* __restrict__ weights1,
             Cut cut) {
    typedef typename E::Base F;
    constexpr int N = Vector<F>::N, SUMS = SLABS == 0 ? 1 : SLABS;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 first = (blockIdx.x * cut.column_warps + warp % cut.column_warps) * COLUMNS;
    const u32 part = blockIdx.y * (WARPS / cut.column_warps) + warp / cut.column_warps;
    if (first >= cut.columns || part >= cut.parts) return;
    const bool wide = cut.rows % N == 0 && cut.stride % N == 0 && is_aligned(matrix) &&
                      (SLABS < 1 || is_aligned(weights0)) && (SLABS < 2 || is_aligned(weights1));
    const u64 begin = part * cut.part_rows;
    const u64 end = begin + cut.part_rows < cut.rows ? begin + cut.part_rows : cut.rows;
    const F* column = matrix + first * cut.stride;
    const u32 present = cut.columns - first;

    typename E::Sum sums[SUMS][COLUMNS];
#pragma unroll
    for (int k = 0; k < SUMS; ++k) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) sums[k][c] = E::Sum::zero();
    }
    for (u64 row = begin; row < end; row += 32 * N) {
        const Share share = Share::of<F>(row, lane, 32, wide);
        E w[SUMS][N];
        F x[COLUMNS][N];
#pragma unroll
        for (int k = 0; k < SLABS; ++k) load_share(w[k], k == 0 ? weights0 : weights1, cut.rows, share);
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c)
            load_share(x[c], column + (c < present ? c : 0) * cut.stride, cut.rows, share);
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
#pragma unroll
            for (int j = 0; j < N; ++j) {
#pragma unroll
                for (int k = 0; k < SUMS; ++k) {
                    if constexpr (SLABS > 0) sums[k][c].mul_add(w[k][j], x[c][j]);
                    else sums[k][c].add(x[c][j]);
                }
            }
        }
    }
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
        if (c >= present) break;
#pragma unroll
        for (int k = 0; k < SUMS; ++k) {
            const E sum = warp_sum(sums[k][c].reduce());
            if (lane != 0) continue;
            const u64 at = (u64)k * cut.columns * E::DEGREE + (u64)(first + c) * cut.column_step;
#pragma unroll
            for (int d = 0; d < E::DEGREE; ++d)
                parts[(at + (u64)d * cut.coefficient_step) * cut.parts + part] = coefficient(sum, d);
        }
    }
}

// out[b] = the sum of the `count` parts of value b = blockIdx.x.
template <class F>
__global__ void __launch_bounds__(BLOCK_THREADS) sum_parts(F* out, const F* __restrict__ parts, u32 count) {
    __shared__ F warps[WARPS];
    typename F::Sum sum = F::Sum::zero();
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) sum.add(parts[(u64)blockIdx.x * count + i]);
    F total = warp_sum(sum.reduce());
    if (blockDim.x > 32) {
        if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = total;
        __syncthreads();
        if (threadIdx.x >= 32) return;
        total = warp_sum(threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : F::zero());
    }
    if (threadIdx.x == 0) out[blockIdx.x] = total;
}
