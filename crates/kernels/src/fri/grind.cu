// Proof of work: the smallest witness among a batch of candidates.
//
// A thread tests every n-th candidate, where n is the number of threads, until one below it is found: the candidates
// below a witness are all tested, and few above it.

#include "field/mersenne31.cuh"
#include "hash/blake2s.cuh"
#include "hash/digest.cuh"
#include "hash/keccak.cuh"
#include "hash/poseidon2_constants.cuh"

// The candidates first <= i < end, and the bits of the tested word that must be zero.
struct Batch {
    u64 first;
    u64 end;
    u64 mask;
};

// The candidates of a thread, of a grid of blocks of `threads`.
struct Candidates {
    u64 current, step, end;
    const volatile u64* found;

    __device__ Candidates(const u64* found, const Batch& batch, u32 threads)
        : current(batch.first + (u64)blockIdx.x * threads + threadIdx.x), step((u64)gridDim.x * threads),
          end(batch.end), found(found) {}
    __device__ bool are_left() const { return current < end && current < *found; }
};

struct DigestWords {
    u64 x[4];
};

// found = min(found, i) over the candidates i of the batch for which the last of the four words of Keccak-256 of a
// digest and the bytes of the field element i has zeros where `mask` has ones.
template <class F>
__global__ void __launch_bounds__(KECCAK_THREADS) grind_keccak(u64* found, DigestWords digest, Batch batch) {
    for (Candidates i(found, batch, KECCAK_THREADS); i.are_left(); i.current += i.step) {
        u64 a[25];
#pragma unroll
        for (int j = 0; j < 25; ++j) a[j] = 0;
#pragma unroll
        for (int j = 0; j < 4; ++j) a[j] = digest.x[j];
        // The message ends with a byte 0x01, after four or eight bytes of the witness.
        const u64 witness = F::from_integer(i.current).canonical();
        if (sizeof(typename F::Word) == 4) {
            a[4] = witness | 1ull << 32;
        } else {
            a[4] = witness;
            a[5] = 1;
        }
        a[Keccak256::RATE - 1] = Keccak256::LAST_BIT;
        keccak_f(a);
        if ((a[3] & batch.mask) == 0) atomicMin(found, i.current);
    }
}

// The state of a sponge before the permutation, large enough for the widest.
template <class F>
struct SpongeState {
    F s[MOST_WIDTH];
};

// The same for the permutation P of `state` with the field element i at index `witness`: the integer of the element at
// index `output` has zeros where `mask` has ones. K: the permutation's constants, if they are given at run time.
template <class P, class... K>
__global__ void __launch_bounds__(DUPLEX_THREADS, 8)
grind_duplex(u64* found, SpongeState<typename P::Word> state, u32 witness, u32 output, Batch batch,
             CONSTANT_PARAMETER(K)... constants) {
    typedef typename P::Word F;
    typedef typename F::Word Word;
    for (Candidates i(found, batch, DUPLEX_THREADS); i.are_left(); i.current += i.step) {
        const F element = F::from_integer(i.current);
        F s[P::WIDTH];
        // Indices that are constants after unrolling, and masks instead of branches, keep the state in registers.
#pragma unroll
        for (u32 j = 0; j < P::WIDTH; ++j) {
            const Word here = 0 - (Word)(j == witness);
            s[j] = F::from_word((element.v & here) | (state.s[j].v & ~here));
        }
        P::permute(s, constants...);
        Word sample = 0;
#pragma unroll
        for (u32 j = 0; j < P::WIDTH; ++j) sample |= s[j].v & (0 - (Word)(j == output));
        if ((F::from_word(sample).to_integer() & batch.mask) == 0) atomicMin(found, i.current);
    }
}

struct PrefixWords {
    u32 x[8];
};

// The same for Stwo's hash H (Blake2s or Blake2sM31) of the 40 bytes of a prefix and a nonce: the first word of the
// digest has zeros where `mask` has ones. With b = NONCE_LOW_BITS, candidate i is the nonce with low word i mod 2^b and
// high word i / 2^b, so candidates are in the order of nonces.
template <class H>
__global__ void __launch_bounds__(BLAKE2S_THREADS) grind_blake2s(u64* found, PrefixWords prefix, Batch batch) {
    for (Candidates i(found, batch, BLAKE2S_THREADS); i.are_left(); i.current += i.step) {
        u32 m[16];
#pragma unroll
        for (int j = 0; j < 8; ++j) m[j] = prefix.x[j];
        m[8] = (u32)i.current & ((1u << NONCE_LOW_BITS) - 1);
        m[9] = (u32)(i.current >> NONCE_LOW_BITS);
#pragma unroll
        for (int j = 10; j < 16; ++j) m[j] = 0;
        H hash;
        hash.init();
        hash.compress_block(m, 40, true);
        u32 digest[8];
        hash.finish(digest);
        if ((digest[0] & (u32)batch.mask) == 0) atomicMin(found, i.current);
    }
}
