// The trace of Plonky3's Blake3Air, one compression per row and thread. Adjacent threads write adjacent rows of each
// column.
//
// Columns, with words as 32 bits or as two limbs of 16 bits, from the lowest:
//   the block, bits | the chaining value, bits | counter, both words, bits | length, bits | flags, bits |
//   rows 0 and 2 of the first state, limbs | 7 rounds of 4 states | row 2 of the last state, bits | the output, bits
// A state is row 0 as limbs, row 1 as bits, row 2 as limbs, row 3 as bits.

__device__ __forceinline__ u32 rotate_right(u32 x, int bits) { return x >> bits | x << (32 - bits); }

// Half of a quarter round, which adds one word of the message.
__device__ __forceinline__ void half_round(u32& a, u32& b, u32& c, u32& d, u32 m, int first, int second) {
    a += b + m;
    d = rotate_right(d ^ a, first);
    c += d;
    b = rotate_right(b ^ c, second);
}

template <class F>
__device__ __forceinline__ void write_state(RowWriter<F>& writer, const u32 (&s)[4][4]) {
    writer.all_limbs(s[0]);
    writer.all_bits(s[1]);
    writer.all_limbs(s[2]);
    writer.all_bits(s[3]);
}

template <class F>
__global__ void __launch_bounds__(BLOCK_THREADS) blake3_trace(F* trace, const u32* inputs, u64 rows) {
    const u64 row = (u64)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (row >= rows) return;
    RowWriter<F> writer{trace + row, rows};
    u32 m[16], s[4][4];
#pragma unroll
    for (int i = 0; i < 16; ++i) m[i] = inputs[24 * row + i];
#pragma unroll
    for (int i = 0; i < 8; ++i) s[i / 4][i % 4] = inputs[24 * row + 16 + i];
    constexpr u32 IV[4] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a};
#pragma unroll
    for (int i = 0; i < 4; ++i) s[2][i] = IV[i];
    s[3][0] = (u32)row, s[3][1] = (u32)(row >> 32), s[3][2] = (u32)rows, s[3][3] = 0;
    writer.all_bits(m);
    writer.all_bits(s[0]);
    writer.all_bits(s[1]);
    writer.all_bits(s[3]);
    writer.all_limbs(s[0]);
    writer.all_limbs(s[2]);
#pragma unroll 1
    for (int round = 0; round < 7; ++round) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                half_round(s[0][i], s[1][i], s[2][i], s[3][i], m[2 * i + half], half ? 8 : 16, half ? 7 : 12);
            write_state(writer, s);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                half_round(s[0][i], s[1][(i + 1) % 4], s[2][(i + 2) % 4], s[3][(i + 3) % 4], m[8 + 2 * i + half],
                           half ? 8 : 16, half ? 7 : 12);
            write_state(writer, s);
        }
        constexpr int ORDER[16] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};
        u32 moved[16];
#pragma unroll
        for (int i = 0; i < 16; ++i) moved[i] = m[ORDER[i]];
#pragma unroll
        for (int i = 0; i < 16; ++i) m[i] = moved[i];
    }
    writer.all_bits(s[2]);
    u32 output[16];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        output[i] = s[i / 4][i % 4] ^ s[2 + i / 4][i % 4];
        output[8 + i] = s[2 + i / 4][i % 4] ^ inputs[24 * row + 16 + i];
    }
    writer.all_bits(output);
}
