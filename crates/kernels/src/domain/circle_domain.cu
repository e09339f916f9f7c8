// The points of a circle domain, and the twiddles of the transforms on it.

#include "domain/circle_domain.cuh"
#include "layout/quads.cuh"

// The first points of a coset of 2^log_size points and of the cosets obtained by repeatedly doubling its points.
struct Doublings {
    CM31 initials[DOUBLINGS];
};

// The layer that contains word p of the twiddle tower of n = 2^log_size words: layer d, the coset doubled d times, has
// n / 2^(d + 1) words starting at n - n / 2^d. p < n - 1.
__device__ __forceinline__ u32 layer_of(u32 p, u32 log_size) {
    const u32 last = (1u << log_size) - 1 - p;
    return log_size - (32 - __clz(last));
}

// Word i of layer d is the x coordinate of the point with bit-reversed index 2 i of the coset doubled d times. The
// steps of the original coset serve all layers, since 2^d S is the step of the coset of 2^(l - d) points. A warp
// computes 128 words of one layer, four per lane; the last 128 words span several layers and take one product per bit.
// The very last word pads the tower to a power of two, and is 1.
__global__ void __launch_bounds__(BLOCK_THREADS)
circle_twiddles(Mersenne31* out, u32 log_size, ReversedCoset coset, Doublings doublings) {
    typedef Mersenne31 F;
    const u32 n = 1u << log_size, groups = n > 128 ? n / 128 : 1;
    const u32 warp = (blockIdx.x * BLOCK_THREADS + threadIdx.x) / 32, warps = gridDim.x * (BLOCK_THREADS / 32),
              lane = threadIdx.x % 32;
    const WarpPoints<3> points(coset);
    for (u32 group = warp; group < groups; group += warps) {
        const u32 first = group * 128 + lane * 4;
        F x[4];
        if (group + 1 < groups) {
            const u32 layer = layer_of(group * 128, log_size);
            const u32 begin = n - (n >> layer);
            const CM31 p = doublings.initials[layer] * points.at(group - begin / 128);
            const CM31 q = p * coset.steps[2];
            x[0] = p.c[0];
            x[1] = (p * coset.steps[1]).c[0];
            x[2] = q.c[0];
            x[3] = (q * coset.steps[1]).c[0];
        } else {
            for (u32 j = 0; j < 4; ++j) {
                x[j] = F::one();
                if (first + j + 1 >= n) continue;
                const u32 layer = layer_of(first + j, log_size);
                const u32 i = first + j - (n - (n >> layer));
                CM31 p = doublings.initials[layer];
#pragma unroll
                for (int k = 0; k < 6; ++k)
                    if (i >> k & 1) p = p * coset.steps[k + 1];
                x[j] = p.c[0];
            }
        }
        store_quad(out, x, n, first);
    }
}

// The points of a domain in bit-reversed order: n x coordinates, then n y coordinates.
__global__ void __launch_bounds__(BLOCK_THREADS) circle_points(Mersenne31* out, u64 n, ReversedCoset half) {
    typedef Mersenne31 F;
    const u32 groups = (u32)((n + 127) / 128);
    const u32 warp = (blockIdx.x * BLOCK_THREADS + threadIdx.x) / 32, warps = gridDim.x * (BLOCK_THREADS / 32),
              lane = threadIdx.x % 32;
    const DomainPoints points(half);
    for (u32 group = warp; group < groups; group += warps) {
        const CM31 p = points.at(group);
        const F x = p.c[0], y = p.c[1];
        const CM31 four[4] = {CM31::from_parts(x, y), CM31::from_parts(x, -y), CM31::from_parts(-x, -y),
                              CM31::from_parts(-x, y)};
        store_quad(out, four, n, (u64)group * 128 + lane * 4);
    }
}
