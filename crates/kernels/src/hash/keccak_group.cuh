#pragma once

#include "field/word.cuh"

// Keccak-f[1600] by a group of 16 threads of a warp, ten of which work, for layers of a tree with too few nodes to fill
// the device. There the time is that of one permutation: a thread alone issues 196 instructions for a round on sm_90, a
// thread of a group 48.
//
// A lane is split into its bits at even and at odd positions. A rotation of 64 bits is then one of each half: by m if
// it is by 2 m; if it is by 2 m + 1, the halves also change places, the odd one is rotated by m + 1 and the even one by
// m. Thread 5 h + x has half h of the column of lanes (x, 0), .., (x, 4).

// Rotations of the lanes (x, y), as [x][y].
__constant__ const unsigned char KECCAK_ROTATIONS[5][5] = {
    {0, 36, 3, 41, 18}, {1, 44, 10, 45, 2}, {62, 6, 43, 15, 61}, {28, 55, 25, 21, 56}, {27, 20, 39, 8, 14},
};

// The even and the odd bits of the round constants.
__constant__ const u32 KECCAK_SPLIT_ROUND_CONSTANTS[24][2] = {
    {1, 0x00000000}, {0, 0x00000089}, {0, 0x8000008b}, {0, 0x80008080}, {1, 0x0000008b}, {1, 0x00008000},
    {1, 0x80008088}, {1, 0x80000082}, {0, 0x0000000b}, {0, 0x0000000a}, {1, 0x00008082}, {0, 0x00008003},
    {1, 0x0000808b}, {1, 0x8000000b}, {1, 0x8000008a}, {1, 0x80000081}, {0, 0x80000081}, {0, 0x80000008},
    {0, 0x00000083}, {0, 0x80008003}, {1, 0x80008088}, {0, 0x80000088}, {1, 0x00008000}, {0, 0x80008082},
};

// Exchanges the bits at the positions of the mask with those S positions above.
template <u32 S>
__device__ __forceinline__ u64 exchange_bits(u64 x, u64 mask) {
    const u64 t = (x ^ x >> S) & mask;
    return x ^ t ^ t << S;
}

// The even bits of x in the lower half, the odd ones in the upper half.
__device__ __forceinline__ u64 split_bits(u64 x) {
    x = exchange_bits<1>(x, 0x2222222222222222ull);
    x = exchange_bits<2>(x, 0x0c0c0c0c0c0c0c0cull);
    x = exchange_bits<4>(x, 0x00f000f000f000f0ull);
    x = exchange_bits<8>(x, 0x0000ff000000ff00ull);
    return exchange_bits<16>(x, 0x00000000ffff0000ull);
}

// The inverse of `split_bits`.
__device__ __forceinline__ u64 merge_bits(u64 x) {
    x = exchange_bits<16>(x, 0x00000000ffff0000ull);
    x = exchange_bits<8>(x, 0x0000ff000000ff00ull);
    x = exchange_bits<4>(x, 0x00f000f000f000f0ull);
    x = exchange_bits<2>(x, 0x0c0c0c0c0c0c0c0cull);
    return exchange_bits<1>(x, 0x2222222222222222ull);
}

// A thread of a group that compresses two digests as Sponge::compress. Such a type has `LANES`, the threads of a group,
// `DIGEST_WORDS`, the shared memory `Room` that a group needs, and the form `Word` of a digest's word in shared memory
// with `split` and `merge`. It is constructed from the thread's index in the group. All groups of a warp call
// `compress` together.
template <class Sponge>
struct KeccakGroup {
    static constexpr u32 LANES = 16;
    static constexpr int DIGEST_WORDS = 4;

    // Half h of lane (x, y) at [2 y + h][x]. The threads without work write to the rows after these: five and 32 have
    // no common factor, so that the 32 threads of a warp, which write to different rows of one column, use all banks.
    struct Room {
        u32 words[LANES][5];
    };

    // The even and the odd bits.
    struct Word {
        u32 halves[2];
    };
    static __device__ __forceinline__ Word split(u64 word) {
        const u64 halves = split_bits(word);
        return Word{{low_word(halves), high_word(halves)}};
    }
    static __device__ __forceinline__ u64 merge(const Word& word) {
        return merge_bits(join_words(word.halves[0], word.halves[1]));
    }

    // A thread without work does that of the first one, and keeps it to itself.
    __device__ __forceinline__ explicit KeccakGroup(u32 lane) : works(lane < 10) {
        half = works ? lane / 5 : 0;
        x = works ? lane % 5 : 0;
#pragma unroll
        for (u32 y = 0; y < 5; ++y) {
            const u32 bits = KECCAK_ROTATIONS[x][y];
            rotation[y] = (bits + half) / 2;
            row[y] = works ? 2 * ((2 * x + 3 * y) % 5) + (half ^ (bits & 1)) : lane;
        }
    }

    // The digest of the two that `children` starts with, written if it is wanted. All threads of a group have the same
    // arguments.
    __device__ __forceinline__ void compress(const Word* children, Word* digest, bool is_wanted, Room& room) const {
        u32 a[5];
        a[0] = children[x].halves[half];
        a[1] = x < 3 ? children[5 + x].halves[half] : padding(5 + x);
#pragma unroll
        for (u32 y = 2; y < 5; ++y) a[y] = padding(5 * y + x);
        permute(a, room);
        if (is_wanted && works && x < DIGEST_WORDS) digest[x].halves[half] = a[0];
    }

  private:
    bool works;
    u32 half, x;
    // Rho and pi: lane (x, y) is rotated and goes to (y, 2 x + 3 y), in this row of the room.
    u32 rotation[5], row[5];

    // The lowest bit is the lowest of the even half, the highest one the highest of the odd half: as in low and high
    // halves.
    __device__ __forceinline__ u32 padding(u32 i) const {
        const u64 word = Sponge::padding(i);
        return half ? high_word(word) : low_word(word);
    }

    __device__ __forceinline__ void permute(u32 (&a)[5], Room& room) const {
        const u32 second = (x + 1) % 5, third = (x + 2) % 5;
        const u32 before = 5 * half + (x + 4) % 5, after = 5 * (1 - half) + second;
        const bool even_corner = x == 0 && half == 0, odd_corner = x == 0 && half == 1;
#pragma unroll 4
        for (int round = 0; round < 24; ++round) {
            // Theta: the even half of a parity rotated by one is the odd half rotated by one, the odd half is the even
            // one.
            const u32 parity = a[0] ^ a[1] ^ a[2] ^ a[3] ^ a[4];
            const u32 previous = __shfl_sync(0xffffffffu, parity, before, LANES);
            const u32 next = __shfl_sync(0xffffffffu, parity, after, LANES);
            const u32 change = previous ^ __funnelshift_l(next, next, 1 - half);
#pragma unroll
            for (u32 y = 0; y < 5; ++y) {
                const u32 changed = a[y] ^ change;
                room.words[row[y]][y] = __funnelshift_l(changed, changed, rotation[y]);
            }
            __syncwarp();
            // Iota enters before chi, while the neighbours are loaded.
            const u32* const constants = KECCAK_SPLIT_ROUND_CONSTANTS[round];
            const u32 iota = (even_corner ? constants[0] : 0) ^ (odd_corner ? constants[1] : 0);
#pragma unroll
            for (u32 y = 0; y < 5; ++y) {
                const u32(&words)[5] = room.words[2 * y + half];
                const u32 own = y == 0 ? words[x] ^ iota : words[x];
                a[y] = own ^ (~words[second] & words[third]);
            }
            __syncwarp();
        }
    }
};
