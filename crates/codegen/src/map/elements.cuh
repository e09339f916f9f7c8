#pragma once

#include "number/number.cuh"

// The parts that every kernel of an expression is written with.

constexpr u32 THREADS = 256;

// N neighbouring elements, read and written in as few accesses as their bytes allow, of at most 16 bytes each.
template <int BYTES> struct Access { typedef unsigned char Word; };
template <> struct Access<4> { typedef u32 Word; };
template <> struct Access<8> { typedef uint2 Word; };
template <> struct Access<16> { typedef uint4 Word; };

template <class T, int N>
struct Pack {
    static constexpr int BYTES = sizeof(T) * N;
    static constexpr int STEP = BYTES % 16 == 0 ? 16 : BYTES % 8 == 0 ? 8 : BYTES % 4 == 0 ? 4 : 1;
    typedef typename Access<STEP>::Word Word;

    union {
        Word word[BYTES / STEP];
        T x[N];
    };

    static __device__ __forceinline__ bool fits(const T* at) { return (size_t)at % STEP == 0; }
    __device__ __forceinline__ void load(const T* at) {
#pragma unroll
        for (int i = 0; i < BYTES / STEP; ++i) word[i] = ((const Word*)at)[i];
    }
    __device__ __forceinline__ void store(T* at) const {
#pragma unroll
        for (int i = 0; i < BYTES / STEP; ++i) ((Word*)at)[i] = word[i];
    }
};

// The value whose bytes are the lowest of three words.
template <class T>
__device__ __forceinline__ T scalar(u64 a, u64 b, u64 c) {
    union {
        u64 word[4];
        T x;
    };
    word[0] = a;
    word[1] = b;
    word[2] = c;
    return x;
}

// n / d for n < 2^31, with the multiplier and the shift that belong to d: n + high(n m) does not overflow.
__device__ __forceinline__ u32 quotient(u32 n, u64, u64 magic) {
    return (__umulhi(n, (u32)magic) + n) >> (u32)(magic >> 32);
}
__device__ __forceinline__ u64 quotient(u64 n, u64 d, u64) { return n / d; }

// The value of the lane whose number differs in these bits.
template <class T>
__device__ __forceinline__ T shuffle(T value, u32 bits) {
    constexpr int WORDS = (sizeof(T) + 3) / 4;
    union Words {
        u32 word[WORDS];
        T x;
    } words;
    words.word[0] = 0;
    words.x = value;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) words.word[i] = __shfl_xor_sync(0xffffffffu, words.word[i], bits);
    return words.x;
}
