// Each row of a matrix times a factor of its own.

#include "layout/slab.cuh"

// values[c][r] *= factors[r], the columns along the grid's y axis.
template <class F>
__global__ void __launch_bounds__(BLOCK_THREADS) scale_rows(F* values, const F* __restrict__ factors, u64 rows) {
    constexpr int N = Vector<F>::N;
    F* column = values + blockIdx.y * rows;
    const bool wide = rows % N == 0 && is_aligned(values) && is_aligned(factors);
    const Share share = Share::of<F>((u64)blockIdx.x * (BLOCK_THREADS * N), threadIdx.x, BLOCK_THREADS, wide);
    F x[N], factor[N];
    load_share(x, column, rows, share);
    load_share(factor, factors, rows, share);
#pragma unroll
    for (int j = 0; j < N; ++j) x[j] *= factor[j];
    store_share(column, x, rows, share);
}
