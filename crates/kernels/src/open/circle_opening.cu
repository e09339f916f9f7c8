// Opening columns on a circle domain at a point p of the circle over QM31: weights for evaluations, and the transform's
// basis for coefficients.

#include "domain/circle_domain.cuh"
#include "layout/quads.cuh"

// With p - P = (x', y') for a point P of the domain, weight i is +-scale (1 + x') / y', + for even i. For the four
// points (+-x, +-y) of a lane, a = p.x x, b = p.y y, d = p.y x, e = p.x y:
//   p - (x, y) = (a + b, d - e)        p - (x, -y) = (a - b, d + e)
// and the other two are the negatives. So two of the y' must be inverted, for which one inversion of their product is
// enough. Where p is a point of the domain, scale is zero.
__global__ void __launch_bounds__(BLOCK_THREADS, 3)
circle_weights(Mersenne31* out, u64 n, ReversedCoset half, QM31 px, QM31 py, QM31 scale) {
    const u32 groups = (u32)((n + 127) / 128);
    const u32 warp = (blockIdx.x * BLOCK_THREADS + threadIdx.x) / 32, warps = gridDim.x * (BLOCK_THREADS / 32),
              lane = threadIdx.x % 32;
    const DomainPoints points(half);
    for (u32 group = warp; group < groups; group += warps) {
        const CM31 p = points.at(group);
        const QM31 a = px * p.c[0], b = py * p.c[1], d = py * p.c[0], e = px * p.c[1];
        const QM31 minus = d - e, plus = d + e;
        const QM31 inverse = scale * (minus * plus).inverse();
        const QM31 first = inverse * plus, second = inverse * minus;
        const QM31 s = first * (a + b), t = second * (a - b);
        const QM31 four[4] = {s + first, -t - second, s - first, second - t};
        store_quad(out, four, n, (u64)group * 128 + lane * 4);
    }
}

// The factors m_j of the basis by the bits j of an index, split as a warp uses them.
struct Factors {
    QM31 combined[32];  // the products of the factors of the bits 0, 1, 7, 8 and 9, by those bits
    QM31 lanes[5];      // those of the bits 2 to 6
    QM31 groups[32];    // those of the bits from 10 on, and ones
};

// out[k] = the product of m_j over the bits j of k that are set. A warp computes WARP_ELEMENTS elements: its lanes
// compute the product over the upper bits together, in five products, and each element then costs one.
__global__ void __launch_bounds__(BLOCK_THREADS) circle_basis(Mersenne31* out, u64 n, Factors factors) {
    static_assert(WARP_ELEMENTS == 1024, "bits 0 to 9 of an index are the warp's own");
    const u32 lane = threadIdx.x % 32;
    const u64 group = ((u64)blockIdx.x * BLOCK_THREADS + threadIdx.x) / 32;
    // Unrolled selection keeps the factors as operands from the constant bank.
    QM31 product = QM31::one();
#pragma unroll
    for (int k = 0; k < 32; ++k)
        if (lane == k && (group >> k & 1)) product = factors.groups[k];
#pragma unroll
    for (u32 lanes = 16; lanes > 0; lanes >>= 1) product = product * shuffle_xor(product, lanes);
#pragma unroll
    for (int k = 0; k < 5; ++k)
        if (lane >> k & 1) product = product * factors.lanes[k];
#pragma unroll
    for (int q = 0; q < 8; ++q) {
        const u64 first = group * WARP_ELEMENTS + q * 128 + lane * 4;
        if (first >= n) break;
        QM31 four[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) four[j] = product * factors.combined[4 * q + j];
        store_quad(out, four, n, first);
    }
}
