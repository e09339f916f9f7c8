// The points of a coset.

#include "domain/roots.cuh"
#include "layout/slab.cuh"

// out[i] = shift w^rev(i) for i < n = 2^k, w the root of order n. A thread computes the power of its first point, and
// the others of its vector with one product each.
template <class F>
__global__ void __launch_bounds__(BLOCK_THREADS) coset_points(F* out, u64 n, F shift, ReversedPowers<F> powers) {
    constexpr int N = Vector<F>::N;
    const u64 first = ((u64)blockIdx.x * BLOCK_THREADS + threadIdx.x) * N;
    if (first >= n) return;
    const F start = shift * powers.at((u32)first);
    Vector<F> points;
#pragma unroll
    for (int j = 0; j < N; ++j) points.x[j] = start * powers.at(j);
    if (n >= N) {
        points.write_global(out + first);
    } else {
#pragma unroll
        for (int j = 0; j < N; ++j)
            if (j < n) out[j] = points.x[j];
    }
}
