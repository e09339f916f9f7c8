// Low-degree extensions of many short columns in one launch.

#include "field/baby_bear.cuh"
#include "field/goldilocks.cuh"
#include "field/koala_bear.cuh"

// Matrices, each with a domain, a shift and a place in the result of its own.
template <class F>
struct ShortMatrices {
    F shifts[MOST_MATRICES];
    F scales[MOST_MATRICES];      // one over the number of rows
    u32 places[MOST_MATRICES];    // of the first value in the result
    u32 blocks[MOST_MATRICES];    // the first thread block: one for each column and coset
    u32 log_rows[MOST_MATRICES];
    u32 reversed[MOST_MATRICES];  // whether the rows come in bit-reversed order
    u32 count;
    u32 log_cosets;
};

// The place of value k in shared memory. Without the gaps, values that are powers of two apart would be in one bank.
__device__ constexpr u32 padded(u32 k) { return k + (k >> 5); }

// Evaluations on the cosets `shift w^rev(b) H`, b < 2^log_cosets, of the polynomials whose evaluations on H are the
// columns of the sources: a block of rows each, in bit-reversed order. w generates the domain that the cosets make up.
//
// A thread block interpolates one column in shared memory (decimation in time, from bit-reversed to natural order),
// multiplies coefficient i by the i-th power of its coset's shift, and evaluates (decimation in frequency, back to
// bit-reversed order). So the blocks of a column's cosets repeat its interpolation: it takes less than waiting for it.
//
// `roots` holds the powers of the root of order 2^(MOST_LOG_ROWS + log_cosets).
template <class F>
__global__ void __launch_bounds__(BLOCK_THREADS)
extend_short(F* __restrict__ out, const F* const* __restrict__ sources, const F* __restrict__ roots,
             ShortMatrices<F> matrices) {
    extern __shared__ __align__(16) unsigned char memory[];  // a column, and half as many roots and one, padded
    u32 number = 0;
    while (number + 1 < matrices.count && blockIdx.x >= matrices.blocks[number + 1]) ++number;
    const u32 log_rows = matrices.log_rows[number], rows = 1u << log_rows, half_rows = rows / 2;
    const u32 log_cosets = matrices.log_cosets, block = blockIdx.x - matrices.blocks[number];
    const u32 column = block >> log_cosets, coset = block & ((1u << log_cosets) - 1);
    F* tile = reinterpret_cast<F*>(memory);
    F* powers = tile + padded(rows);  // of the root w of order 2^log_rows, up to w^(rows / 2) = -1

    const u32 log_step = MOST_LOG_ROWS + log_cosets - log_rows;
    for (u32 i = threadIdx.x; i <= half_rows; i += blockDim.x) powers[padded(i)] = roots[i << log_step];
    const F* source = sources[number] + ((u64)column << log_rows);
    const bool reversed = matrices.reversed[number];
    for (u32 i = threadIdx.x; i < rows; i += blockDim.x)
        tile[padded(reversed ? i : reverse_bits(i, log_rows))] = source[i];
    __syncthreads();

    for (u32 level = 0; level < log_rows; ++level) {
        const u32 half = 1u << level;
        for (u32 i = threadIdx.x; i < half_rows; i += blockDim.x) {
            const u32 low = i & (half - 1), first = padded(2 * i - low), second = padded(2 * i - low + half);
            // w^-k = -w^(rows / 2 - k)
            const F power = powers[padded(half_rows - (low << (log_rows - 1 - level)))];
            const F u = tile[first], v = tile[second] * power;
            tile[first] = u - v;
            tile[second] = u + v;
        }
        __syncthreads();
    }
    const F shift = matrices.shifts[number] * roots[reverse_bits(coset, log_cosets) << (MOST_LOG_ROWS - log_rows)];
    const F step = shift.pow(blockDim.x);
    F factor = matrices.scales[number] * shift.pow(threadIdx.x);
    for (u32 i = threadIdx.x; i < rows; i += blockDim.x) {
        tile[padded(i)] *= factor;
        factor = factor * step;
    }
    __syncthreads();
    for (u32 level = log_rows; level-- > 0;) {
        const u32 half = 1u << level;
        for (u32 i = threadIdx.x; i < half_rows; i += blockDim.x) {
            const u32 low = i & (half - 1), first = padded(2 * i - low), second = padded(2 * i - low + half);
            const F u = tile[first], v = tile[second];
            tile[first] = u + v;
            tile[second] = (u - v) * powers[padded(low << (log_rows - 1 - level))];
        }
        __syncthreads();
    }
    F* target = out + matrices.places[number] + ((u64)block << log_rows);
    for (u32 i = threadIdx.x; i < rows; i += blockDim.x) target[i] = F::from_word(tile[padded(i)].canonical());
}
