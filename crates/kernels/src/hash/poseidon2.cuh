#pragma once

#include "field/baby_bear.cuh"
#include "field/goldilocks.cuh"
#include "field/koala_bear.cuh"
#include "field/word.cuh"

// Poseidon2 as Plonky3 and RISC Zero instantiate it: four full rounds, the partial rounds, four full rounds; one
// permutation per thread, with the state in registers.
//   full round:     s_i <- (s_i + k_i)^d, then the external layer M_E;
//   partial round:  s_0 <- (s_0 + k)^d, then the internal layer s_i <- V_i s_i + sum of all s_j.
// An external layer precedes the first round. M_E applies a matrix M_4 to each four consecutive elements, then adds to
// each element the sum of those at the same place in all groups of four. Plonky3 and RISC Zero have the same rounds and
// round constants, and different matrices: M_4 and the diagonal V.

// The round constants, in stored form. A kernel takes them as a parameter or from poseidon2_constants.cuh.
template <class F, int WIDTH, int PARTIAL_ROUNDS>
struct Poseidon2Constants {
    typename F::Word initial[4][WIDTH];
    typename F::Word partial[PARTIAL_ROUNDS];
    typename F::Word terminal[4][WIDTH];
};

// (x + k)^D. The 31-bit fields go through signed numbers: x + k - p is in [-p, p), and a chain of signed
// Montgomery products stays in (-p, p), so that only the last one is corrected.
template <int D, class P>
__device__ __forceinline__ Monty31<P> add_and_power(Monty31<P> x, u32 k) {
    static_assert(D == 3 || D == 7, "x^3 and x^7 are the permutation monomials in use");
    typedef Monty31<P> F;
    const i64 x1 = (i32)(x.v + k - F::MODULUS);
    const i64 x2 = F::redc_signed(x1 * x1);
    i32 power = F::redc_signed(x2 * x1);
    if (D == 7) power = F::redc_signed((i64)power * F::redc_signed(x2 * x2));
    return F::from_word(F::least_residue_signed((u32)power));
}

template <int D>
__device__ __forceinline__ Goldilocks add_and_power(Goldilocks x, u64 k) {
    static_assert(D == 7, "x^7 is the permutation monomial of Goldilocks");
    const Goldilocks x1 = x + Goldilocks::from_word(k), x2 = x1.square();
    return x1 * x2 * x2.square();
}

// The type in which the linear layers compute: the field itself for 31-bit fields, where an addition is two
// instructions; unreduced integers for Goldilocks.
template <class F>
struct Linear {
    typedef F Type;
    static __device__ __forceinline__ F from(F x) { return x; }
    static __device__ __forceinline__ F reduce(F x) { return x; }
};

template <>
struct Linear<Goldilocks> {
    typedef Goldilocks::Wide Type;
    static __device__ __forceinline__ Type from(Goldilocks x) { return Type::from(x); }
    static __device__ __forceinline__ Goldilocks reduce(Type x) { return x.reduce(); }
};

// The sum of all elements but the first, N even. Pairs of 31-bit elements fit in 32 bits; R times their sum,
// reduced by Montgomery, is the sum modulo p.
template <class P, int N>
__device__ __forceinline__ Monty31<P> sum_of_rest(const Monty31<P> (&x)[N]) {
    typedef Monty31<P> F;
    u64 wide = (u64)x[1].v * P::R1;
#pragma unroll
    for (int i = 2; i < N; i += 2) wide += (u64)(x[i].v + x[i + 1].v) * P::R1;
    if ((u64)N * P::R1 > 1ull << 32) wide = join_words(low_word(wide), F::least_residue(high_word(wide)));
    return F::from_word(F::least_residue(F::redc(wide)));
}

template <int N>
__device__ __forceinline__ Goldilocks sum_of_rest(const Goldilocks (&x)[N]) {
    Goldilocks::Wide sum = Goldilocks::Wide::from(x[1]);
#pragma unroll
    for (int i = 2; i < N; ++i) sum = sum + Goldilocks::Wide::from(x[i]);
    return sum.reduce();
}

// Plonky3's matrices: M_4 = circ(2, 3, 1, 1), and diagonals of small numbers and powers of two, V_0 = -2.
struct Plonky3Matrices {
    template <class F>
    static __device__ __forceinline__ void apply_m4(F& x0, F& x1, F& x2, F& x3) {
        const F t01 = x0 + x1, t23 = x2 + x3, t = t01 + t23, t1 = t + x1, t3 = t + x3;
        const F y3 = t3 + x0.double_(), y1 = t1 + x2.double_();
        x0 = t1 + t01;
        x1 = y1;
        x2 = t3 + t23;
        x3 = y3;
    }
    // V_0 s_0 + sum, from the sum without s_0.
    template <class F>
    static __device__ __forceinline__ F first(F rest, F s0) {
        return rest - s0;
    }
};

// RISC Zero's: M_4 of the Poseidon2 paper, rows (5, 7, 1, 3), (4, 6, 1, 1), (1, 3, 5, 7), (1, 1, 4, 6), and a dense
// diagonal.
struct RiscZeroMatrices {
    template <class F>
    static __device__ __forceinline__ void apply_m4(F& x0, F& x1, F& x2, F& x3) {
        const F t0 = x0 + x1, t1 = x2 + x3, t2 = x1.double_() + t1, t3 = x3.double_() + t0;
        const F t4 = t1.double_().double_() + t3, t5 = t0.double_().double_() + t2;
        x0 = t3 + t5;
        x1 = t5;
        x2 = t2 + t4;
        x3 = t4;
    }
    static __device__ __forceinline__ BabyBear first(BabyBear rest, BabyBear s0) {
        return rest + s0 * BabyBear::from_word(0x4e41b355);
    }
};

template <class Matrices, class F, int WIDTH>
__device__ __forceinline__ void external_layer(F (&s)[WIDTH]) {
    typename Linear<F>::Type y[WIDTH];
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) y[i] = Linear<F>::from(s[i]);
#pragma unroll
    for (int i = 0; i < WIDTH; i += 4) Matrices::apply_m4(y[i], y[i + 1], y[i + 2], y[i + 3]);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        typename Linear<F>::Type sum = y[k];
#pragma unroll
        for (int i = k + 4; i < WIDTH; i += 4) sum = sum + y[i];
#pragma unroll
        for (int i = k; i < WIDTH; i += 4) s[i] = Linear<F>::reduce(y[i] + sum);
    }
}

// An instance: the monomial's degree, the number of partial rounds, and the diagonal V, as s_i <- V_i s_i + sum for
// i >= 1.
template <class F, int WIDTH, class Matrices = Plonky3Matrices>
struct Poseidon2Instance;

template <int K, class T>
__device__ __forceinline__ T multiple(T x) {
    static_assert(2 <= K && K <= 4, "the diagonals have 2, 3 and 4");
    return K == 2 ? x.double_() : K == 3 ? x.double_() + x : x.double_().double_();
}
template <int K, class F>
__device__ __forceinline__ F plus_multiple(F sum, F x) {
    return Linear<F>::reduce(Linear<F>::from(sum) + multiple<K>(Linear<F>::from(x)));
}
template <int K, class F>
__device__ __forceinline__ F minus_multiple(F sum, F x) {
    return sum - Linear<F>::reduce(multiple<K>(Linear<F>::from(x)));
}

// V_1 .. V_8 = 1, 2, 1/2, 3, 4, -1/2, -3, -4, which all instances but the narrowest share.
template <class F, int WIDTH>
__device__ __forceinline__ void common_diagonal(F (&s)[WIDTH], F sum) {
    s[1] = sum + s[1];
    s[2] = plus_multiple<2>(sum, s[2]);
    s[3] = sum + s[3].halve();
    s[4] = plus_multiple<3>(sum, s[4]);
    s[5] = plus_multiple<4>(sum, s[5]);
    s[6] = sum - s[6].halve();
    s[7] = minus_multiple<3>(sum, s[7]);
    s[8] = minus_multiple<4>(sum, s[8]);
}

template <>
struct Poseidon2Instance<KoalaBear, 16> {
    static constexpr int DEGREE = 3, PARTIAL_ROUNDS = 20;
    static __device__ __forceinline__ void diagonal(KoalaBear (&s)[16], KoalaBear sum) {
        common_diagonal(s, sum);
        s[9] = sum + s[9].div_two_to<8>();
        s[10] = sum + s[10].div_two_to<3>();
        s[11] = sum + s[11].div_two_to<24>();
        s[12] = sum - s[12].div_two_to<8>();
        s[13] = sum - s[13].div_two_to<3>();
        s[14] = sum - s[14].div_two_to<4>();
        s[15] = sum - s[15].div_two_to<24>();
    }
};

template <>
struct Poseidon2Instance<KoalaBear, 24> {
    static constexpr int DEGREE = 3, PARTIAL_ROUNDS = 23;
    static __device__ __forceinline__ void diagonal(KoalaBear (&s)[24], KoalaBear sum) {
        common_diagonal(s, sum);
        s[9] = sum + s[9].div_two_to<8>();
        s[10] = sum + s[10].div_two_to<2>();
        s[11] = sum + s[11].div_two_to<3>();
        s[12] = sum + s[12].div_two_to<4>();
        s[13] = sum + s[13].div_two_to<5>();
        s[14] = sum + s[14].div_two_to<6>();
        s[15] = sum + s[15].div_two_to<24>();
        s[16] = sum - s[16].div_two_to<8>();
        s[17] = sum - s[17].div_two_to<3>();
        s[18] = sum - s[18].div_two_to<4>();
        s[19] = sum - s[19].div_two_to<5>();
        s[20] = sum - s[20].div_two_to<6>();
        s[21] = sum - s[21].div_two_to<7>();
        s[22] = sum - s[22].div_two_to<9>();
        s[23] = sum - s[23].div_two_to<24>();
    }
};

template <>
struct Poseidon2Instance<KoalaBear, 32> {
    static constexpr int DEGREE = 3, PARTIAL_ROUNDS = 31;
    static __device__ __forceinline__ void diagonal(KoalaBear (&s)[32], KoalaBear sum) {
        common_diagonal(s, sum);
        s[9] = sum + s[9].div_two_to<8>();
        s[10] = sum + s[10].div_two_to<2>();
        s[11] = sum + s[11].div_two_to<3>();
        s[12] = sum + s[12].div_two_to<4>();
        s[13] = sum + s[13].div_two_to<5>();
        s[14] = sum + s[14].div_two_to<6>();
        s[15] = sum + s[15].div_two_to<10>();
        s[16] = sum + s[16].div_two_to<12>();
        s[17] = sum + s[17].div_two_to<14>();
        s[18] = sum + s[18].div_two_to<16>();
        s[19] = sum + s[19].div_two_to<24>();
        s[20] = sum - s[20].div_two_to<8>();
        s[21] = sum - s[21].div_two_to<3>();
        s[22] = sum - s[22].div_two_to<4>();
        s[23] = sum - s[23].div_two_to<5>();
        s[24] = sum - s[24].div_two_to<6>();
        s[25] = sum - s[25].div_two_to<7>();
        s[26] = sum - s[26].div_two_to<9>();
        s[27] = sum - s[27].div_two_to<10>();
        s[28] = sum - s[28].div_two_to<12>();
        s[29] = sum - s[29].div_two_to<14>();
        s[30] = sum - s[30].div_two_to<16>();
        s[31] = sum - s[31].div_two_to<24>();
    }
};

template <>
struct Poseidon2Instance<BabyBear, 16> {
    static constexpr int DEGREE = 7, PARTIAL_ROUNDS = 13;
    static __device__ __forceinline__ void diagonal(BabyBear (&s)[16], BabyBear sum) {
        common_diagonal(s, sum);
        s[9] = sum + s[9].div_two_to<8>();
        s[10] = sum + s[10].div_two_to<2>();
        s[11] = sum + s[11].div_two_to<3>();
        s[12] = sum + s[12].div_two_to<27>();
        s[13] = sum - s[13].div_two_to<8>();
        s[14] = sum - s[14].div_two_to<4>();
        s[15] = sum - s[15].div_two_to<27>();
    }
};

template <>
struct Poseidon2Instance<BabyBear, 24> {
    static constexpr int DEGREE = 7, PARTIAL_ROUNDS = 21;
    static __device__ __forceinline__ void diagonal(BabyBear (&s)[24], BabyBear sum) {
        common_diagonal(s, sum);
        s[9] = sum + s[9].div_two_to<8>();
        s[10] = sum + s[10].div_two_to<2>();
        s[11] = sum + s[11].div_two_to<3>();
        s[12] = sum + s[12].div_two_to<4>();
        s[13] = sum + s[13].div_two_to<7>();
        s[14] = sum + s[14].div_two_to<9>();
        s[15] = sum + s[15].div_two_to<27>();
        s[16] = sum - s[16].div_two_to<8>();
        s[17] = sum - s[17].div_two_to<2>();
        s[18] = sum - s[18].div_two_to<3>();
        s[19] = sum - s[19].div_two_to<4>();
        s[20] = sum - s[20].div_two_to<5>();
        s[21] = sum - s[21].div_two_to<6>();
        s[22] = sum - s[22].div_two_to<7>();
        s[23] = sum - s[23].div_two_to<27>();
    }
};

template <>
struct Poseidon2Instance<BabyBear, 32> {
    static constexpr int DEGREE = 7, PARTIAL_ROUNDS = 30;
    static __device__ __forceinline__ void diagonal(BabyBear (&s)[32], BabyBear sum) {
        common_diagonal(s, sum);
        s[9] = sum + s[9].div_two_to<8>();
        s[10] = sum + s[10].div_two_to<2>();
        s[11] = sum + s[11].div_two_to<3>();
        s[12] = sum + s[12].div_two_to<4>();
        s[13] = sum + s[13].div_two_to<5>();
        s[14] = sum + s[14].div_two_to<6>();
        s[15] = sum + s[15].div_two_to<7>();
        s[16] = sum + s[16].div_two_to<9>();
        s[17] = sum + s[17].div_two_to<10>();
        s[18] = sum + s[18].div_two_to<12>();
        s[19] = sum + s[19].div_two_to<27>();
        s[20] = sum - s[20].div_two_to<8>();
        s[21] = sum - s[21].div_two_to<2>();
        s[22] = sum - s[22].div_two_to<3>();
        s[23] = sum - s[23].div_two_to<4>();
        s[24] = sum - s[24].div_two_to<5>();
        s[25] = sum - s[25].div_two_to<6>();
        s[26] = sum - s[26].div_two_to<7>();
        s[27] = sum - s[27].div_two_to<9>();
        s[28] = sum - s[28].div_two_to<10>();
        s[29] = sum - s[29].div_two_to<12>();
        s[30] = sum - s[30].div_two_to<14>();
        s[31] = sum - s[31].div_two_to<27>();
    }
};

template <>
struct Poseidon2Instance<BabyBear, 24, RiscZeroMatrices> {
    static constexpr int DEGREE = 7, PARTIAL_ROUNDS = 21;
    static __device__ __forceinline__ void diagonal(BabyBear (&s)[24], BabyBear sum) {
        // In stored form.
        constexpr u32 V[24] = {
            0x3e41b357, 0x1033ed98, 0x49cf6705, 0x5281f318, 0x3c4ec8ee, 0x1967a15c, 0x3ab8089a, 0x68f1a534,
            0x11e010d5, 0x0d63d87e, 0x50d79dd3, 0x4a6bc505, 0x6f46057c, 0x437dd156, 0x60b4b484, 0x440c54cb,
            0x4a155e0a, 0x6a059603, 0x46382d00, 0x1f9b9cab, 0x1ce078ad, 0x12d7bd14, 0x5e4294b4, 0x1b314dce,
        };
#pragma unroll
        for (int i = 1; i < 24; ++i) s[i] = sum + s[i] * BabyBear::from_word(V[i]);
    }
};

template <>
struct Poseidon2Instance<Goldilocks, 8> {
    static constexpr int DEGREE = 7, PARTIAL_ROUNDS = 22;
    static __device__ __forceinline__ void diagonal(Goldilocks (&s)[8], Goldilocks sum) {
        s[1] = sum + s[1];
        s[2] = plus_multiple<2>(sum, s[2]);
        s[3] = sum + s[3].halve();
        s[4] = plus_multiple<3>(sum, s[4]);
        s[5] = sum - s[5].halve();
        s[6] = minus_multiple<3>(sum, s[6]);
        s[7] = minus_multiple<4>(sum, s[7]);
    }
};

template <>
struct Poseidon2Instance<Goldilocks, 12> {
    static constexpr int DEGREE = 7, PARTIAL_ROUNDS = 22;
    static __device__ __forceinline__ void diagonal(Goldilocks (&s)[12], Goldilocks sum) {
        common_diagonal(s, sum);
        s[9] = sum + s[9].div_two_to<2>();
        s[10] = sum - s[10].div_two_to<2>();
        s[11] = sum + s[11].div_two_to<3>();
    }
};

template <>
struct Poseidon2Instance<Goldilocks, 16> {
    static constexpr int DEGREE = 7, PARTIAL_ROUNDS = 22;
    static __device__ __forceinline__ void diagonal(Goldilocks (&s)[16], Goldilocks sum) {
        common_diagonal(s, sum);
        s[9] = sum + s[9].div_two_to<3>();
        s[10] = sum + s[10].div_two_to<4>();
        s[11] = sum + s[11].div_two_to<5>();
        s[12] = sum - s[12].div_two_to<3>();
        s[13] = sum - s[13].div_two_to<4>();
        s[14] = sum - s[14].div_two_to<5>();
        s[15] = sum + s[15].div_two_to<32>();
    }
};

template <class F, int WIDTH, class Matrices = Plonky3Matrices>
struct Poseidon2 {
    typedef Poseidon2Instance<F, WIDTH, Matrices> Instance;
    typedef Poseidon2Constants<F, WIDTH, Instance::PARTIAL_ROUNDS> Constants;

    static __device__ __forceinline__ void full_round(F (&s)[WIDTH], const typename F::Word (&k)[WIDTH]) {
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) s[i] = add_and_power<Instance::DEGREE>(s[i], k[i]);
        external_layer<Matrices>(s);
    }

    // The sum without s_0 does not depend on the power of s_0, so the two can overlap.
    static __device__ __forceinline__ void partial_round(F (&s)[WIDTH], typename F::Word k) {
        const F rest = sum_of_rest(s);
        const F power = add_and_power<Instance::DEGREE>(s[0], k);
        s[0] = Matrices::first(rest, power);
        Instance::diagonal(s, rest + power);
    }

    // Rounds stay loops: unrolled they would not fit in the instruction cache.
    static __device__ __forceinline__ void permute(F (&s)[WIDTH], const Constants& constants) {
        external_layer<Matrices>(s);
#pragma unroll 1
        for (int round = 0; round < 4; ++round) full_round(s, constants.initial[round]);
#pragma unroll 1
        for (int round = 0; round < Instance::PARTIAL_ROUNDS; ++round) partial_round(s, constants.partial[round]);
#pragma unroll 1
        for (int round = 0; round < 4; ++round) full_round(s, constants.terminal[round]);
    }
};

// Plonky3's PaddingFreeSponge<Poseidon2, WIDTH, RATE, OUT>: elements overwrite the first RATE elements of the state, a
// partial block leaves the others unchanged, and an empty remainder costs no permutation. Rows are objects with `F
// operator()(u32 i) const`.
template <class F, int STATE, int RATE, int OUT>
struct Poseidon2Sponge {
    static constexpr int WIDTH = STATE;
    typedef Poseidon2<F, WIDTH> Permutation;
    typedef typename Permutation::Constants Constants;
    typedef F Word;
    static constexpr int DIGEST_WORDS = OUT;
    F s[WIDTH];

    __device__ __forceinline__ void init() {
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) s[i] = F::zero();
    }

    // The state between whole blocks of a row.
    static constexpr int STATE_WORDS = WIDTH;
    __device__ __forceinline__ F& state(int w) { return s[w]; }

    // A whole row of `count` elements. Rows that arrive in parts of a multiple of RATE are absorbed part by part, and
    // the state may be kept in memory in between. The loop holds the only copy of the permutation's code.
    template <class Row>
    __device__ __forceinline__ void absorb(const Row& row, u32 count, const Constants& constants) {
#pragma unroll 1
        for (u32 first = 0; first < count; first += RATE) {
#pragma unroll
            for (u32 j = 0; j < RATE; ++j)
                if (first + j < count) s[j] = row(first + j);
            Permutation::permute(s, constants);
        }
    }

    template <class Row>
    __device__ __forceinline__ void absorb_whole(const Row& row, u32 count, const Constants& constants) {
        absorb(row, count, constants);
    }

    __device__ __forceinline__ void finish(F (&digest)[OUT]) const {
#pragma unroll
        for (int i = 0; i < OUT; ++i) digest[i] = s[i];
    }

    static __device__ __forceinline__ void permute(F (&s)[WIDTH], const Constants& constants) {
        Permutation::permute(s, constants);
    }

    // TruncatedPermutation<Poseidon2, 2, OUT, WIDTH>: the first elements of the permutation of two digests, followed
    // by zeros if the state has room for more.
    static __device__ __forceinline__ void compress(const F (&left)[OUT], const F (&right)[OUT], F (&digest)[OUT],
                                                    const Constants& constants) {
        static_assert(WIDTH >= 2 * OUT, "two digests fit in the state");
        F s[WIDTH];
#pragma unroll
        for (int i = 0; i < OUT; ++i) {
            s[i] = left[i];
            s[OUT + i] = right[i];
        }
#pragma unroll
        for (int i = 2 * OUT; i < WIDTH; ++i) s[i] = F::zero();
        Permutation::permute(s, constants);
#pragma unroll
        for (int i = 0; i < OUT; ++i) digest[i] = s[i];
    }
};
