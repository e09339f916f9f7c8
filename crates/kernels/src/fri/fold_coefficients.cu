// Folding a polynomial in coefficient form.

#include "layout/slab.cuh"

// out[j] = sum_(i < 2^LOG) c[2^LOG j + i] beta^i for j < n, in slabs. A thread reads adjacent coefficients, 16
// bytes at a time, and reduces each coefficient of its sum once: `powers` holds beta^i for the products of base
// elements with it.
//   c = sum_d c_d X^d, so that sum_i c_i beta^i = sum_d X^d (sum_i c_(i,d) beta^i)
template <class E, int LOG>
__global__ void __launch_bounds__(BLOCK_THREADS)
fold_coefficients(typename E::Base* out, const typename E::Base* __restrict__ values, const E* __restrict__ powers,
                  u64 n) {
    typedef typename E::Base F;
    constexpr int ARITY = 1 << LOG, N = Vector<F>::N;
    static_assert(ARITY % N == 0, "whole vectors");
    const u64 j = (u64)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (j >= n) return;
    E total = E::zero();
    // Highest coefficient first: a product with X for each step down.
#pragma unroll
    for (int d = E::DEGREE - 1; d >= 0; --d) {
        typename E::Sum sum = E::Sum::zero();
        const F* from = values + d * (n << LOG) + (j << LOG);
#pragma unroll
        for (int i = 0; i < ARITY; i += N) {
            const Vector<F> some = Vector<F>::read(from + i);
#pragma unroll
            for (int k = 0; k < N; ++k) sum.mul_add(powers[i + k], some.x[k]);
        }
        total = total.times_x() + sum.reduce();
    }
#pragma unroll
    for (int d = 0; d < E::DEGREE; ++d) out[d * n + j] = total.c[d];
}
