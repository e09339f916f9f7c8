// The quotients of columns opened at points: their numerators, column by column, and their denominators.

#include "domain/circle_domain.cuh"
#include "layout/column.cuh"
#include "layout/quads.cuh"

struct Term {
    QM31 coefficient;
    u32 column;
    u32 padding[3];
};

// The number of terms staged in shared memory at a time, and of columns that a warp loads before it uses them.
constexpr u32 STAGED = 256, COLUMNS = 4;

// out[r] = the sum over the terms of coefficient column[r], minus the constant, for r < rows: a slab. A lane takes four
// rows, and the `term_warps` warps of a block that share rows add their sums in shared memory. Products are accumulated
// without reduction. A column is read once for each term that refers to it.
__global__ void __launch_bounds__(BLOCK_THREADS, 2)
accumulate_terms(Mersenne31* out, const Column* __restrict__ columns, const Term* __restrict__ terms, u32 count,
                 u32 term_warps, u64 rows, QM31 constant) {
    typedef Mersenne31 F;
    __shared__ const F* addresses[STAGED];
    __shared__ __align__(16) F coefficients[STAGED][4];
    __shared__ F others[4][4][BLOCK_THREADS];
    const u32 thread = threadIdx.x, warp = thread / 32, part = warp % term_warps;
    const u64 group = (u64)blockIdx.x * (WARPS / term_warps) + warp / term_warps;
    const u64 first = group * WARP_ROWS + thread % 32 * 4;

    QM31::Sum sums[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) sums[j] = QM31::Sum::zero();
    for (u32 done = 0; done < count; done += STAGED) {
        const u32 here = count - done < STAGED ? count - done : STAGED;
        __syncthreads();
        // Past the last term, load any other column: its coefficient is zero.
        if (thread < (here + COLUMNS - 1) / COLUMNS * COLUMNS) {
            const Term term = terms[done + (thread < here ? thread : 0)];
            addresses[thread] = (const F*)columns[term.column].values;
#pragma unroll
            for (int d = 0; d < 4; ++d)
                coefficients[thread][d] = thread < here ? term.coefficient.c[d] : F::zero();
        }
        __syncthreads();
        for (u32 k = part * COLUMNS; k < here; k += term_warps * COLUMNS) {
            F x[COLUMNS][4];
            const F* column[COLUMNS];
            bool wide = first + 4 <= rows;
#pragma unroll
            for (u32 i = 0; i < COLUMNS; ++i) {
                column[i] = addresses[k + i];
                wide = wide && is_aligned(column[i]);
            }
            // One branch, so that the loads of all columns are in flight together.
            if (wide) {
#pragma unroll
                for (u32 i = 0; i < COLUMNS; ++i) load_quad(x[i], column[i], rows, first, rows, true);
            } else {
#pragma unroll
                for (u32 i = 0; i < COLUMNS; ++i) load_quad(x[i], column[i], rows, first, rows, false);
            }
#pragma unroll
            for (u32 i = 0; i < COLUMNS; ++i) {
                const Vector<F> read = Vector<F>::read(coefficients[k + i]);
                QM31 c;
#pragma unroll
                for (int d = 0; d < 4; ++d) c.c[d] = read.x[d];
#pragma unroll
                for (int j = 0; j < 4; ++j) sums[j].mul_add(c, x[i][j]);
            }
        }
    }

    QM31 total[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) total[j] = sums[j].reduce();
    if (term_warps > 1) {
        if (part != 0) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
#pragma unroll
                for (int d = 0; d < 4; ++d) others[d][j][thread] = total[j].c[d];
            }
        }
        __syncthreads();
        if (part != 0) return;
        for (u32 other = 1; other < term_warps; ++other) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
#pragma unroll
                for (int d = 0; d < 4; ++d) total[j].c[d] += others[d][j][thread + 32 * other];
            }
        }
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) total[j] = total[j] - constant;
    store_quad(out, total, rows, first);
}

// The denominator of one opened point p: with p = Re + Im u over CM31, the line through p and its conjugate has at (x,
// y) the value (Re.x - x) Im.y - (Re.y - y) Im.x = constant - x Im.y + y Im.x.
struct Line {
    QM31 linear;     // times y, subtracted from a numerator
    CM31 constant;
    CM31 x;
    CM31 y;
    u32 log_ratio;   // of the domain's points to the numerators
    u32 padding;
};

// The points of one launch. With `adds`, the quotients are added to the existing values.
struct Lines {
    Line lines[MOST_POINTS];
    u32 count;
    u32 adds;
};

// Inverts N elements with one inversion in the base field, of the product of their norms. If any element
// is zero, all results are zero.
template <int N>
__device__ __forceinline__ void invert_all(CM31 (&x)[N]) {
    typedef Mersenne31 F;
    const F z = F::zero();
    F norms[N], befores[N], product = F::one();
#pragma unroll
    for (int i = 0; i < N; ++i) {
        norms[i] = F::dot(x[i].c[0], x[i].c[0], x[i].c[1], x[i].c[1], z, z, z, z);
        befores[i] = product;
        product = product * norms[i];
    }
    F inverse = product.inverse();
#pragma unroll
    for (int i = N - 1; i >= 0; --i) {
        x[i] = x[i].conjugate() * (inverse * befores[i]);
        inverse = inverse * norms[i];
    }
}

// out[i] = the sum over the points of (lifted(values)[i] - linear y_i) / line(P_i), for the n points P_i of a domain in
// bit-reversed order. A lane takes four adjacent points (see `DomainPoints`) and the four that are 128 points further
// on. The four denominators of each quad are constant +- x Im.y +- y Im.x, and one inversion serves all eight.
__global__ void __launch_bounds__(BLOCK_THREADS, 2)
combine_quotients(Mersenne31* out, u64 n, ReversedCoset half, Lines points, const Mersenne31* values0,
                  const Mersenne31* values1, const Mersenne31* values2, const Mersenne31* values3) {
    const u32 groups = (u32)((n + 255) / 256);
    const u32 warp = (blockIdx.x * BLOCK_THREADS + threadIdx.x) / 32, warps = gridDim.x * WARPS,
              lane = threadIdx.x % 32;
    const DomainPoints domain(half);
    for (u32 group = warp; group < groups; group += warps) {
        const CM31 p = domain.at(2 * group);
        const CM31 at[2] = {p, p * half.steps[6]};
        const u64 first = (u64)group * 256 + lane * 4;
        QM31 total[2][4];
#pragma unroll
        for (int q = 0; q < 2; ++q) {
            if (points.adds) {
                load_quad(total[q], out, n, first + 128 * q, n, is_wide(out, n));
            } else {
#pragma unroll
                for (int j = 0; j < 4; ++j) total[q][j] = QM31::zero();
            }
        }
        for (u32 k = 0; k < points.count; ++k) {
            const Line& line = points.lines[k];
            const Mersenne31* values = k == 0 ? values0 : k == 1 ? values1 : k == 2 ? values2 : values3;
            CM31 inverses[8];
#pragma unroll
            for (int q = 0; q < 2; ++q) {
                const CM31 a = line.x * at[q].c[0], b = line.y * at[q].c[1];
                const CM31 less = line.constant - a, more = line.constant + a;
                inverses[4 * q + 0] = less + b;
                inverses[4 * q + 1] = less - b;
                inverses[4 * q + 2] = more - b;
                inverses[4 * q + 3] = more + b;
            }
            invert_all(inverses);
#pragma unroll
            for (int q = 0; q < 2; ++q) {
                QM31 x[4];
                load_lifted(x, values, line.log_ratio, first + 128 * q, n);
                const QM31 linear = line.linear * at[q].c[1];
                total[q][0] += (x[0] - linear) * inverses[4 * q + 0];
                total[q][1] += (x[1] + linear) * inverses[4 * q + 1];
                total[q][2] += (x[2] + linear) * inverses[4 * q + 2];
                total[q][3] += (x[3] - linear) * inverses[4 * q + 3];
            }
        }
#pragma unroll
        for (int q = 0; q < 2; ++q) store_quad(out, total[q], n, first + 128 * q);
    }
}
