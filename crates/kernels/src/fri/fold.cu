// One step of FRI folding, up to arity 16 in registers.

#include "domain/roots.cuh"
#include "layout/slab.cuh"

// The challenge of a step, in the form that the kernel uses. With P(i) the powers of 1 / w in bit-reversed order, the
// factor of pair q of the m pairs that a thread folds to m values is P(2 (i m + q)) = P(2 i m) P(2 q).
template <class E>
struct Folding {
    E factors[MOST_FACTORS];  // factors[m + q] = b P(2 q) / 2 for q < m, b = beta^(arity / 2m)
    E weight;       // of `joined`
    ReversedPowers<typename E::Base> inverse;
};

// out[i] for i < n, slabs of n elements: the 2^LOG_ARITY values starting at 2^LOG_ARITY i are halved LOG_ARITY times,
//   v[q] <- (v[2q] + v[2q + 1]) / 2 + (v[2q] - v[2q + 1]) b P(..) / 2,
// and `weight` times joined[i] is added, if there is a `joined`. A thread computes one output, or one vector of 16
// bytes of each coefficient. Its powers cost one product per bit of its index, and one square per halving.
template <class E, int LOG_ARITY>
__global__ void __launch_bounds__(BLOCK_THREADS)
fold(typename E::Base* out, const typename E::Base* __restrict__ values,
     const typename E::Base* __restrict__ joined, u64 n, Folding<E> folding) {
    typedef typename E::Base F;
    constexpr int ARITY = 1 << LOG_ARITY, N = Vector<F>::N;
    constexpr int OUT = ARITY < N ? N / ARITY : 1, IN = OUT * ARITY;
    const u64 size = n << LOG_ARITY;
    const u64 first = ((u64)blockIdx.x * BLOCK_THREADS + threadIdx.x) * OUT;
    if (first >= n) return;
    const bool wide = size % N == 0 && is_aligned(values);

    E v[IN];
    const F* from = values + (first << LOG_ARITY);
#pragma unroll
    for (int d = 0; d < E::DEGREE; ++d, from += size) {
        if (wide) {
#pragma unroll
            for (int j = 0; j < IN; j += N) {
                const Vector<F> read = Vector<F>::read(from + j);
#pragma unroll
                for (int k = 0; k < N; ++k) coefficient(v[j + k], d) = read.x[k];
            }
        } else {
#pragma unroll
            for (int j = 0; j < IN; ++j)
                coefficient(v[j], d) = (first << LOG_ARITY) + j < size ? from[j] : F::zero();
        }
    }

    const F start = folding.inverse.at((u32)first << LOG_ARITY);
    E folded[OUT];
#pragma unroll
    for (int k = 0; k < OUT; ++k) {
        F power = k == 0 ? start : start * folding.inverse.at(k << LOG_ARITY);
        E* x = v + k * ARITY;
#pragma unroll
        for (int pairs = ARITY / 2; pairs > 0; pairs /= 2) {
#pragma unroll
            for (int q = 0; q < pairs; ++q) {
                const E low = x[2 * q], high = x[2 * q + 1];
                x[q] = (low + high).halve() + (low - high) * power * folding.factors[pairs + q];
            }
            power = power.square();
        }
        folded[k] = x[0];
        if (joined != nullptr && first + k < n) {
            E other;
#pragma unroll
            for (int d = 0; d < E::DEGREE; ++d) coefficient(other, d) = joined[d * n + first + k];
            folded[k] = folded[k] + folding.weight * other;
        }
    }

#pragma unroll
    for (int d = 0; d < E::DEGREE; ++d) {
        F* to = out + d * n + first;
        if constexpr (OUT == 2) {
            // `out` is a separate buffer, so an even n suffices for alignment.
            if (n % 2 == 0) {
                *(uint2*)to = make_uint2(coefficient(folded[0], d).v, coefficient(folded[1], d).v);
                continue;
            }
        }
#pragma unroll
        for (int k = 0; k < OUT; ++k)
            if (first + k < n) to[k] = coefficient(folded[k], d);
    }
}
