#pragma once

#include "field/mersenne31.cuh"
#include "field/word.cuh"

// Unkeyed Blake2s-256 over messages of whole 32-bit words, one message per thread, with state and message block in
// registers. Stwo's Merkle trees use it.

__device__ __forceinline__ u32 rotate_right(u32 x, u32 n) { return __funnelshift_r(x, x, n); }

__device__ __forceinline__ void blake2s_mix(u32& a, u32& b, u32& c, u32& d, u32 x, u32 y) {
    a = a + b + x;
    d = rotate_right(d ^ a, 16);
    c = c + d;
    b = rotate_right(b ^ c, 12);
    a = a + b + y;
    d = rotate_right(d ^ a, 8);
    c = c + d;
    b = rotate_right(b ^ c, 7);
}

// One round: the columns, then the diagonals, with the message words in the round's order.
__device__ __forceinline__ void blake2s_round(u32 (&v)[16], u32 m0, u32 m1, u32 m2, u32 m3, u32 m4, u32 m5, u32 m6,
                                              u32 m7, u32 m8, u32 m9, u32 m10, u32 m11, u32 m12, u32 m13,
                                              u32 m14, u32 m15) {
    blake2s_mix(v[0], v[4], v[8], v[12], m0, m1);
    blake2s_mix(v[1], v[5], v[9], v[13], m2, m3);
    blake2s_mix(v[2], v[6], v[10], v[14], m4, m5);
    blake2s_mix(v[3], v[7], v[11], v[15], m6, m7);
    blake2s_mix(v[0], v[5], v[10], v[15], m8, m9);
    blake2s_mix(v[1], v[6], v[11], v[12], m10, m11);
    blake2s_mix(v[2], v[7], v[8], v[13], m12, m13);
    blake2s_mix(v[3], v[4], v[9], v[14], m14, m15);
}

struct Blake2s {
    typedef u32 Word;
    static constexpr int DIGEST_WORDS = 8;
    static constexpr u32 BLOCK = 16;
    static constexpr u32 IV0 = 0x6a09e667, IV1 = 0xbb67ae85, IV2 = 0x3c6ef372, IV3 = 0xa54ff53a;
    static constexpr u32 IV4 = 0x510e527f, IV5 = 0x9b05688c, IV6 = 0x1f83d9ab, IV7 = 0x5be0cd19;

    u32 h[8];

    // The parameters of an unkeyed hash with a digest of 32 bytes, fanout 1 and depth 1.
    __device__ __forceinline__ void init() {
        h[0] = IV0 ^ 0x01010020;
        h[1] = IV1;
        h[2] = IV2;
        h[3] = IV3;
        h[4] = IV4;
        h[5] = IV5;
        h[6] = IV6;
        h[7] = IV7;
    }

    // Absorbs one block; `bytes` is the number of message bytes up to its end.
    __device__ __forceinline__ void compress_block(const u32 (&m)[16], u64 bytes, bool last) {
        u32 v[16] = {h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7], IV0, IV1, IV2, IV3, IV4, IV5, IV6, IV7};
        v[12] ^= low_word(bytes);
        v[13] ^= high_word(bytes);
        if (last) v[14] = ~IV6;
        blake2s_round(v, m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], m[8], m[9], m[10], m[11], m[12], m[13],
                      m[14], m[15]);
        blake2s_round(v, m[14], m[10], m[4], m[8], m[9], m[15], m[13], m[6], m[1], m[12], m[0], m[2], m[11], m[7],
                      m[5], m[3]);
        blake2s_round(v, m[11], m[8], m[12], m[0], m[5], m[2], m[15], m[13], m[10], m[14], m[3], m[6], m[7], m[1],
                      m[9], m[4]);
        blake2s_round(v, m[7], m[9], m[3], m[1], m[13], m[12], m[11], m[14], m[2], m[6], m[5], m[10], m[4], m[0],
                      m[15], m[8]);
        blake2s_round(v, m[9], m[0], m[5], m[7], m[2], m[4], m[10], m[15], m[14], m[1], m[11], m[12], m[6], m[8],
                      m[3], m[13]);
        blake2s_round(v, m[2], m[12], m[6], m[10], m[0], m[11], m[8], m[3], m[4], m[13], m[7], m[5], m[15], m[14],
                      m[1], m[9]);
        blake2s_round(v, m[12], m[5], m[1], m[15], m[14], m[13], m[4], m[10], m[0], m[7], m[6], m[3], m[9], m[2],
                      m[8], m[11]);
        blake2s_round(v, m[13], m[11], m[7], m[14], m[12], m[1], m[3], m[9], m[5], m[0], m[15], m[4], m[8], m[6],
                      m[2], m[10]);
        blake2s_round(v, m[6], m[15], m[14], m[9], m[11], m[3], m[0], m[8], m[12], m[2], m[13], m[7], m[1], m[4],
                      m[10], m[5]);
        blake2s_round(v, m[10], m[2], m[8], m[4], m[7], m[6], m[1], m[5], m[15], m[11], m[9], m[14], m[3], m[12],
                      m[13], m[0]);
#pragma unroll
        for (int i = 0; i < 8; ++i) h[i] ^= v[i] ^ v[i + 8];
    }

    // Absorbs words [0, 16 blocks) of the row, any object with `F operator()(u32 i) const`, F a 31-bit field. They must
    // not include the message's last block. `words_before` counts the words already absorbed, a multiple of 16: a row
    // that arrives in parts is absorbed part by part, and the state may be kept in memory in between.
    template <class Row>
    __device__ __forceinline__ void absorb_blocks(const Row& row, u32 blocks, u32 words_before) {
#pragma unroll 1
        for (u32 block = 0; block < blocks; ++block) {
            u32 m[16];
#pragma unroll
            for (u32 j = 0; j < BLOCK; ++j) m[j] = row(block * BLOCK + j).canonical();
            compress_block(m, 4ull * (words_before + (block + 1) * BLOCK), false);
        }
    }

    // Absorbs the message's last words, [first, count) of the row with count - first <= 16, and finalizes. There are
    // none only if the whole message is empty.
    template <class Row>
    __device__ __forceinline__ void absorb_last(const Row& row, u32 first, u32 count, u32 words_before) {
        u32 m[16];
#pragma unroll
        for (u32 j = 0; j < BLOCK; ++j) m[j] = first + j < count ? row(first + j).canonical() : 0;
        compress_block(m, 4ull * (words_before + count - first), true);
    }

    // A whole message: the `count` words of one row.
    template <class Row>
    __device__ __forceinline__ void absorb(const Row& row, u32 count) {
        const u32 blocks = count == 0 ? 0 : (count - 1) / BLOCK;
        absorb_blocks(row, blocks, 0);
        absorb_last(row, blocks * BLOCK, count, blocks * BLOCK);
    }

    // The digest's 32 bytes as little-endian words.
    __device__ __forceinline__ void finish(u32 (&digest)[8]) const {
#pragma unroll
        for (int i = 0; i < 8; ++i) digest[i] = h[i];
    }

    // The hash of the 64 bytes of two digests: an inner node.
    static __device__ __forceinline__ void compress(const u32 (&left)[8], const u32 (&right)[8],
                                                         u32 (&digest)[8]) {
        Blake2s hash;
        hash.init();
        u32 m[16];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            m[i] = left[i];
            m[8 + i] = right[i];
        }
        hash.compress_block(m, 64, true);
        hash.finish(digest);
    }
};

// Stwo's Blake2sM31 hashers: the same, with every word of a digest reduced modulo 2^31 - 1.
struct Blake2sM31 : Blake2s {
    __device__ __forceinline__ void finish(u32 (&digest)[8]) const {
#pragma unroll
        for (int i = 0; i < 8; ++i) digest[i] = Mersenne31::from_integer(h[i]).v;
    }
    static __device__ __forceinline__ void compress(const u32 (&left)[8], const u32 (&right)[8],
                                                         u32 (&digest)[8]) {
        Blake2s::compress(left, right, digest);
#pragma unroll
        for (int i = 0; i < 8; ++i) digest[i] = Mersenne31::from_integer(digest[i]).v;
    }
};
