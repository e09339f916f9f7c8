#pragma once

#include "field/word.cuh"
#include "hash/digest.cuh"
#include "hash/keccak_group.cuh"

// Keccak-f[1600] and the two sponges that Plonky3 builds on it, with the state in the registers of one thread or two.
//
// A hash is a type with `Word`, `DIGEST_WORDS`, `init`, `absorb(row, count)`, `finish(digest)` and the static
// `compress(left, right, digest)`, here and in blake2s.cuh and poseidon2_constants.cuh. These two also hash
// rows by two threads (`Pair`), and compress digests of which a thread has half of each word (`Half`), or in a `Group`
// of threads.
//
// Messages are rows: any object with `F operator()(u32 i) const`, the i-th field element of the row. A word of the
// state takes one 64-bit element, or two of 32 bits as `first | second << 32`; elements are absorbed in their unique
// stored form (Montgomery for the 31-bit fields, canonical for Goldilocks). Rows are absorbed as whole blocks of 17
// words and one guarded remainder, so that all indices into the state are constants after unrolling.

__constant__ const u64 KECCAK_ROUND_CONSTANTS[24] = {
    0x0000000000000001ull, 0x0000000000008082ull, 0x800000000000808aull, 0x8000000080008000ull,
    0x000000000000808bull, 0x0000000080000001ull, 0x8000000080008081ull, 0x8000000000008009ull,
    0x000000000000008aull, 0x0000000000000088ull, 0x0000000080008009ull, 0x000000008000000aull,
    0x000000008000808bull, 0x800000000000008bull, 0x8000000000008089ull, 0x8000000000008003ull,
    0x8000000000008002ull, 0x8000000000000080ull, 0x000000000000800aull, 0x800000008000000aull,
    0x8000000080008081ull, 0x8000000000008080ull, 0x0000000080000001ull, 0x8000000080008008ull,
};

// x rotated by N bits: the two halves, swapped if N >= 32, then funnel-shifted into each other.
template <u32 N>
__device__ __forceinline__ u64 rotate_left(u64 x) {
    const u32 low = N & 32 ? high_word(x) : low_word(x);
    const u32 high = N & 32 ? low_word(x) : high_word(x);
    return join_words(__funnelshift_l(high, low, N & 31), __funnelshift_l(low, high, N & 31));
}

// A lane after theta: one instruction per half, where adding the two parities first would cost one more per column.
#define RIGEL_KECCAK_THETA(l) (a[l] ^ c[(l + 4) % 5] ^ d[(l + 1) % 5])

// Half of a lane: the low half in threads of even index, the high one in the thread after. The two compute a
// permutation together, each with half of the instructions, and exchange halves to rotate them.
struct KeccakHalf {
    u32 bits;

    static __device__ __forceinline__ u32 index() { return threadIdx.x % 2; }
};
__device__ __forceinline__ KeccakHalf operator^(KeccakHalf a, KeccakHalf b) { return KeccakHalf{a.bits ^ b.bits}; }
__device__ __forceinline__ KeccakHalf operator&(KeccakHalf a, KeccakHalf b) { return KeccakHalf{a.bits & b.bits}; }
__device__ __forceinline__ KeccakHalf operator~(KeccakHalf a) { return KeccakHalf{~a.bits}; }

// All threads of the warp take part.
template <u32 N>
__device__ __forceinline__ KeccakHalf rotate_left(KeccakHalf x) {
    if (N == 0) return x;
    const u32 other = __shfl_xor_sync(0xffffffffu, x.bits, 1);
    return KeccakHalf{N & 32 ? __funnelshift_l(x.bits, other, N & 31) : __funnelshift_l(other, x.bits, N & 31)};
}

// A thread's part of a word.
template <class Lane>
__device__ __forceinline__ Lane keccak_lane(u64 word);
template <>
__device__ __forceinline__ u64 keccak_lane<u64>(u64 word) { return word; }
template <>
__device__ __forceinline__ KeccakHalf keccak_lane<KeccakHalf>(u64 word) {
    return KeccakHalf{KeccakHalf::index() ? high_word(word) : low_word(word)};
}

// A thread's halves of a digest's words.
__device__ __forceinline__ void load_digest(const Digest& from, KeccakHalf (&digest)[4]) {
    const u32* const words = (const u32*)&from;
#pragma unroll
    for (int i = 0; i < 4; ++i) digest[i].bits = words[2 * i + KeccakHalf::index()];
}
__device__ __forceinline__ void store_digest(Digest& to, const KeccakHalf (&digest)[4]) {
    u32* const words = (u32*)&to;
#pragma unroll
    for (int i = 0; i < 4; ++i) words[2 * i + KeccakHalf::index()] = digest[i].bits;
}

// One row y of rho, pi and chi: the five lanes that pi moves there, rotated, then b ^ (~b' & b'').
#define RIGEL_KECCAK_ROW(y, l0, r0, l1, r1, l2, r2, l3, r3, l4, r4)                                             \
    {                                                                                                           \
        const Lane b0 = rotate_left<r0>(RIGEL_KECCAK_THETA(l0)), b1 = rotate_left<r1>(RIGEL_KECCAK_THETA(l1));  \
        const Lane b2 = rotate_left<r2>(RIGEL_KECCAK_THETA(l2)), b3 = rotate_left<r3>(RIGEL_KECCAK_THETA(l3));  \
        const Lane b4 = rotate_left<r4>(RIGEL_KECCAK_THETA(l4));                                                \
        e[5 * y] = b0 ^ (~b1 & b2);                                                                             \
        e[5 * y + 1] = b1 ^ (~b2 & b3);                                                                         \
        e[5 * y + 2] = b2 ^ (~b3 & b4);                                                                         \
        e[5 * y + 3] = b3 ^ (~b4 & b0);                                                                         \
        e[5 * y + 4] = b4 ^ (~b0 & b1);                                                                         \
    }

// The permutation; lane (x, y) is a[x + 5 y]. The 24 rounds stay a loop: unrolled they would not fit in the instruction
// cache. A thread has whole lanes (u64) or halves.
template <class Lane>
__device__ __forceinline__ void keccak_f(Lane (&a)[25]) {
#pragma unroll 1
    for (int round = 0; round < 24; ++round) {
        Lane c[5], d[5], e[25];
#pragma unroll
        for (int x = 0; x < 5; ++x) c[x] = a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20];
#pragma unroll
        for (int x = 0; x < 5; ++x) d[x] = rotate_left<1>(c[x]);
        RIGEL_KECCAK_ROW(0, 0, 0, 6, 44, 12, 43, 18, 21, 24, 14)
        RIGEL_KECCAK_ROW(1, 3, 28, 9, 20, 10, 3, 16, 45, 22, 61)
        RIGEL_KECCAK_ROW(2, 1, 1, 7, 6, 13, 25, 19, 8, 20, 18)
        RIGEL_KECCAK_ROW(3, 4, 27, 5, 36, 11, 10, 17, 15, 23, 56)
        RIGEL_KECCAK_ROW(4, 2, 62, 8, 55, 14, 39, 15, 41, 21, 2)
        e[0] = e[0] ^ keccak_lane<Lane>(KECCAK_ROUND_CONSTANTS[round]);
#pragma unroll
        for (int i = 0; i < 25; ++i) a[i] = e[i];
    }
}

#undef RIGEL_KECCAK_ROW
#undef RIGEL_KECCAK_THETA

// The element type of a row, and how many elements fill one 64-bit word.
template <class Row>
struct RowElements {
    static __device__ const Row& row();
    typedef decltype(row()(0u)) Element;
    static constexpr u32 PER_WORD = 8 / sizeof(typename Element::Word);
    static constexpr u32 PER_BLOCK = 17 * PER_WORD;
};

// A thread's part of the word that starts with the given element of a row of `count` elements. If the row ends within
// the word, the second half is zero; if it ends before the word, `word` is unchanged.
template <class Row>
__device__ __forceinline__ void keccak_word(const Row& row, u32 element, u32 count, u64& word) {
    if (element >= count) return;
    word = row(element).canonical();
    if (RowElements<Row>::PER_WORD == 2 && element + 1 < count) word |= (u64)row(element + 1).canonical() << 32;
}
template <class Row>
__device__ __forceinline__ void keccak_word(const Row& row, u32 element, u32 count, KeccakHalf& word) {
    if (element >= count) return;
    if constexpr (RowElements<Row>::PER_WORD == 2) {
        const u32 mine = element + KeccakHalf::index();
        word.bits = mine < count ? row(mine).canonical() : 0;
    } else {
        word = keccak_lane<KeccakHalf>(row(element).canonical());
    }
}

// The parts common to both sponges: the state, and absorbing rows block by block. `Sponge` defines how a word enters
// the state (`enter`) and how the elements after the last whole block are absorbed (`absorb_rest`). A thread has whole
// words (u64) or half of each.
template <template <class> class Sponge, class Lane>
struct KeccakRows {
    typedef Lane Word;
    typedef KeccakHalf Half;
    typedef Sponge<KeccakHalf> Pair;
    typedef KeccakGroup<Sponge<u64>> Group;
    static constexpr int DIGEST_WORDS = 4, STATE_WORDS = 25;
    static constexpr u32 RATE = 17;
    Lane a[25];

    __device__ __forceinline__ void init() {
#pragma unroll
        for (int i = 0; i < 25; ++i) a[i] = Lane{};
    }

    // The state between two blocks. It may be kept in memory, so that a row may arrive in parts.
    __device__ __forceinline__ Lane& state(int w) { return a[w]; }

    // Elements [0, blocks * BLOCK) of the row, where BLOCK = 17 words.
    template <class Row>
    __device__ __forceinline__ void absorb_blocks(const Row& row, u32 blocks) {
        constexpr u32 STEP = RowElements<Row>::PER_WORD;
#pragma unroll 1
        for (u32 block = 0; block < blocks; ++block) {
#pragma unroll
            for (u32 j = 0; j < RATE; ++j) {
                const u32 element = (block * RATE + j) * STEP;
                Lane word;
                keccak_word(row, element, element + STEP, word);
                Sponge<Lane>::enter(a[j], word);
            }
            keccak_f(a);
        }
    }

    // The whole blocks of a row of `count` elements.
    template <class Row>
    __device__ __forceinline__ void absorb_whole(const Row& row, u32 count) {
        absorb_blocks(row, count / RowElements<Row>::PER_BLOCK);
    }

    // A whole row of `count` elements.
    template <class Row>
    __device__ __forceinline__ void absorb(const Row& row, u32 count) {
        const u32 blocks = count / RowElements<Row>::PER_BLOCK;
        absorb_blocks(row, blocks);
        static_cast<Sponge<Lane>*>(this)->absorb_rest(row, blocks * RowElements<Row>::PER_BLOCK, count);
    }

    __device__ __forceinline__ void finish(Lane (&digest)[4]) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) digest[i] = a[i];
    }

    // The permutation of a state that holds the eight words of two digests, and `Sponge::padding(i)` in word i after
    // them: of its bits only the lowest and the highest may be set.
    template <class Part>
    static __device__ __forceinline__ void compress(const Part (&left)[4], const Part (&right)[4], Part (&digest)[4]) {
        Part a[25];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            a[i] = left[i];
            a[4 + i] = right[i];
        }
#pragma unroll
        for (int i = 8; i < 25; ++i) a[i] = keccak_lane<Part>(Sponge<Lane>::padding(i));
        keccak_f(a);
#pragma unroll
        for (int i = 0; i < 4; ++i) digest[i] = a[i];
    }
};

// Plonky3's PaddingFreeSponge<KeccakF, 25, 17, 4> behind its SerializingHasher: words overwrite the first 17 words of
// the state, a partial block leaves the others unchanged, and an empty remainder costs no permutation.
template <class Lane>
struct KeccakSpongeOf : KeccakRows<KeccakSpongeOf, Lane> {
    using KeccakRows<KeccakSpongeOf, Lane>::a;
    using KeccakRows<KeccakSpongeOf, Lane>::RATE;

    static __device__ __forceinline__ void enter(Lane& lane, Lane word) { lane = word; }

    // The last elements [first, count), fewer than a block.
    template <class Row>
    __device__ __forceinline__ void absorb_rest(const Row& row, u32 first, u32 count) {
        if (first == count) return;
        constexpr u32 STEP = RowElements<Row>::PER_WORD;
#pragma unroll
        for (u32 j = 0; j < RATE; ++j) keccak_word(row, first + j * STEP, count, a[j]);
        keccak_f(a);
    }

    // CompressionFunctionFromHasher<_, 2, 4> compresses to the sponge of the eight words of two digests.
    static __device__ __forceinline__ constexpr u64 padding(u32) { return 0; }
};
typedef KeccakSpongeOf<u64> KeccakSponge;

// Keccak-256 of a row's little-endian bytes, as Plonky3's SerializingHasher<Keccak256Hash>: words are XORed into the
// state, and the message is padded with a byte 0x01, zeros, and 0x80 in the last byte of the block. The digest's 32
// bytes are four little-endian words.
template <class Lane>
struct Keccak256Of : KeccakRows<Keccak256Of, Lane> {
    using KeccakRows<Keccak256Of, Lane>::a;
    using KeccakRows<Keccak256Of, Lane>::RATE;
    static constexpr u64 LAST_BIT = 0x8000000000000000ull;

    static __device__ __forceinline__ void enter(Lane& lane, Lane word) { lane = lane ^ word; }

    // The last elements [first, count), fewer than a block and possibly none, with the padding.
    template <class Row>
    __device__ __forceinline__ void absorb_rest(const Row& row, u32 first, u32 count) {
        constexpr u32 STEP = RowElements<Row>::PER_WORD;
#pragma unroll
        for (u32 j = 0; j < RATE; ++j) {
            const u32 element = first + j * STEP;
            Lane word = Lane{};
            keccak_word(row, element, count, word);
            const bool ends_before = element == count, ends_within = STEP == 2 && element + 1 == count;
            const u64 padding = ends_before ? 1 : ends_within ? 1ull << 32 : 0;
            a[j] = a[j] ^ word ^ keccak_lane<Lane>(padding);
        }
        a[RATE - 1] = a[RATE - 1] ^ keccak_lane<Lane>(LAST_BIT);
        keccak_f(a);
    }

    // CompressionFunctionFromHasher<Keccak256Hash, 2, 32> compresses to the hash of two digests' 64 bytes.
    static __device__ __forceinline__ constexpr u64 padding(u32 i) { return i == 8 ? 1 : i == RATE - 1 ? LAST_BIT : 0; }
};
typedef Keccak256Of<u64> Keccak256;
