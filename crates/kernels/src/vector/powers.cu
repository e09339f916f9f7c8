// The powers of an element.

#include "layout/slab.cuh"

// out[i] = start x^i for i < n, with step = x^(elements per iteration of the grid): after its first element a thread
// spends one product per element.
template <class E>
__global__ void __launch_bounds__(BLOCK_THREADS) powers(typename E::Base* out, u64 n, E start, E x, E step) {
    typedef typename E::Base F;
    constexpr int N = Vector<F>::N;
    const bool wide = n % N == 0 && is_aligned(out);
    const u64 turn = (u64)gridDim.x * (BLOCK_THREADS * N);
    Share share = Share::of<F>((u64)blockIdx.x * (BLOCK_THREADS * N), threadIdx.x, BLOCK_THREADS, wide);
    if (share.first >= n) return;
    const E ratio = x.pow(share.step);
    E power[N];
    power[0] = start * x.pow(share.first);
#pragma unroll
    for (int j = 1; j < N; ++j) power[j] = power[j - 1] * ratio;
    for (; share.first < n; share.first += turn) {
        store_share(out, power, n, share);
#pragma unroll
        for (int j = 0; j < N; ++j) power[j] = power[j] * step;
    }
}
