// Field elements drawn from the keystream of ChaCha.
//
// A candidate is a word shifted right by one for the fields of 31 bits, and two words, the lower first, for Goldilocks.
// Candidates of at least the modulus are skipped. So the place of an element depends on all candidates before it: one
// kernel counts the candidates that each block keeps, one sums the counts, and one computes the keystream again and
// writes. Computing it twice costs less than storing it.

#include "field/baby_bear.cuh"
#include "field/goldilocks.cuh"
#include "field/koala_bear.cuh"

constexpr u32 THREADS = BLOCK_THREADS, WORDS = 16;

__device__ __forceinline__ u32 rotate(u32 x, int bits) { return x << bits | x >> (32 - bits); }

__device__ __forceinline__ void quarter_round(u32& a, u32& b, u32& c, u32& d) {
    a += b, d = rotate(d ^ a, 16);
    c += d, b = rotate(b ^ c, 12);
    a += b, d = rotate(d ^ a, 8);
    c += d, b = rotate(b ^ c, 7);
}

// The 16 words of block `counter` of the keystream, with a nonce of zeros.
__device__ __forceinline__ void keystream(u32 (&x)[WORDS], const u32* key, u64 counter) {
    const u32 start[WORDS] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, key[0], key[1], key[2], key[3],
                              key[4], key[5], key[6], key[7], low_word(counter), high_word(counter), 0, 0};
#pragma unroll
    for (int i = 0; i < WORDS; ++i) x[i] = start[i];
#pragma unroll 1
    for (int i = 0; i < CHACHA_ROUNDS / 2; ++i) {
        quarter_round(x[0], x[4], x[8], x[12]);
        quarter_round(x[1], x[5], x[9], x[13]);
        quarter_round(x[2], x[6], x[10], x[14]);
        quarter_round(x[3], x[7], x[11], x[15]);
        quarter_round(x[0], x[5], x[10], x[15]);
        quarter_round(x[1], x[6], x[11], x[12]);
        quarter_round(x[2], x[7], x[8], x[13]);
        quarter_round(x[3], x[4], x[9], x[14]);
    }
#pragma unroll
    for (int i = 0; i < WORDS; ++i) x[i] += start[i];
}

// Candidate i of a block of the keystream.
template <class F>
__device__ __forceinline__ u64 candidate(const u32 (&x)[WORDS], int i) {
    if constexpr (sizeof(F) == 4) return x[i] >> 1;
    else return join_words(x[2 * i], x[2 * i + 1]);
}

// A thread's block of the keystream, from word `position` on, and the number of candidates that it keeps.
template <class F>
struct Drawn {
    static constexpr int STEP = sizeof(F) / 4, COUNT = WORDS / STEP;
    u32 x[WORDS];
    u64 first_word;
    u64 position;
    u32 kept;

    __device__ __forceinline__ Drawn(const u32* key, u64 position) : position(position) {
        const u64 block = position / WORDS + (u64)blockIdx.x * THREADS + threadIdx.x;
        first_word = block * WORDS;
        keystream(x, key, block);
        kept = 0;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) kept += keeps(i);
    }
    __device__ __forceinline__ bool keeps(int i) const {
        return first_word + i * STEP >= position && candidate<F>(x, i) < F::MODULUS;
    }
};

// The sum of `value` over the threads before this one; `total` is the sum over all.
__device__ __forceinline__ u32 sum_before(u32* shared, u32 value, u32& total) {
    shared[threadIdx.x] = value;
    __syncthreads();
    for (u32 distance = 1; distance < THREADS; distance *= 2) {
        const u32 before = threadIdx.x >= distance ? shared[threadIdx.x - distance] : 0;
        __syncthreads();
        shared[threadIdx.x] += before;
        __syncthreads();
    }
    total = shared[THREADS - 1];
    return shared[threadIdx.x] - value;
}

// counts[b] = the number of candidates that the words of block b keep.
template <class F>
__global__ void __launch_bounds__(BLOCK_THREADS) count_kept(u64* counts, const u32* key, u64 position) {
    __shared__ u32 shared[THREADS];
    const Drawn<F> drawn(key, position);
    u32 total;
    sum_before(shared, drawn.kept, total);
    if (threadIdx.x == 0) counts[blockIdx.x] = total;
}

// counts[b] = the sum of all counts before b, by one block of threads.
__global__ void __launch_bounds__(BLOCK_THREADS) sum_counts(u64* counts, u32 blocks) {
    __shared__ u32 shared[THREADS];
    u64 before = 0;
    for (u32 first = 0; first < blocks; first += THREADS) {
        const u32 b = first + threadIdx.x;
        const u32 count = b < blocks ? (u32)counts[b] : 0;
        u32 total;
        const u32 here = sum_before(shared, count, total);
        if (b < blocks) counts[b] = before + here;
        before += total;
        __syncthreads();
    }
}

// The first `count` elements, and in `end` the word after the last of them. `end` is not written if there are fewer.
template <class F>
__global__ void __launch_bounds__(BLOCK_THREADS)
write_kept(F* out, u64* end, const u64* counts, const u32* key, u64 position, u64 count) {
    __shared__ u32 shared[THREADS];
    const Drawn<F> drawn(key, position);
    u32 total;
    u64 at = counts[blockIdx.x] + sum_before(shared, drawn.kept, total);
#pragma unroll
    for (int i = 0; i < Drawn<F>::COUNT; ++i) {
        if (!drawn.keeps(i)) continue;
        if (at < count) out[at] = F::from_word(candidate<F>(drawn.x, i));
        if (at + 1 == count) *end = drawn.first_word + (i + 1) * Drawn<F>::STEP;
        ++at;
    }
}
