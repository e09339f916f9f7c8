#pragma once

#include "layout/slab.cuh"

// Four adjacent elements of a slab of 4-byte words; elements from n on do not exist. If the slab is aligned and all
// four exist, each coefficient takes one access. Unlike with `Share`, a thread has the same four elements of every
// slab, aligned or not.

// Whether the slab's columns start at multiples of 16 bytes.
template <class F>
__device__ __forceinline__ bool is_wide(const F* slab, u64 stride) {
    return stride % 4 == 0 && is_aligned(slab);
}

// Elements first .. first + 3 of a slab of `stride`, zero from n on. `first` is a multiple of 4.
template <class E>
__device__ __forceinline__ void load_quad(E* x, const typename E::Base* slab, u64 stride, u64 first, u64 n,
                                          bool wide) {
    typedef typename E::Base F;
    // One branch for all coefficients, so that their loads are in flight together.
    if (wide && first + 4 <= n) {
        load_vector(x, slab + first, stride);
    } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
            for (int d = 0; d < E::DEGREE; ++d)
                coefficient(x[j], d) = first + j < n ? slab[d * stride + first + j] : F::zero();
        }
    }
}

// Writes those of the elements first .. first + 3 that exist in a slab of n. `first` is a multiple of 4.
template <class E>
__device__ __forceinline__ void store_quad(typename E::Base* slab, const E* x, u64 n, u64 first) {
    if (is_wide(slab, n) && first + 4 <= n) {
        store_vector(slab + first, x, n);
    } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (first + j >= n) break;
#pragma unroll
            for (int d = 0; d < E::DEGREE; ++d) slab[d * n + first + j] = coefficient(x[j], d);
        }
    }
}

// A column on a circle domain, lifted to one of 2^log_ratio times as many points: in bit-reversed order, point i of the
// larger domain maps to point (i >> (log_ratio + 1) << 1) + (i & 1) of the smaller. Loads elements first .. first + 3
// of the larger one, which has n; `first` is a multiple of 4, and the smaller has an even number. For log_ratio >= 1
// they are one pair, twice.
template <class E>
__device__ __forceinline__ void load_lifted(E* x, const typename E::Base* slab, u32 log_ratio, u64 first, u64 n) {
    typedef typename E::Base F;
    const u64 stride = n >> log_ratio;
    if (log_ratio == 0) {
        load_quad(x, slab, n, first, n, is_wide(slab, n));
        return;
    }
    x[0] = x[1] = E::zero();
    const F* from = slab + (first >> (log_ratio + 1) << 1);
    if (first < n && ((size_t)slab & 7) == 0) {
#pragma unroll
        for (int d = 0; d < E::DEGREE; ++d) {
            const uint2 words = *(const uint2*)(from + d * stride);
            coefficient(x[0], d) = F::from_word(words.x);
            coefficient(x[1], d) = F::from_word(words.y);
        }
    } else if (first < n) {
#pragma unroll
        for (int d = 0; d < E::DEGREE; ++d) {
            coefficient(x[0], d) = from[d * stride];
            coefficient(x[1], d) = from[d * stride + 1];
        }
    }
    x[2] = x[0];
    x[3] = x[1];
}
