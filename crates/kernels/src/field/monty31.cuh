#pragma once

#include "field/operators.cuh"
#include "field/word.cuh"

// A prime field of 31 bits in Montgomery form: x is stored as x R mod p, R = 2^32, in [0, p), as Plonky3 does.
//
// With t = -x / p mod R, the number x + t p is a multiple of R, and (x + t p) / R is x / R mod p.
//   unsigned: x < p R          gives a result in [0, 2p);
//   signed:   |x| <= p^2       gives a result in (-p, p), since |t| <= R / 2 and p < R / 2.
// A product is four instructions: IMAD.WIDE, IMAD (t), IMAD.HI (with x as addend), VIADDMNMX (into [0, p)).
//
// Parameters: MODULUS; NEGATIVE_INVERSE = -1 / p mod R; R1, R2 = R, R^2 mod p; TWO_ADICITY; and RUN, RUNS with
// p - 2 = RUN ones, a zero, RUNS * RUN ones in binary.
template <class P>
struct Monty31 {
    typedef u32 Word;
    typedef Monty31 Base;
    static constexpr int DEGREE = 1;
    static constexpr u32 MODULUS = P::MODULUS;
    static constexpr int TWO_ADICITY = P::TWO_ADICITY;

    u32 v;

    static __device__ __forceinline__ Monty31 from_word(u32 word) {
        Monty31 x;
        x.v = word;
        return x;
    }
    static __device__ __forceinline__ Monty31 zero() { return from_word(0); }
    static __device__ __forceinline__ Monty31 one() { return from_word(P::R1); }
    static __device__ __forceinline__ Monty31 from_base(Monty31 x) { return x; }

    // The class of an integer, and the representative in [0, p).
    static __device__ __forceinline__ Monty31 from_integer(u32 integer) {
        return from_word(least_residue(redc((u64)integer * P::R2)));
    }
    __device__ __forceinline__ u32 to_integer() const { return least_residue(redc(v)); }

    // The word that is hashed and compared: the stored one, which is unique.
    __device__ __forceinline__ u32 canonical() const { return v; }

    // x / R mod p in [0, 2p), for x < p R.
    static __device__ __forceinline__ u32 redc(u64 x) {
        const u32 t = low_word(x) * P::NEGATIVE_INVERSE;
#ifndef RIGEL_EMULATED
        // One carry chain, which ptxas folds into a single IMAD.HI; written as 64-bit C++ it becomes three adds.
        u32 high;
        asm("{.reg .u32 low; mad.lo.cc.u32 low, %1, %2, %3; madc.hi.u32 %0, %1, %2, %4;}"
            : "=r"(high)
            : "r"(t), "r"(MODULUS), "r"(low_word(x)), "r"(high_word(x)));
        return high;
#else
        return high_word(x + (u64)t * MODULUS);
#endif
    }

    // x / R mod p in (-p, p), for |x| <= p^2: a chain of products of numbers in [-p, p] needs no correction between the
    // products.
    static __device__ __forceinline__ i32 redc_signed(i64 x) {
        const u32 t = low_word((u64)x) * P::NEGATIVE_INVERSE;
#ifndef RIGEL_EMULATED
        i32 high;
        asm("{.reg .s32 low; mad.lo.cc.s32 low, %1, %2, %3; madc.hi.s32 %0, %1, %2, %4;}"
            : "=r"(high)
            : "r"(t), "r"(MODULUS), "r"(low_word((u64)x)), "r"(high_word((u64)x)));
        return high;
#else
        return (i32)((x + (i64)(i32)t * (i64)MODULUS) >> 32);
#endif
    }

    // t mod p in [0, p), for t in [0, 2p) or (signed) for t in (-p, p).
    static __device__ __forceinline__ u32 least_residue(u32 t) { return least(t, t - MODULUS); }
    static __device__ __forceinline__ u32 least_residue_signed(u32 t) { return least(t, t + MODULUS); }

    __device__ __forceinline__ Monty31 operator+(Monty31 other) const {
        return from_word(least_residue(v + other.v));
    }
    __device__ __forceinline__ Monty31 operator-(Monty31 other) const {
        return from_word(least_residue_signed(v - other.v));
    }
    __device__ __forceinline__ Monty31 operator-() const { return from_word(least_residue_signed(0u - v)); }
    __device__ __forceinline__ Monty31 operator*(Monty31 other) const {
        return from_word(least_residue(redc((u64)v * other.v)));
    }
    __device__ __forceinline__ bool operator==(Monty31 other) const { return v == other.v; }
    RIGEL_DERIVED_OPERATORS(Monty31)

    __device__ __forceinline__ Monty31 double_() const { return *this + *this; }
    __device__ __forceinline__ Monty31 square() const { return *this * *this; }

    // x / 2: an odd v becomes even by adding p.
    __device__ __forceinline__ Monty31 halve() const {
        return from_word((v >> 1) + (v & 1) * ((MODULUS + 1) / 2));
    }

    // x / 2^K for K <= TWO_ADICITY: with v = h 2^K + l and 1 / 2^K = -(p - 1) / 2^K, it is h - l (p - 1) / 2^K.
    template <int K>
    __device__ __forceinline__ Monty31 div_two_to() const {
        static_assert(0 < K && K <= TWO_ADICITY, "2^K must divide p - 1");
        const u32 h = v >> K, l = v & ((1u << K) - 1);
        return from_word(least_residue_signed(h - l * ((MODULUS - 1) >> K)));
    }

    // x^(p - 2), which is 1 / x, and 0 for 0: see RUN and RUNS.
    __device__ __forceinline__ Monty31 inverse() const {
        Monty31 run = *this;
        for (int i = 1; i < P::RUN; ++i) run = run.square() * *this;
        Monty31 result = run.square();
        for (int i = 0; i < P::RUNS; ++i) result = result.square_n(P::RUN) * run;
        return result;
    }

    // a0 b0 + a1 b1 + a2 b2 + a3 b3 with one reduction: 4 p^2 < 2^64 and 4 p^2 / R < 2p.
    static __device__ __forceinline__ Monty31 dot(Monty31 a0, Monty31 b0, Monty31 a1, Monty31 b1, Monty31 a2,
                                                  Monty31 b2, Monty31 a3, Monty31 b3) {
        u64 x = (u64)a0.v * b0.v;
        x += (u64)a1.v * b1.v;
        x += (u64)a2.v * b2.v;
        x += (u64)a3.v * b3.v;
        return from_word(least_residue(redc(join_words(low_word(x), least_residue(high_word(x))))));
    }

    // A sum of products that is reduced once at the end. It holds an integer below p R; since p R = 0 mod p,
    // the upper word may be reduced alone, so that a term costs two instructions: IMAD.WIDE and VIADDMNMX.
    struct Sum {
        u64 x;

        static __device__ __forceinline__ Sum zero() {
            Sum s;
            s.x = 0;
            return s;
        }
        __device__ __forceinline__ void fold() { x = join_words(low_word(x), least_residue(high_word(x))); }
        __device__ __forceinline__ Sum& mul_add(Monty31 a, Monty31 b) {
            x += (u64)a.v * b.v;
            fold();
            return *this;
        }
        __device__ __forceinline__ Sum& add(Monty31 a) {
            x += (u64)a.v << 32;
            fold();
            return *this;
        }
        __device__ __forceinline__ Sum& operator+=(Sum other) {
            x += other.x;
            fold();
            return *this;
        }
        __device__ __forceinline__ Monty31 reduce() const { return from_word(least_residue(redc(x))); }
    };
};
