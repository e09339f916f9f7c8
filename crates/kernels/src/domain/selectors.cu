// The selectors of the first row, the last row and the transitions of a trace.

#include "field/baby_bear.cuh"
#include "field/goldilocks.cuh"
#include "field/koala_bear.cuh"
#include "field/mersenne31.cuh"
#include "domain/roots.cuh"

// Three columns of `rows` values on a coset in bit-reversed order, given its points x and, in the first two columns,
// 1 / (1 - x) and 1 / (last - x): with z = x^n - 1 = shift^n w^rev(row / n) - 1, w the root of order rows / n,
//   z / (x - 1),  z / (x - last),  x - last.
template <class F>
__global__ void __launch_bounds__(BLOCK_THREADS)
coset_selectors(F* out, const F* __restrict__ points, u64 rows, u32 log_n, F last, F shift_n,
                ReversedPowers<F> powers) {
    const u64 row = (u64)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (row >= rows) return;
    const F negative = F::one() - shift_n * powers.at((u32)(row >> log_n));
    out[row] = out[row] * negative;
    out[rows + row] = out[rows + row] * negative;
    out[2 * rows + row] = points[row] - last;
}

// Three columns of `rows` values in natural order: one in the first row, in the last, in all but the last; else zero.
template <class F>
__global__ void __launch_bounds__(BLOCK_THREADS) trace_selectors(F* out, u64 rows) {
    const u64 row = (u64)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (row >= rows) return;
    out[row] = row == 0 ? F::one() : F::zero();
    out[rows + row] = row + 1 == rows ? F::one() : F::zero();
    out[2 * rows + row] = row + 1 == rows ? F::zero() : F::one();
}
