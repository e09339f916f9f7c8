#pragma once

#include "field/extension.cuh"

// Elements in memory. A column of n elements of degree D is a slab: coefficient d of element i is at d n + i, so that
// adjacent threads read adjacent words whatever the degree.

// Coefficient d of an element; an element of a base field is its own only coefficient.
template <class E>
__device__ __forceinline__ typename E::Base& coefficient(E& x, int d) {
    if constexpr (E::DEGREE == 1) return x;
    else return x.c[d];
}
template <class E>
__device__ __forceinline__ const typename E::Base& coefficient(const E& x, int d) {
    if constexpr (E::DEGREE == 1) return x;
    else return x.c[d];
}

// 16 bytes of adjacent values, read and written as one vector access: for a plain struct the compiler would emit one
// access per member.
template <class F>
struct Vector {
    static constexpr int N = 16 / sizeof(F);
    F x[N];

    static __device__ __forceinline__ Vector read(const F* at) {
        Vector values;
        if constexpr (N == 4) {
            const uint4 words = *(const uint4*)at;
            values.x[0] = F::from_word(words.x);
            values.x[1] = F::from_word(words.y);
            values.x[2] = F::from_word(words.z);
            values.x[3] = F::from_word(words.w);
        } else {
            const ulonglong2 words = *(const ulonglong2*)at;
            values.x[0] = F::from_word(words.x);
            values.x[1] = F::from_word(words.y);
        }
        return values;
    }
    __device__ __forceinline__ void write(F* at) const {
        if constexpr (N == 4) *(uint4*)at = make_uint4(x[0].v, x[1].v, x[2].v, x[3].v);
        else *(ulonglong2*)at = make_ulonglong2(x[0].v, x[1].v);
    }
    // The same to global memory, always as one store: the compiler would merge a plain one with the word-wise stores of
    // another branch.
    __device__ __forceinline__ void write_global(F* at) const {
        if constexpr (N == 4) __stwb((uint4*)at, make_uint4(x[0].v, x[1].v, x[2].v, x[3].v));
        else __stwb((ulonglong2*)at, make_ulonglong2(x[0].v, x[1].v));
    }
};

template <class F>
__device__ __forceinline__ bool is_aligned(const F* values) {
    return ((size_t)values & 15) == 0;
}

// N = Vector::N adjacent elements of a slab whose columns are `stride` apart, in one access per coefficient: `at` and
// the columns that follow it are aligned. All accesses are in flight before the first value is used.
template <class E>
__device__ __forceinline__ void load_vector(E* x, const typename E::Base* at, u64 stride) {
    typedef typename E::Base F;
    Vector<F> values[E::DEGREE];
#pragma unroll
    for (int d = 0; d < E::DEGREE; ++d) values[d] = Vector<F>::read(at + d * stride);
#pragma unroll
    for (int d = 0; d < E::DEGREE; ++d) {
#pragma unroll
        for (int j = 0; j < Vector<F>::N; ++j) coefficient(x[j], d) = values[d].x[j];
    }
}

template <class E>
__device__ __forceinline__ void store_vector(typename E::Base* at, const E* x, u64 stride) {
    typedef typename E::Base F;
#pragma unroll
    for (int d = 0; d < E::DEGREE; ++d) {
        Vector<F> values;
#pragma unroll
        for (int j = 0; j < Vector<F>::N; ++j) values.x[j] = coefficient(x[j], d);
        values.write_global(at + d * stride);
    }
}

// Which N = Vector::N elements of a tile of `threads` N elements the thread `thread` takes: if slabs are aligned,
// adjacent elements, in one access per coefficient; otherwise elements `threads` apart, so that a warp's accesses are
// still coalesced.
struct Share {
    u64 first;
    u32 step;

    template <class F>
    static __device__ __forceinline__ Share of(u64 tile, u32 thread, u32 threads, bool wide) {
        Share share;
        share.first = tile + (wide ? thread * Vector<F>::N : thread);
        share.step = wide ? 1 : threads;
        return share;
    }
};

// The elements of a share among the first n of a slab of `stride`, zero beyond them. With step 1, n and `stride` are
// multiples of N.
template <class E>
__device__ __forceinline__ void load_share(E* x, const typename E::Base* slab, u64 n, Share share, u64 stride) {
    typedef typename E::Base F;
    constexpr int N = Vector<F>::N;
    if (share.step == 1) {
#pragma unroll
        for (int j = 0; j < N; ++j) x[j] = E::zero();
        if (share.first < n) load_vector(x, slab + share.first, stride);
    } else {
#pragma unroll
        for (int j = 0; j < N; ++j) {
            const u64 i = share.first + j * share.step;
#pragma unroll
            for (int d = 0; d < E::DEGREE; ++d) coefficient(x[j], d) = i < n ? slab[d * stride + i] : F::zero();
        }
    }
}

// The same for a slab of n.
template <class E>
__device__ __forceinline__ void load_share(E* x, const typename E::Base* slab, u64 n, Share share) {
    load_share(x, slab, n, share, n);
}

// Writes the elements of a share that lie within the slab.
template <class E>
__device__ __forceinline__ void store_share(typename E::Base* slab, const E* x, u64 n, Share share) {
    typedef typename E::Base F;
    constexpr int N = Vector<F>::N;
    if (share.step == 1) {
        if (share.first < n) store_vector(slab + share.first, x, n);
    } else {
#pragma unroll
        for (int j = 0; j < N; ++j) {
            const u64 i = share.first + j * share.step;
            if (i >= n) continue;
#pragma unroll
            for (int d = 0; d < E::DEGREE; ++d) slab[d * n + i] = coefficient(x[j], d);
        }
    }
}

// The element of the lane `delta` below; the lowest lanes get their own.
template <class E>
__device__ __forceinline__ E shuffle_up(E x, u32 delta) {
#pragma unroll
    for (int d = 0; d < E::DEGREE; ++d)
        coefficient(x, d) = E::Base::from_word(__shfl_up_sync(0xffffffffu, coefficient(x, d).v, delta));
    return x;
}

// The element of the lane whose number differs in these bits.
template <class E>
__device__ __forceinline__ E shuffle_xor(E x, u32 bits) {
#pragma unroll
    for (int d = 0; d < E::DEGREE; ++d)
        coefficient(x, d) = E::Base::from_word(__shfl_xor_sync(0xffffffffu, coefficient(x, d).v, bits));
    return x;
}

// The sum over the lanes of a warp, in every lane.
template <class E>
__device__ __forceinline__ E warp_sum(E x) {
#pragma unroll
    for (u32 bit = 16; bit > 0; bit >>= 1) x = x + shuffle_xor(x, bit);
    return x;
}

// Broadcasts the element of one lane.
template <class E>
__device__ __forceinline__ E broadcast(E x, u32 lane) {
#pragma unroll
    for (int d = 0; d < E::DEGREE; ++d)
        coefficient(x, d) = E::Base::from_word(__shfl_sync(0xffffffffu, coefficient(x, d).v, lane));
    return x;
}
