// The trace of Plonky3's KeccakAir, one row per thread: row 24 p + k is round k of the permutation of input p, and a
// permutation beyond the inputs is that of zeros. Each thread computes the rounds before its own again, which costs
// less than reading them would. Adjacent threads write adjacent rows of each column.
//
// Columns, with lane (x, y) of a state at index x + 5 y, bits and 16-bit limbs from the lowest:
//   24 flags of the round | 0 | the input, limbs | the round's input A, limbs | C, bits | C', bits | A', bits |
//   A'', limbs | A''_00, bits | A'''_00, limbs

#include "hash/keccak.cuh"

__device__ __forceinline__ u64 rotate_lane(u64 x, u32 bits) { return bits == 0 ? x : x << bits | x >> (64 - bits); }

// The steps of one round.
struct KeccakRound {
    u64 c[5], c_prime[5], a_prime[25], a_second[25];

    __device__ __forceinline__ explicit KeccakRound(const u64 (&a)[25]) {
        // The rotation of lane (x, y) is at x + 5 y.
        constexpr u32 ROTATIONS[25] = {0,  1,  62, 28, 27, 36, 44, 6,  55, 20, 3,  10, 43,
                                       25, 39, 41, 45, 15, 21, 8,  18, 2,  61, 56, 14};
#pragma unroll
        for (int x = 0; x < 5; ++x) c[x] = a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20];
#pragma unroll
        for (int x = 0; x < 5; ++x) c_prime[x] = c[x] ^ c[(x + 4) % 5] ^ rotate_lane(c[(x + 1) % 5], 1);
#pragma unroll
        for (int i = 0; i < 25; ++i) a_prime[i] = a[i] ^ c[i % 5] ^ c_prime[i % 5];
        u64 b[25];
#pragma unroll
        for (int y = 0; y < 5; ++y)
#pragma unroll
            for (int x = 0; x < 5; ++x) {
                const int from = (x + 3 * y) % 5 + 5 * x;
                b[x + 5 * y] = rotate_lane(a_prime[from], ROTATIONS[from]);
            }
#pragma unroll
        for (int y = 0; y < 5; ++y)
#pragma unroll
            for (int x = 0; x < 5; ++x)
                a_second[x + 5 * y] = b[x + 5 * y] ^ (~b[(x + 1) % 5 + 5 * y] & b[(x + 2) % 5 + 5 * y]);
    }
};

template <class F>
__global__ void __launch_bounds__(BLOCK_THREADS)
keccak_trace(F* trace, const u64* inputs, u64 permutations, u64 rows) {
    const u64 row = (u64)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (row >= rows) return;
    const u64 permutation = row / 24;
    const u32 round = (u32)(row % 24);
    RowWriter<F> writer{trace + row, rows};
#pragma unroll 1
    for (u32 k = 0; k < 24; ++k) writer.element(k == round ? F::one() : F::zero());
    writer.element(F::zero());
    u64 a[25];
#pragma unroll
    for (int i = 0; i < 25; ++i) a[i] = permutation < permutations ? inputs[25 * permutation + i] : 0;
    writer.all_limbs(a);
#pragma unroll 1
    for (u32 k = 0; k < round; ++k) {
        const KeccakRound before(a);
#pragma unroll
        for (int i = 0; i < 25; ++i) a[i] = before.a_second[i];
        a[0] ^= KECCAK_ROUND_CONSTANTS[k];
    }
    writer.all_limbs(a);
    const KeccakRound here(a);
    writer.all_bits(here.c);
    writer.all_bits(here.c_prime);
    writer.all_bits(here.a_prime);
    writer.all_limbs(here.a_second);
    writer.bits(here.a_second[0]);
    writer.limbs(here.a_second[0] ^ KECCAK_ROUND_CONSTANTS[round]);
}
