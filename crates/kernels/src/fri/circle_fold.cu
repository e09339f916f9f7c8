// FRI folding of evaluations on circle and line domains, and sums of columns of different lengths.

#include "layout/quads.cuh"

// out[i] = f0 + alpha f1 for i < n, a slab, with f0 = v[2i] + v[2i + 1] and f1 = (v[2i] - v[2i + 1]) / y_i, y_i the y
// coordinate of point 2i of a circle domain of 2 n points in bit-reversed order. V is the type of the values, the base
// field or QM31. The n / 2 twiddles are 1 / x of the points 4i. Four adjacent points of the half coset are (x, y), (-x,
// -y), (y, -x), (-y, x), and the line twiddles contain their x and y, so the four y coordinates are y, -y, -x, x. For n
// below 4, `inverse_y` is 1 / y of the first point, and the second is its negative.
template <class V>
__global__ void __launch_bounds__(BLOCK_THREADS)
fold_circle(Mersenne31* out, const Mersenne31* __restrict__ values, const Mersenne31* __restrict__ twiddles, u64 n,
            QM31 alpha, Mersenne31 inverse_y) {
    typedef Mersenne31 F;
    const u64 quad = (u64)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (4 * quad >= n) return;
    V v[8];
    const bool wide = is_wide(values, 2 * n);
    load_quad(v, values, 2 * n, 8 * quad, 2 * n, wide);
    load_quad(v + 4, values, 2 * n, 8 * quad + 4, 2 * n, wide);
    F inverses[4] = {inverse_y, -inverse_y, F::zero(), F::zero()};
    if (n >= 4) {
        const F x = twiddles[2 * quad], y = twiddles[2 * quad + 1];
        inverses[0] = y;
        inverses[1] = -y;
        inverses[2] = -x;
        inverses[3] = x;
    }
    QM31 folded[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const V sum = v[2 * j] + v[2 * j + 1], difference = (v[2 * j] - v[2 * j + 1]) * inverses[j];
        folded[j] = alpha * difference + sum;
    }
    store_quad(out, folded, n, 4 * quad);
}

// The challenges of the halvings in one launch.
struct Alphas {
    QM31 alphas[MOST_AT_ONCE];
};

// STEPS halvings of the slab of n << STEPS values on a line domain, in registers:
//   v'[i] = (v[2i] + v[2i + 1]) + alpha (v[2i] - v[2i + 1]) / x_i.
// In the tower of inverse twiddles, the m / 2 twiddles of a domain of m points start m words before its end. A thread
// computes one output, or two if there is one halving.
template <int STEPS>
__global__ void __launch_bounds__(BLOCK_THREADS)
fold_line(Mersenne31* out, const Mersenne31* __restrict__ values, const Mersenne31* __restrict__ tower, u64 length,
          u64 n, Alphas challenges) {
    typedef Mersenne31 F;
    constexpr int OUT = STEPS == 1 ? 2 : 1, IN = OUT << STEPS;
    const u64 first = ((u64)blockIdx.x * BLOCK_THREADS + threadIdx.x) * OUT, size = n << STEPS;
    if (first >= n) return;
    QM31 v[IN];
    const bool wide = is_wide(values, size);
#pragma unroll
    for (int j = 0; j < IN; j += 4) load_quad(v + j, values, size, (first << STEPS) + j, size, wide);

#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        constexpr int MOST = IN / 2;
        const u64 points = size >> step, at = first << STEPS >> (step + 1);
        const F* twiddles = tower + length - points;
        const int pairs = IN >> (step + 1);
        F inverses[MOST < 4 ? 4 : MOST];
        if (pairs >= 4) {
#pragma unroll
            for (int q = 0; q < pairs; q += 4)
                load_quad(inverses + q, twiddles, 0, at + q, points / 2, is_aligned(twiddles));
        } else {
#pragma unroll
            for (int q = 0; q < pairs; ++q) inverses[q] = at + q < points / 2 ? twiddles[at + q] : F::zero();
        }
#pragma unroll
        for (int q = 0; q < pairs; ++q) {
            const QM31 low = v[2 * q], high = v[2 * q + 1];
            v[q] = (low + high) + challenges.alphas[step] * ((low - high) * inverses[q]);
        }
    }

#pragma unroll
    for (int d = 0; d < 4; ++d) {
        F* to = out + d * n + first;
        if constexpr (OUT == 2) {
            // `out` is a separate buffer, so an even n suffices for alignment.
            if (n % 2 == 0) {
                *(uint2*)to = make_uint2(v[0].c[d].v, v[1].c[d].v);
                continue;
            }
        }
        *to = v[0].c[d];
    }
}

// out[i] = values[i] - lambda in the first half of the n, + lambda in the second.
__global__ void __launch_bounds__(BLOCK_THREADS)
split_off(Mersenne31* out, const Mersenne31* __restrict__ values, u64 n, QM31 lambda) {
    const u64 first = ((u64)blockIdx.x * BLOCK_THREADS + threadIdx.x) * 4;
    if (first >= n) return;
    QM31 x[4];
    load_quad(x, values, n, first, n, is_wide(values, n));
#pragma unroll
    for (int j = 0; j < 4; ++j) x[j] = first + j < n / 2 ? x[j] - lambda : x[j] + lambda;
    store_quad(out, x, n, first);
}

// to[i] += shorter[lift(i)], slabs of n and n >> log_ratio (see `load_lifted`).
__global__ void __launch_bounds__(BLOCK_THREADS)
add_lifted(Mersenne31* to, const Mersenne31* __restrict__ shorter, u64 n, u32 log_ratio) {
    const u64 first = ((u64)blockIdx.x * BLOCK_THREADS + threadIdx.x) * 4;
    if (first >= n) return;
    QM31 x[4], y[4];
    load_quad(x, to, n, first, n, is_wide(to, n));
    load_lifted(y, shorter, log_ratio, first, n);
#pragma unroll
    for (int j = 0; j < 4; ++j) x[j] += y[j];
    store_quad(to, x, n, first);
}
