#pragma once

#include "field/operators.cuh"
#include "field/word.cuh"

// Mersenne-31: p = 2^31 - 1, stored as the canonical integer in [0, p). Since 2^31 = 1 (mod p), a number is reduced by
// adding its upper bits to its lower 31. Plonky3 may also store zero as p itself: operands may be in [0, p],
// `canonical` and == treat p as zero, and operations on canonical operands have canonical results.
struct Mersenne31 {
    typedef u32 Word;
    typedef Mersenne31 Base;
    static constexpr int DEGREE = 1;
    static constexpr u32 MODULUS = 0x7fffffff;
    static constexpr int TWO_ADICITY = 1;

    u32 v;

    static __device__ __forceinline__ Mersenne31 from_word(u32 word) {
        Mersenne31 x;
        x.v = word;
        return x;
    }
    static __device__ __forceinline__ Mersenne31 zero() { return from_word(0); }
    static __device__ __forceinline__ Mersenne31 one() { return from_word(1); }
    static __device__ __forceinline__ Mersenne31 from_base(Mersenne31 x) { return x; }

    // The class of an integer, and the representative in [0, p).
    static __device__ __forceinline__ Mersenne31 from_integer(u32 integer) {
        return from_word(least_residue((integer & MODULUS) + (integer >> 31)));
    }
    __device__ __forceinline__ u32 to_integer() const { return canonical(); }

    // The word that is hashed and compared.
    __device__ __forceinline__ u32 canonical() const { return least_residue(v); }

    // t mod p in [0, p), for t in [0, 2p).
    static __device__ __forceinline__ u32 least_residue(u32 t) { return least(t, t - MODULUS); }

    // x mod p in [0, p), for x <= p^2.
    static __device__ __forceinline__ u32 reduce_product(u64 x) {
#if defined(RIGEL_OPAQUE) && !defined(RIGEL_EMULATED)
        u32 t;
        asm("{.reg .u32 low, high, upper; mov.b64 {low, high}, %1; shf.l.wrap.b32 upper, low, high, 1;"
            "and.b32 low, low, 0x7fffffff; add.u32 %0, low, upper;}"
            : "=r"(t)
            : "l"(x));
        return least_residue(t);
#else
        return least_residue((low_word(x) & MODULUS) + (u32)(x >> 31));
#endif
    }

    // x mod p in [0, p), for x < p 2^32.
    static __device__ __forceinline__ u32 reduce_wide(u64 x) {
#if defined(RIGEL_OPAQUE) && !defined(RIGEL_EMULATED)
        u32 t;
        asm("{.reg .u32 low, high, upper; mov.b64 {low, high}, %1; shf.l.wrap.b32 upper, low, high, 1;"
            "and.b32 low, low, 0x7fffffff; and.b32 high, upper, 0x7fffffff; shr.u32 upper, upper, 31;"
            "add.u32 low, low, high; add.u32 %0, low, upper;}"
            : "=r"(t)
            : "l"(x));
#else
        const u32 upper = __funnelshift_l(low_word(x), high_word(x), 1);
        const u32 t = (low_word(x) & MODULUS) + (upper & MODULUS) + (upper >> 31);
#endif
        return least_residue(least_residue(t));
    }

    __device__ __forceinline__ Mersenne31 operator+(Mersenne31 other) const {
        return from_word(least_residue(v + other.v));
    }
    __device__ __forceinline__ Mersenne31 operator-(Mersenne31 other) const {
        const u32 t = v - other.v;
        return from_word(least(t, t + MODULUS));
    }
    __device__ __forceinline__ Mersenne31 operator-() const { return zero() - *this; }
    __device__ __forceinline__ Mersenne31 operator*(Mersenne31 other) const {
        return from_word(reduce_product((u64)v * other.v));
    }
    __device__ __forceinline__ bool operator==(Mersenne31 other) const { return canonical() == other.canonical(); }
    RIGEL_DERIVED_OPERATORS(Mersenne31)

    __device__ __forceinline__ Mersenne31 double_() const { return *this + *this; }
    __device__ __forceinline__ Mersenne31 square() const { return *this * *this; }

    // x / 2 = 2^30 x: a rotation of the 31 bits.
    __device__ __forceinline__ Mersenne31 halve() const { return from_word((v >> 1) + (v & 1) * (1u << 30)); }

    // x^(p - 2), which is 1 / x, and 0 for 0; p - 2 is 29 ones, a zero and a one in binary, and ones(n) below
    // is x to the power of n ones.
    __device__ __forceinline__ Mersenne31 inverse() const {
        const Mersenne31 ones2 = square() * *this;
        const Mersenne31 ones3 = ones2.square() * *this;
        const Mersenne31 ones6 = ones3.square_n(3) * ones3;
        const Mersenne31 ones12 = ones6.square_n(6) * ones6;
        const Mersenne31 ones24 = ones12.square_n(12) * ones12;
        const Mersenne31 ones27 = ones24.square_n(3) * ones3;
        const Mersenne31 ones29 = ones27.square_n(2) * ones2;
        return ones29.square_n(2) * *this;
    }

    // a0 b0 + a1 b1 + a2 b2 + a3 b3 with one reduction, for factors up to and including p: 4 p^2 < 2^64.
    static __device__ __forceinline__ Mersenne31 dot(Mersenne31 a0, Mersenne31 b0, Mersenne31 a1, Mersenne31 b1,
                                                     Mersenne31 a2, Mersenne31 b2, Mersenne31 a3,
                                                     Mersenne31 b3) {
        u64 x = (u64)a0.v * b0.v;
        x += (u64)a1.v * b1.v;
        x += (u64)a2.v * b2.v;
        x += (u64)a3.v * b3.v;
        return from_word(reduce_wide(join_words(low_word(x), least_residue(high_word(x)))));
    }

    // p - x, which for x = 0 is p and not canonical: use it only as a factor of `dot` and `mul_add`.
    __device__ __forceinline__ Mersenne31 complement() const { return from_word(MODULUS - v); }

    // A sum of products that is reduced once at the end. It holds an integer below p 2^32; since that is
    // 0 mod p, the upper word may be reduced alone.
    struct Sum {
        u64 x;

        static __device__ __forceinline__ Sum zero() {
            Sum s;
            s.x = 0;
            return s;
        }
        __device__ __forceinline__ void fold() { x = join_words(low_word(x), least_residue(high_word(x))); }
        __device__ __forceinline__ Sum& mul_add(Mersenne31 a, Mersenne31 b) {
            x += (u64)a.v * b.v;
            fold();
            return *this;
        }
        __device__ __forceinline__ Sum& add(Mersenne31 a) {
            x += a.v;
            fold();
            return *this;
        }
        __device__ __forceinline__ Sum& operator+=(Sum other) {
            x += other.x;
            fold();
            return *this;
        }
        __device__ __forceinline__ Mersenne31 reduce() const { return from_word(reduce_wide(x)); }
    };
};
