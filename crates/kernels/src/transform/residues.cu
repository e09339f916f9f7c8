// Polynomials modulo x^m - y for several y.

#include "field/baby_bear.cuh"
#include "field/goldilocks.cuh"
#include "field/koala_bear.cuh"
#include "field/mersenne31.cuh"
#include "domain/roots.cuh"

// out[k][c][i] = sum_j in[c][i + j m] y_k^j for j < 2^LOG_PARTS, i < m, k < blocks, with y_k = shift P(k). A thread
// reads the coefficients of one i, which stay in registers; the columns are along the grid's y axis.
template <class F, int LOG_PARTS>
__global__ void __launch_bounds__(BLOCK_THREADS)
residues(F* __restrict__ out, const F* __restrict__ in, u64 m, u32 blocks, F shift, ReversedPowers<F> powers) {
    constexpr int PARTS = 1 << LOG_PARTS;
    const u64 i = (u64)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (i >= m) return;
    const F* column = in + blockIdx.y * (m << LOG_PARTS);
    F c[PARTS];
#pragma unroll
    for (int j = 0; j < PARTS; ++j) c[j] = column[i + j * m];
    for (u32 k = 0; k < blocks; ++k) {
        const F y = shift * powers.at(k);
        F sum = c[PARTS - 1];
#pragma unroll
        for (int j = PARTS - 2; j >= 0; --j) sum = sum * y + c[j];
        out[((u64)k * gridDim.y + blockIdx.y) * m + i] = sum;
    }
}
