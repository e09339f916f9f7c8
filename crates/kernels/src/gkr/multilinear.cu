// Multilinear polynomials over Stwo's fields, as their values on the hypercube: fixing variables, eq(x, y), the layers
// of GKR's binary trees, and the sums of its sumchecks. Values of QM31 are slabs, those of Mersenne31 columns.

#include "layout/quads.cuh"

typedef Mersenne31 M31;

// The numerator of a fraction 1 / d: a constant that needs no memory and no products.
struct One {
    typedef M31 Base;
    static constexpr int DEGREE = 0;

    __device__ __forceinline__ One double_() const { return *this; }
    // Only used as 2 - 1, the value at 2 of the polynomial that is 1 at 0 and at 1.
    __device__ __forceinline__ One operator-(One) const { return *this; }
    friend __device__ __forceinline__ QM31 operator*(const QM31& x, One) { return x; }
};

// out[i] = (1 - r) values[i] + r values[half + i] for i < half, r = assignment: the slab of the polynomial with its
// first variable fixed to r. E is QM31 or M31. A thread computes 16 bytes of each coefficient.
template <class E>
__global__ void __launch_bounds__(BLOCK_THREADS)
fix_first_variable(M31* out, const M31* __restrict__ values, u64 half, QM31 assignment) {
    constexpr int N = Vector<M31>::N;
    const bool wide = half % N == 0 && is_aligned(values);
    const Share share = Share::of<M31>((u64)blockIdx.x * (BLOCK_THREADS * N), threadIdx.x, BLOCK_THREADS, wide);
    E low[N], high[N];
    load_share(low, values, half, share, 2 * half);
    load_share(high, values + half, half, share, 2 * half);
    QM31 fixed[N];
#pragma unroll
    for (int j = 0; j < N; ++j) fixed[j] = assignment * (high[j] - low[j]) + low[j];
    store_share(out, fixed, half, share);
}

// The factor for bit k of an index: at_one[k] = y and at_zero[k] = 1 - y for the variable of that bit, one for bits
// without a variable.
struct EqFactors {
    QM31 at_zero[EQ_BITS];
    QM31 at_one[EQ_BITS];
    QM31 start;
};

__device__ __forceinline__ QM31 choose(u32 bit, const QM31& zero, const QM31& one) {
    QM31 x;
#pragma unroll
    for (int d = 0; d < QM31::DEGREE; ++d) x.c[d] = M31::from_word(bit != 0 ? one.c[d].v : zero.c[d].v);
    return x;
}

// out[i] = start prod_k (bit k of i ? at_one : at_zero)[k] for i < n = 2^variables: eq(x, y) times start. A block
// computes 2^log_turns <= MOST_TURNS tiles of EQ_TILE elements, a thread four adjacent elements of each. The product
// over an element's lowest ten bits is computed once; the products over the other bits, one per tile, are shared, and
// cost one product per element.
__global__ void __launch_bounds__(BLOCK_THREADS) eq_evals(M31* out, u32 variables, u32 log_turns, EqFactors factors) {
    static_assert(EQ_TILE == 1024 && EQ_TILE == 4 * BLOCK_THREADS, "a tile is ten bits of an index");
    __shared__ QM31 upper[MOST_TURNS];
    const u64 n = 1ull << variables;
    const u32 turns = 1u << log_turns, first_tile = blockIdx.x << log_turns;
    if (threadIdx.x < turns) {
        QM31 product = factors.start;
#pragma unroll 1
        for (u32 k = 10; k < variables; ++k)
            product = product * choose((first_tile + threadIdx.x) >> (k - 10) & 1, factors.at_zero[k],
                                       factors.at_one[k]);
        upper[threadIdx.x] = product;
    }
    QM31 lower[4];
    lower[0] = choose(threadIdx.x & 1, factors.at_zero[2], factors.at_one[2]);
#pragma unroll
    for (int k = 1; k < 8; ++k)
        lower[0] = lower[0] * choose(threadIdx.x >> k & 1, factors.at_zero[2 + k], factors.at_one[2 + k]);
    lower[2] = lower[0] * factors.at_one[1];
    lower[0] = lower[0] * factors.at_zero[1];
    lower[1] = lower[0] * factors.at_one[0];
    lower[3] = lower[2] * factors.at_one[0];
    lower[0] = lower[0] * factors.at_zero[0];
    lower[2] = lower[2] * factors.at_zero[0];
    __syncthreads();

    for (u32 turn = 0; turn < turns; ++turn) {
        const u64 first = (u64)(first_tile + turn) * EQ_TILE + threadIdx.x * 4;
        if (first >= n) return;
        const QM31 scale = upper[turn];
        QM31 x[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) x[j] = scale * lower[j];
        // `out` is a separate buffer, so n of at least four suffices for alignment.
        if (n >= 4) {
            Share share;
            share.first = first;
            share.step = 1;
            store_share(out, x, n, share);
        } else {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                if (j >= n) break;
#pragma unroll
                for (int d = 0; d < QM31::DEGREE; ++d) out[d * n + j] = x[j].c[d];
            }
        }
    }
}

// Numerators that are all one are not stored.
__device__ __forceinline__ void load_quad(One*, const M31*, u64, u64, u64, bool) {}

// Elements first and first + 1, first even, of a slab of n.
__device__ __forceinline__ void store_two(M31* slab, const QM31 (&x)[2], u64 n, u64 first) {
    if (first >= n) return;
#pragma unroll
    for (int d = 0; d < QM31::DEGREE; ++d) {
        M31* to = slab + d * n + first;
        // The slab is a separate buffer, so an even n suffices for alignment.
        if (n % 2 == 0) {
            *(uint2*)to = make_uint2(x[0].c[d].v, x[1].c[d].v);
        } else {
            to[0] = x[0].c[d];
        }
    }
}

// out[i] = values[2i] values[2i + 1] for i < half: the layer above a layer of products. A thread computes two.
__global__ void __launch_bounds__(BLOCK_THREADS) next_products(M31* out, const M31* __restrict__ values, u64 half) {
    const u64 first = ((u64)blockIdx.x * BLOCK_THREADS + threadIdx.x) * 2;
    QM31 x[4];
    load_quad(x, values, 2 * half, 2 * first, 2 * half, half % 2 == 0 && is_aligned(values));
    const QM31 products[2] = {x[0] * x[1], x[2] * x[3]};
    store_two(out, products, half, first);
}

// a / c + b / d as a fraction; with numerators One, the only product is that of the denominators.
template <class E>
__device__ __forceinline__ void add_fractions(QM31& numerator, QM31& denominator, const E& a, const QM31& c,
                                              const E& b, const QM31& d) {
    numerator = d * a + c * b;
    denominator = c * d;
}

// The sums of adjacent fractions, numerators of type E (QM31, M31 or One) over denominators of QM31: the layer above a
// layer of fractions. A thread computes two.
template <class E>
__global__ void __launch_bounds__(BLOCK_THREADS)
next_fractions(M31* out_numerators, M31* out_denominators, const M31* __restrict__ numerators,
               const M31* __restrict__ denominators, u64 half) {
    const u64 n = 2 * half, first = ((u64)blockIdx.x * BLOCK_THREADS + threadIdx.x) * 2;
    E a[4];
    QM31 c[4];
    load_quad(a, numerators, n, 2 * first, n, half % 2 == 0 && is_aligned(numerators));
    load_quad(c, denominators, n, 2 * first, n, half % 2 == 0 && is_aligned(denominators));
    QM31 above[2], below[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) add_fractions(above[j], below[j], a[2 * j], c[2 * j], a[2 * j + 1], c[2 * j + 1]);
    store_two(out_numerators, above, half, first);
    store_two(out_denominators, below, half, first);
}

// parts[(4 s + d) blocks + b]: coefficient d of the sum of sums[s] over the threads of block b. All threads of the
// block must call it.
__device__ __forceinline__ void store_block_sums(M31* parts, const QM31 (&sums)[2]) {
    __shared__ QM31 warps[2][BLOCK_THREADS / 32];
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int s = 0; s < 2; ++s) {
        const QM31 sum = warp_sum(sums[s]);
        if (lane == 0) warps[s][warp] = sum;
    }
    __syncthreads();
    if (threadIdx.x >= 8) return;
    const u32 s = threadIdx.x / 4, d = threadIdx.x % 4;
    M31 sum = warps[s][0].c[d];
#pragma unroll
    for (int i = 1; i < BLOCK_THREADS / 32; ++i) sum = sum + warps[s][i].c[d];
    parts[(u64)threadIdx.x * gridDim.x + blockIdx.x] = sum;
}

// For each choice of the other variables, a layer's polynomial is linear in its first variable t, with its values at t
// = 0 in the first half of the slab and those at t = 1 in the second. So its value at 2 is twice the second minus the
// first.
template <class E>
__device__ __forceinline__ void value_at_2(E* x, const E* at_0, const E* at_1) {
#pragma unroll
    for (int j = 0; j < 4; ++j) x[j] = at_1[j].double_() - at_0[j];
}

// The weights of a sum: the first `terms` of a slab of `stride`.
struct Terms {
    u64 terms;
    u64 stride;
};

// eq[first] and eq[first + 1], zero beyond the terms.
__device__ __forceinline__ void load_weights(QM31 (&x)[2], const M31* eq, Terms of, u64 first) {
    const bool wide = of.terms % 2 == 0 && of.stride % 2 == 0 && ((size_t)eq & 7) == 0;
#pragma unroll
    for (int d = 0; d < QM31::DEGREE; ++d) {
        const M31* from = eq + d * of.stride + first;
        if (wide) {
            const uint2 words = *(const uint2*)from;
            x[0].c[d] = M31::from_word(words.x);
            x[1].c[d] = M31::from_word(words.y);
        } else {
#pragma unroll
            for (int j = 0; j < 2; ++j) x[j].c[d] = first + j < of.terms ? from[j] : M31::zero();
        }
    }
}

// The partial sums of sum_i eq[i] values(t, i, 0) values(t, i, 1) at t = 0 and t = 2, i < terms, with `values` a slab
// of 4 terms elements. A thread takes two adjacent terms per iteration.
__global__ void __launch_bounds__(BLOCK_THREADS)
product_sums(M31* parts, const M31* __restrict__ eq, Terms of, const M31* __restrict__ values) {
    const u64 half = 2 * of.terms, n = 2 * half;
    const bool wide = half % 4 == 0 && is_aligned(values);
    QM31 sums[2] = {QM31::zero(), QM31::zero()};
    for (u64 first = ((u64)blockIdx.x * BLOCK_THREADS + threadIdx.x) * 2; first < of.terms;
         first += (u64)gridDim.x * TERMS_PER_TURN) {
        QM31 weights[2], at_0[4], at_1[4], at_2[4];
        load_weights(weights, eq, of, first);
        load_quad(at_0, values, n, 2 * first, half, wide);
        load_quad(at_1, values + half, n, 2 * first, half, wide);
        value_at_2(at_2, at_0, at_1);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            sums[0] = sums[0] + weights[j] * (at_0[2 * j] * at_0[2 * j + 1]);
            sums[1] = sums[1] + weights[j] * (at_2[2 * j] * at_2[2 * j + 1]);
        }
    }
    store_block_sums(parts, sums);
}

// The same for fractions: the partial sums of sum_i eq[i] (a + lambda c)(t, i), where a / c is the sum of the fractions
// at (t, i, 0) and (t, i, 1), numerators of type E (QM31, M31 or One) over denominators of QM31.
template <class E>
__global__ void __launch_bounds__(BLOCK_THREADS)
fraction_sums(M31* parts, const M31* __restrict__ eq, Terms of, const M31* __restrict__ numerators,
              const M31* __restrict__ denominators, QM31 lambda) {
    const u64 half = 2 * of.terms, n = 2 * half;
    const bool wide_numerators = half % 4 == 0 && is_aligned(numerators);
    const bool wide_denominators = half % 4 == 0 && is_aligned(denominators);
    QM31 sums[2] = {QM31::zero(), QM31::zero()};
    for (u64 first = ((u64)blockIdx.x * BLOCK_THREADS + threadIdx.x) * 2; first < of.terms;
         first += (u64)gridDim.x * TERMS_PER_TURN) {
        E a_0[4], a_1[4], a_2[4];
        QM31 weights[2], c_0[4], c_1[4], c_2[4];
        load_weights(weights, eq, of, first);
        load_quad(a_0, numerators, n, 2 * first, half, wide_numerators);
        load_quad(a_1, numerators + half, n, 2 * first, half, wide_numerators);
        load_quad(c_0, denominators, n, 2 * first, half, wide_denominators);
        load_quad(c_1, denominators + half, n, 2 * first, half, wide_denominators);
        value_at_2(a_2, a_0, a_1);
        value_at_2(c_2, c_0, c_1);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const int k = 2 * j, l = 2 * j + 1;
            QM31 a, c;
            add_fractions(a, c, a_0[k], c_0[k], a_0[l], c_0[l]);
            sums[0] = sums[0] + weights[j] * (a + lambda * c);
            add_fractions(a, c, a_2[k], c_2[k], a_2[l], c_2[l]);
            sums[1] = sums[1] + weights[j] * (a + lambda * c);
        }
    }
    store_block_sums(parts, sums);
}
