// Openings of many short matrices in one launch. With few rows, launches cost more than the memory traffic that the
// kernels of reduce.cu and opening.cu save.

#include "layout/slab.cuh"

// A matrix whose columns are evaluated at `points` points.
template <class E>
struct Evaluation {
    E scales[MOST_POINTS];
    u64 strides[MOST_POINTS];  // the elements of the slabs of inverses, `rows` or more
    u64 stride;                // from one column to the next
    u64 place;                 // of the first result's first coefficient
    u64 rows;                  // the first rows of each column, all or fewer
    u32 columns;
    u32 points;
};

// For each column c and point k of evaluation e = blockIdx.y,
//   scales[k] sum_r xs[r] inverses_k[r] matrix[r][c]
// at out[place + (k columns + c) DEGREE]. The addresses are those of the matrix and of the slabs of inverses, one for
// each of MOST_POINTS, evaluation after evaluation. A block takes COLUMNS adjacent columns.
template <class E, int COLUMNS>
__global__ void __launch_bounds__(BLOCK_THREADS, 2)
evaluate_matrices(typename E::Base* out, const Evaluation<E>* evaluations,
                  const typename E::Base* const* addresses, const typename E::Base* xs) {
    typedef typename E::Base F;
    constexpr int N = Vector<F>::N;
    __shared__ E warps[MOST_POINTS][COLUMNS][WARPS];
    const Evaluation<E>& evaluation = evaluations[blockIdx.y];
    const u64 rows = evaluation.rows, stride = evaluation.stride;
    const u32 first = blockIdx.x * COLUMNS, columns = evaluation.columns, points = evaluation.points;
    if (first >= columns) return;
    addresses += (u64)blockIdx.y * (1 + MOST_POINTS);
    const F* matrix = addresses[0] + first * stride;
    const u32 present = columns - first;
    bool wide = rows % N == 0 && stride % N == 0 && is_aligned(matrix) && is_aligned(xs);
#pragma unroll
    for (int k = 0; k < MOST_POINTS; ++k)
        wide = wide && evaluation.strides[k] % N == 0 && is_aligned(addresses[1 + k]);

    typename E::Sum sums[MOST_POINTS][COLUMNS];
#pragma unroll
    for (int k = 0; k < MOST_POINTS; ++k) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) sums[k][c] = E::Sum::zero();
    }
    for (u64 row = 0; row < rows; row += BLOCK_THREADS * N) {
        const Share share = Share::of<F>(row, threadIdx.x, BLOCK_THREADS, wide);
        F x[N], values[COLUMNS][N];
        E weights[MOST_POINTS][N];
        load_share(x, xs, rows, share);
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c)
            load_share(values[c], matrix + (c < present ? c : 0) * stride, rows, share, stride);
#pragma unroll
        for (int k = 0; k < MOST_POINTS; ++k)
            if (k < points) load_share(weights[k], addresses[1 + k], rows, share, evaluation.strides[k]);
#pragma unroll
        for (int k = 0; k < MOST_POINTS; ++k) {
            if (k >= points) break;
#pragma unroll
            for (int j = 0; j < N; ++j) {
                const E weight = weights[k][j] * x[j];
#pragma unroll
                for (int c = 0; c < COLUMNS; ++c) sums[k][c].mul_add(weight, values[c][j]);
            }
        }
    }
#pragma unroll
    for (int k = 0; k < MOST_POINTS; ++k) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            const E sum = warp_sum(sums[k][c].reduce());
            if (threadIdx.x % 32 == 0) warps[k][c][threadIdx.x / 32] = sum;
        }
    }
    __syncthreads();
    const u32 k = threadIdx.x / COLUMNS, c = threadIdx.x % COLUMNS;
    if (k >= points || c >= present) return;
    E sum = warps[k][c][0];
    for (u32 warp = 1; warp < WARPS; ++warp) sum = sum + warps[k][c][warp];
    sum = sum * evaluation.scales[k];
#pragma unroll
    for (int d = 0; d < E::DEGREE; ++d)
        out[evaluation.place + ((u64)k * columns + first + c) * E::DEGREE + d] = coefficient(sum, d);
}

// Up to PIECE adjacent columns p_c of a matrix, whose part of the matrix's combination is
// m = sum_c alpha^(first_power + c) p_c, and `claims` claims on it.
template <class E>
struct Piece {
    E scales[MOST_POINTS];
    E values[MOST_POINTS];
    u64 strides[MOST_POINTS];  // the elements of the slabs of inverses, as many as there are rows or more
    u32 first_power;
    u32 columns;
    u32 claims;
    u32 padding;
};

// For each of several heights: its number of rows, the place of its results, and its pieces.
struct Heights {
    u64 rows[MOST_HEIGHTS];
    u64 place[MOST_HEIGHTS];
    u32 first[MOST_HEIGHTS];
    u32 pieces[MOST_HEIGHTS];
};

// For each row r of height h = blockIdx.y, the sum over its pieces and their claims k of
//   scales[k] (values[k] - m[r]) inverses_k[r],
// as element r of the slab at out[place]. The addresses are those of the columns and of the slabs of inverses, one for
// each of MOST_POINTS, piece after piece. A block takes 32 rows; its warps take turns at the pieces.
template <class E>
__global__ void __launch_bounds__(BLOCK_THREADS)
reduce_heights(typename E::Base* out, const Piece<E>* pieces, const typename E::Base* const* addresses,
               const typename E::Base* powers, u64 powers_stride, Heights heights) {
    typedef typename E::Base F;
    __shared__ F totals[E::DEGREE][BLOCK_THREADS];
    const u64 rows = heights.rows[blockIdx.y];
    const u64 row = (u64)blockIdx.x * 32 + threadIdx.x % 32;
    if ((u64)blockIdx.x * 32 >= rows) return;
    const u32 first = heights.first[blockIdx.y], end = first + heights.pieces[blockIdx.y];

    E total = E::zero();
    for (u32 i = first + threadIdx.x / 32; i < end && row < rows; i += WARPS) {
        const Piece<E>& piece = pieces[i];
        const F* const* of = addresses + (u64)i * (1 + MOST_POINTS);
        F x[PIECE];
#pragma unroll
        for (u32 c = 0; c < PIECE; ++c) x[c] = c < piece.columns ? of[0][c * rows + row] : F::zero();
        E inverses[MOST_POINTS];
#pragma unroll
        for (int k = 0; k < MOST_POINTS; ++k) {
#pragma unroll
            for (int d = 0; d < E::DEGREE; ++d)
                coefficient(inverses[k], d) = of[1 + k][d * piece.strides[k] + row];
        }
        typename E::Sum sum = E::Sum::zero();
#pragma unroll
        for (u32 c = 0; c < PIECE; ++c) {
            // Past the last column, the value is zero: read any power.
            const u32 power = piece.first_power + (c < piece.columns ? c : 0);
            E alpha;
#pragma unroll
            for (int d = 0; d < E::DEGREE; ++d) coefficient(alpha, d) = powers[d * powers_stride + power];
            sum.mul_add(alpha, x[c]);
        }
        const E m = sum.reduce();
#pragma unroll
        for (int k = 0; k < MOST_POINTS; ++k)
            if (k < piece.claims) total = total + piece.scales[k] * (piece.values[k] - m) * inverses[k];
    }
#pragma unroll
    for (int d = 0; d < E::DEGREE; ++d) totals[d][threadIdx.x] = coefficient(total, d);
    __syncthreads();
    if (threadIdx.x >= 32 || row >= rows) return;
#pragma unroll
    for (int d = 0; d < E::DEGREE; ++d) {
        F sum = totals[d][threadIdx.x];
        for (u32 warp = 1; warp < WARPS; ++warp) sum = sum + totals[d][threadIdx.x + 32 * warp];
        out[heights.place[blockIdx.y] + d * rows + row] = sum;
    }
}
