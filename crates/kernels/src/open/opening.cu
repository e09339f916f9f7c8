// Opening committed matrices at points outside their domain: the steps before and after the sums of reduce.cu.

#include "domain/roots.cuh"
#include "layout/slab.cuh"

// out[i] = points[i] inverses[i] scale for i < n, where `inverses` is a slab of `stride` elements, at least n.
template <class E>
__global__ void __launch_bounds__(BLOCK_THREADS)
barycentric_weights(typename E::Base* out, const typename E::Base* __restrict__ points,
                    const typename E::Base* __restrict__ inverses, u64 stride, u64 n, E scale) {
    typedef typename E::Base F;
    constexpr int N = Vector<F>::N;
    const bool wide =
        n % N == 0 && stride % N == 0 && is_aligned(points) && is_aligned(inverses) && is_aligned(out);
    const Share share = Share::of<F>((u64)blockIdx.x * (BLOCK_THREADS * N), threadIdx.x, BLOCK_THREADS, wide);
    F x[N];
    E d[N];
    load_share(x, points, n, share);
    load_share(d, inverses, n, share, stride);
#pragma unroll
    for (int j = 0; j < N; ++j) d[j] = d[j] * x[j] * scale;
    store_share(out, d, n, share);
}

// Up to MOST_CLAIMS claims on one matrix, and how the work is split.
template <class E>
struct Quotients {
    E scales[MOST_CLAIMS];
    E values[MOST_CLAIMS];
    u64 strides[MOST_CLAIMS];     // the elements of the slabs of inverses, `rows` or more
    u64 rows;
    u64 powers_stride;  // the elements of the slab of powers, `columns` or more
    u32 columns;
    u32 column_warps;   // warps of a block that share rows, each with columns of its own
};

// The number of powers of alpha staged in shared memory at a time, and of columns that a warp loads before it uses
// them.
constexpr u32 STAGED = 512, COLUMNS = 4;

// With m[r] = sum_c alpha^c matrix[r][c],
//   reduced[r] (+)= sum_k scales[k] (values[k] - m[r]) inverses_k[r],
// for the claims k < CLAIMS: added to what is there, or written. The matrix is read once, in vectors, with four columns
// per warp in flight; the warps that share rows add their sums in shared memory.
template <class E, int CLAIMS>
__global__ void __launch_bounds__(BLOCK_THREADS, 2)
accumulate_quotients(typename E::Base* reduced, const typename E::Base* __restrict__ matrix,
                     const typename E::Base* __restrict__ powers, const typename E::Base* __restrict__ inverses0,
                     const typename E::Base* __restrict__ inverses1, Quotients<E> quotients, u32 accumulate) {
    typedef typename E::Base F;
    constexpr int N = Vector<F>::N;
    __shared__ __align__(16) F staged[E::DEGREE][STAGED];
    __shared__ F others[E::DEGREE][N][BLOCK_THREADS];
    const u64 rows = quotients.rows;
    const u32 columns = quotients.columns, column_warps = quotients.column_warps, thread = threadIdx.x;
    const u32 warp = thread / 32, part = warp % column_warps;
    bool wide = rows % N == 0 && is_aligned(reduced) && is_aligned(matrix);
#pragma unroll
    for (int k = 0; k < CLAIMS; ++k)
        wide = wide && quotients.strides[k] % N == 0 && is_aligned(k == 0 ? inverses0 : inverses1);
    const u64 group = (u64)blockIdx.x * (WARPS / column_warps) + warp / column_warps;
    const Share share = Share::of<F>(group * (32 * N), thread % 32, 32, wide);

    typename E::Sum sums[N];
#pragma unroll
    for (int j = 0; j < N; ++j) sums[j] = E::Sum::zero();
    for (u32 first = 0; first < columns; first += STAGED) {
        const u32 count = columns - first < STAGED ? columns - first : STAGED;
        __syncthreads();
        for (u32 i = thread; i < (count + COLUMNS - 1) / COLUMNS * COLUMNS; i += BLOCK_THREADS) {
#pragma unroll
            for (int d = 0; d < E::DEGREE; ++d)
                staged[d][i] = i < count ? powers[d * quotients.powers_stride + first + i] : F::zero();
        }
        __syncthreads();
        for (u32 c = part * COLUMNS; c < count; c += column_warps * COLUMNS) {
            F x[COLUMNS][N];
            E alpha[COLUMNS];
#pragma unroll
            for (u32 i = 0; i < COLUMNS; ++i) {
                // Past the last column, load any other: its power is zero.
                const u32 column = first + (c + i < count ? c + i : c);
                load_share(x[i], matrix + column * rows, rows, share);
            }
#pragma unroll
            for (int d = 0; d < E::DEGREE; ++d) {
#pragma unroll
                for (u32 i = 0; i < COLUMNS; i += N) {
                    const Vector<F> read = Vector<F>::read(&staged[d][c + i]);
#pragma unroll
                    for (int j = 0; j < N; ++j) coefficient(alpha[i + j], d) = read.x[j];
                }
            }
#pragma unroll
            for (u32 i = 0; i < COLUMNS; ++i) {
#pragma unroll
                for (int j = 0; j < N; ++j) sums[j].mul_add(alpha[i], x[i][j]);
            }
        }
    }

    E m[N];
#pragma unroll
    for (int j = 0; j < N; ++j) m[j] = sums[j].reduce();
    if (column_warps > 1) {
        if (part != 0) {
#pragma unroll
            for (int j = 0; j < N; ++j) {
#pragma unroll
                for (int d = 0; d < E::DEGREE; ++d) others[d][j][thread] = coefficient(m[j], d);
            }
        }
        __syncthreads();
        if (part != 0) return;
        for (u32 other = 1; other < column_warps; ++other) {
#pragma unroll
            for (int j = 0; j < N; ++j) {
#pragma unroll
                for (int d = 0; d < E::DEGREE; ++d)
                    coefficient(m[j], d) = coefficient(m[j], d) + others[d][j][thread + 32 * other];
            }
        }
    }

    E total[N];
    if (accumulate) {
        load_share(total, reduced, rows, share);
    } else {
#pragma unroll
        for (int j = 0; j < N; ++j) total[j] = E::zero();
    }
#pragma unroll
    for (int k = 0; k < CLAIMS; ++k) {
        E inverse[N];
        load_share(inverse, k == 0 ? inverses0 : inverses1, rows, share, quotients.strides[k]);
#pragma unroll
        for (int j = 0; j < N; ++j)
            total[j] = total[j] + quotients.scales[k] * (quotients.values[k] - m[j]) * inverse[j];
    }
    store_share(reduced, total, rows, share);
}
