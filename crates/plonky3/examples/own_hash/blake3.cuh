// BLAKE3 (https://github.com/BLAKE3-team/BLAKE3-specs) of a row of 31-bit field elements, four bytes each, and of two
// digests. A message is split in chunks of 1,024 bytes, 16 blocks of 64 bytes, which are the leaves of a binary tree.

#include "field/word.cuh"

__constant__ const u32 BLAKE3_IV[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

enum Blake3Flags : u32 { CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8 };

__device__ __forceinline__ u32 blake3_rotate(u32 x, int bits) { return x >> bits | x << (32 - bits); }

__device__ __forceinline__ void blake3_g(u32 (&v)[16], int a, int b, int c, int d, u32 x, u32 y) {
    v[a] += v[b] + x;
    v[d] = blake3_rotate(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = blake3_rotate(v[b] ^ v[c], 12);
    v[a] += v[b] + y;
    v[d] = blake3_rotate(v[d] ^ v[a], 8);
    v[c] += v[d];
    v[b] = blake3_rotate(v[b] ^ v[c], 7);
}

// cv <- the chaining value after a block of `bytes` bytes; the block is permuted.
__device__ __forceinline__ void blake3_compress(u32 (&cv)[8], u32 (&m)[16], u64 chunk, u32 bytes, u32 flags) {
    u32 v[16];
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = cv[i];
#pragma unroll
    for (int i = 0; i < 4; ++i) v[8 + i] = BLAKE3_IV[i];
    v[12] = low_word(chunk);
    v[13] = high_word(chunk);
    v[14] = bytes;
    v[15] = flags;
#pragma unroll
    for (int round = 0; round < 7; ++round) {
        blake3_g(v, 0, 4, 8, 12, m[0], m[1]);
        blake3_g(v, 1, 5, 9, 13, m[2], m[3]);
        blake3_g(v, 2, 6, 10, 14, m[4], m[5]);
        blake3_g(v, 3, 7, 11, 15, m[6], m[7]);
        blake3_g(v, 0, 5, 10, 15, m[8], m[9]);
        blake3_g(v, 1, 6, 11, 12, m[10], m[11]);
        blake3_g(v, 2, 7, 8, 13, m[12], m[13]);
        blake3_g(v, 3, 4, 9, 14, m[14], m[15]);
        const u32 p[16] = {m[2], m[6],  m[3],  m[10], m[7], m[0],  m[4],  m[13],
                           m[1], m[11], m[12], m[5],  m[9], m[14], m[15], m[8]};
#pragma unroll
        for (int i = 0; i < 16; ++i) m[i] = p[i];
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) cv[i] = v[i] ^ v[8 + i];
}

struct Blake3Rows {
    typedef u32 Word;
    static constexpr int DIGEST_WORDS = 8;
    static constexpr u32 BLOCK = 16, CHUNK = 256;
    // The state between chunks: the number of chunks, and the roots of the complete subtrees to their left, one for
    // each bit of that number. A row has fewer than 2^DEPTH chunks.
    static constexpr int DEPTH = 12;
    static constexpr int STATE_WORDS = 2 + 8 * DEPTH;
    u32 words[STATE_WORDS];
    u32 cv[8];

    __device__ __forceinline__ u32& state(int w) { return words[w]; }

    __device__ __forceinline__ void init() {
        for (int w = 0; w < STATE_WORDS; ++w) words[w] = 0;
    }

    // cv <- the chaining value of the chunk of elements [first, end).
    template <class Row>
    __device__ __forceinline__ void chunk(const Row& row, u32 first, u32 end, u32 last_flags) {
#pragma unroll
        for (int i = 0; i < 8; ++i) cv[i] = BLAKE3_IV[i];
        u32 at = first;
        do {
            u32 m[16];
#pragma unroll
            for (u32 i = 0; i < BLOCK; ++i) m[i] = at + i < end ? row(at + i).canonical() : 0;
            const u32 left = end - at, here = left < BLOCK ? left : BLOCK;
            u32 flags = at == first ? CHUNK_START : 0;
            if (left <= BLOCK) flags |= CHUNK_END | last_flags;
            blake3_compress(cv, m, words[0], 4 * here, flags);
            at += BLOCK;
        } while (at < end);
    }

    // cv <- the parent of the subtree at `level` and cv.
    __device__ __forceinline__ void join(int level, u32 flags) {
        u32 m[16];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            m[i] = words[2 + 8 * level + i];
            m[8 + i] = cv[i];
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) cv[i] = BLAKE3_IV[i];
        blake3_compress(cv, m, 0, 64, PARENT | flags);
    }

    // Whole chunks, after which more elements come.
    template <class Row>
    __device__ __forceinline__ void absorb_whole(const Row& row, u32 count) {
        for (u32 first = 0; first < count; first += CHUNK) {
            chunk(row, first, first + CHUNK, 0);
            int level = 0;
            for (; words[0] >> level & 1; ++level) join(level, 0);
            for (int i = 0; i < 8; ++i) words[2 + 8 * level + i] = cv[i];
            ++words[0];
        }
    }

    // The rest of a row: its last chunk is the one that ends it.
    template <class Row>
    __device__ __forceinline__ void absorb(const Row& row, u32 count) {
        const u32 whole = count == 0 ? 0 : (count - 1) / CHUNK * CHUNK;
        absorb_whole(row, whole);
        const u32 chunks = words[0];
        chunk(row, whole, count, chunks == 0 ? ROOT : 0);
        for (int level = 0; chunks >> level != 0; ++level)
            if (chunks >> level & 1) join(level, chunks >> level == 1 ? ROOT : 0);
    }

    __device__ __forceinline__ void finish(u32 (&digest)[8]) const {
#pragma unroll
        for (int i = 0; i < 8; ++i) digest[i] = cv[i];
    }
};

struct Blake3Nodes {
    typedef u32 Word;
    static constexpr int DIGEST_WORDS = 8;

    // The hash of the 64 bytes of two digests: one block.
    static __device__ __forceinline__ void compress(const u32 (&left)[8], const u32 (&right)[8], u32 (&digest)[8]) {
        u32 m[16];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            digest[i] = BLAKE3_IV[i];
            m[i] = left[i];
            m[8 + i] = right[i];
        }
        blake3_compress(digest, m, 0, 64, CHUNK_START | CHUNK_END | ROOT);
    }
};
