#pragma once

#include "field/word.cuh"

// A struct of constants as the last parameter of a kernel: it is read in place, in constant memory, with any index. The
// host's compiler can't take the address of a kernel with a pack of `const` parameters.
#ifdef RIGEL_EMULATED
#define CONSTANT_PARAMETER(K) K
#else
#define CONSTANT_PARAMETER(K) const __grid_constant__ K
#endif

// A digest in memory: the 32 bytes of its words, 4 or 8 bytes each and in canonical form, in two accesses of 16 bytes.
// Digests are stored one after the other, so the two children of a node are 64 consecutive bytes and a path is gathered
// digest by digest.
struct alignas(32) Digest {
    uint4 low, high;
};

// The form in which a word of a hash is stored.
template <class Word>
struct DigestWord {
    typedef typename Word::Word Stored;
    static __device__ __forceinline__ Word load(Stored stored) { return Word::from_word(stored); }
    static __device__ __forceinline__ Stored store(Word word) { return word.canonical(); }
};
template <>
struct DigestWord<u32> {
    static __device__ __forceinline__ u32 load(u32 stored) { return stored; }
    static __device__ __forceinline__ u32 store(u32 word) { return word; }
};
template <>
struct DigestWord<u64> {
    static __device__ __forceinline__ u64 load(u64 stored) { return stored; }
    static __device__ __forceinline__ u64 store(u64 word) { return word; }
};

template <class Word>
__device__ __forceinline__ void load_digest(const Digest& from, Word (&digest)[8]) {
    const uint4 low = from.low, high = from.high;
    const u32 stored[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) digest[i] = DigestWord<Word>::load(stored[i]);
}
template <class Word>
__device__ __forceinline__ void load_digest(const Digest& from, Word (&digest)[4]) {
    const uint4 low = from.low, high = from.high;
    digest[0] = DigestWord<Word>::load(join_words(low.x, low.y));
    digest[1] = DigestWord<Word>::load(join_words(low.z, low.w));
    digest[2] = DigestWord<Word>::load(join_words(high.x, high.y));
    digest[3] = DigestWord<Word>::load(join_words(high.z, high.w));
}

template <class Word>
__device__ __forceinline__ void store_digest(Digest& to, const Word (&digest)[8]) {
    u32 stored[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) stored[i] = DigestWord<Word>::store(digest[i]);
    to.low = make_uint4(stored[0], stored[1], stored[2], stored[3]);
    to.high = make_uint4(stored[4], stored[5], stored[6], stored[7]);
}
template <class Word>
__device__ __forceinline__ void store_digest(Digest& to, const Word (&digest)[4]) {
    u64 stored[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) stored[i] = DigestWord<Word>::store(digest[i]);
    to.low = make_uint4(low_word(stored[0]), high_word(stored[0]), low_word(stored[1]), high_word(stored[1]));
    to.high = make_uint4(low_word(stored[2]), high_word(stored[2]), low_word(stored[3]), high_word(stored[3]));
}
