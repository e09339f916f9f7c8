#pragma once

#include "field/operators.cuh"
#include "field/word.cuh"

// Goldilocks: p = 2^64 - 2^32 + 1, stored as any 64-bit integer of the residue class, as Plonky3 does. All functions
// accept and may return any such integer; `canonical` returns the one in [0, p).
//
// With e = 2^32 - 1: 2^64 = e, 2^96 = -1 and 2^128 = -2^32 (mod p). So a carry out of 64 bits is worth +e and a
// borrow is worth -e. If both operands are at or above p, adding e may carry once more, but not a third time.
struct Goldilocks {
    typedef u64 Word;
    typedef Goldilocks Base;
    static constexpr int DEGREE = 1;
    static constexpr u64 MODULUS = 0xffffffff00000001ull;
    static constexpr u64 EPSILON = 0xffffffffull;
    static constexpr int TWO_ADICITY = 32;

    u64 v;

    static __device__ __forceinline__ Goldilocks from_word(u64 word) {
        Goldilocks x;
        x.v = word;
        return x;
    }
    static __device__ __forceinline__ Goldilocks zero() { return from_word(0); }
    static __device__ __forceinline__ Goldilocks one() { return from_word(1); }
    static __device__ __forceinline__ Goldilocks from_base(Goldilocks x) { return x; }

    // The class of an integer, and the representative in [0, p).
    static __device__ __forceinline__ Goldilocks from_integer(u64 integer) { return from_word(integer); }
    __device__ __forceinline__ u64 to_integer() const { return canonical(); }

    // The word that is hashed and compared: v - p = v + e - 2^64, if that is not negative.
    __device__ __forceinline__ u64 canonical() const { return v >= MODULUS ? v + EPSILON : v; }

    // a + b and a - b, with e times the carry or borrow in `e_out` (0 or e).
    static __device__ __forceinline__ u64 add_carry(u64 a, u64 b, u32& e_out) {
#ifndef RIGEL_EMULATED
        u64 sum;
        asm("{.reg .u32 c; .reg .pred q; add.cc.u64 %0, %2, %3; addc.u32 c, 0, 0; setp.ne.u32 q, c, 0;"
            "selp.u32 %1, 0xffffffff, 0, q;}"
            : "=l"(sum), "=r"(e_out)
            : "l"(a), "l"(b));
        return sum;
#else
        const u64 sum = a + b;
        e_out = sum < a ? (u32)EPSILON : 0;
        return sum;
#endif
    }
    static __device__ __forceinline__ u64 sub_borrow(u64 a, u64 b, u32& e_out) {
#ifndef RIGEL_EMULATED
        u64 difference;
        asm("{sub.cc.u64 %0, %2, %3; subc.u32 %1, 0, 0;}" : "=l"(difference), "=r"(e_out) : "l"(a), "l"(b));
        return difference;
#else
        e_out = a < b ? (u32)EPSILON : 0;
        return a - b;
#endif
    }

    __device__ __forceinline__ Goldilocks operator+(Goldilocks other) const {
        u32 e1, e2;
        const u64 sum = add_carry(v, other.v, e1);
        const u64 folded = add_carry(sum, e1, e2);
        return from_word(folded + e2);
    }
    __device__ __forceinline__ Goldilocks operator-(Goldilocks other) const {
        u32 e1, e2;
        const u64 difference = sub_borrow(v, other.v, e1);
        const u64 folded = sub_borrow(difference, e1, e2);
        return from_word(folded - e2);
    }
    __device__ __forceinline__ Goldilocks operator-() const { return zero() - *this; }
    __device__ __forceinline__ Goldilocks operator*(Goldilocks other) const {
        u64 low, high;
        product(v, other.v, low, high);
        return from_word(reduce_wide(low, high));
    }

    __device__ __forceinline__ bool operator==(Goldilocks other) const {
        return canonical() == other.canonical();
    }
    RIGEL_DERIVED_OPERATORS(Goldilocks)

    __device__ __forceinline__ Goldilocks double_() const { return *this + *this; }
    __device__ __forceinline__ Goldilocks square() const { return *this * *this; }

    // x / 2: an odd v becomes even by adding p.
    __device__ __forceinline__ Goldilocks halve() const {
        return from_word((v >> 1) + ((v & 1) ? (MODULUS + 1) / 2 : 0));
    }

    // x / 2^K for K <= TWO_ADICITY: with v = h 2^K + l and 1 / 2^K = -(p - 1) / 2^K, it is h - l (p - 1) / 2^K.
    template <int K>
    __device__ __forceinline__ Goldilocks div_two_to() const {
        static_assert(0 < K && K <= TWO_ADICITY, "2^K must divide p - 1");
        const u64 l = v & ((1ull << K) - 1);
        u32 e;
        const u64 difference = sub_borrow(v >> K, (l << (64 - K)) - (l << (32 - K)), e);
        return from_word(difference - e);
    }

    // x^(p - 2), which is 1 / x, and 0 for 0; p - 2 is 31 ones, a zero and 32 ones in binary, and ones(n) below
    // is x to the power of n ones.
    __device__ __forceinline__ Goldilocks inverse() const {
        const Goldilocks ones2 = square() * *this;
        const Goldilocks ones3 = ones2.square() * *this;
        const Goldilocks ones6 = ones3.square_n(3) * ones3;
        const Goldilocks ones12 = ones6.square_n(6) * ones6;
        const Goldilocks ones24 = ones12.square_n(12) * ones12;
        const Goldilocks ones30 = ones24.square_n(6) * ones6;
        const Goldilocks ones31 = ones30.square() * *this;
        const Goldilocks upper = ones31.square_n(32) * ones31;
        return upper.square() * *this;
    }

    // The 128-bit product.
    static __device__ __forceinline__ void product(u64 a, u64 b, u64& low, u64& high) {
        const u32 a0 = low_word(a), a1 = high_word(a), b0 = low_word(b), b1 = high_word(b);
#ifndef RIGEL_EMULATED
        // a1 b1 : a0 b0, then the two middle products added with one carry chain each.
        u32 r0, r1, r2, r3;
        asm("{mul.lo.u32 %0, %4, %6; mul.hi.u32 %1, %4, %6; mul.lo.u32 %2, %5, %7; mul.hi.u32 %3, %5, %7;"
            "mad.lo.cc.u32 %1, %4, %7, %1; madc.hi.cc.u32 %2, %4, %7, %2; addc.u32 %3, %3, 0;"
            "mad.lo.cc.u32 %1, %5, %6, %1; madc.hi.cc.u32 %2, %5, %6, %2; addc.u32 %3, %3, 0;}"
            : "=&r"(r0), "=&r"(r1), "=&r"(r2), "=&r"(r3)
            : "r"(a0), "r"(a1), "r"(b0), "r"(b1));
        low = join_words(r0, r1);
        high = join_words(r2, r3);
#else
        const u64 bottom = (u64)a0 * b0;
        const u64 middle = (u64)a0 * b1 + high_word(bottom);
        const u64 other = (u64)a1 * b0 + low_word(middle);
        low = join_words(low_word(bottom), low_word(other));
        high = (u64)a1 * b1 + high_word(middle) + high_word(other);
#endif
    }

    // low + 2^64 high + 2^128 top, reduced to 64 bits, for top < 2^31: low + e high0 - high1 - 2^32 top, where
    // high = high0 + 2^32 high1.
    static __device__ __forceinline__ u64 reduce_wide(u64 low, u64 high, u32 top = 0) {
        u32 e1, e2;
        const u64 difference = sub_borrow(low, join_words(high_word(high), top), e1);
        // After a borrow the number is above 2^63, so e can be subtracted; after a carry it is below 2^64 - 2^33, so e
        // can be added.
        const u64 sum = add_carry(difference - e1, (u64)low_word(high) * EPSILON, e2);
        return sum + e2;
    }

    // a0 b0 + a1 b1 with one reduction.
    static __device__ __forceinline__ Goldilocks dot(Goldilocks a0, Goldilocks b0, Goldilocks a1, Goldilocks b1) {
#ifndef RIGEL_EMULATED
        // Column by column, so that each partial product is one IMAD.WIDE with a carry out.
        u32 r0, r1, r2, r3, r4;
        asm("{.reg .u32 l1, m0, m1, h0, h1, lt, mt, ht;"
            "mul.lo.u32 %0, %5, %7; mul.hi.u32 l1, %5, %7; mul.lo.u32 m0, %5, %8; mul.hi.u32 m1, %5, %8;"
            "mul.lo.u32 h0, %6, %8; mul.hi.u32 h1, %6, %8;"
            "mad.lo.cc.u32 %0, %9, %11, %0; madc.hi.cc.u32 l1, %9, %11, l1; addc.u32 lt, 0, 0;"
            "mad.lo.cc.u32 m0, %6, %7, m0; madc.hi.cc.u32 m1, %6, %7, m1; addc.u32 mt, 0, 0;"
            "mad.lo.cc.u32 m0, %9, %12, m0; madc.hi.cc.u32 m1, %9, %12, m1; addc.u32 mt, mt, 0;"
            "mad.lo.cc.u32 m0, %10, %11, m0; madc.hi.cc.u32 m1, %10, %11, m1; addc.u32 mt, mt, 0;"
            "mad.lo.cc.u32 h0, %10, %12, h0; madc.hi.cc.u32 h1, %10, %12, h1; addc.u32 ht, 0, 0;"
            "add.cc.u32 %1, l1, m0; addc.cc.u32 %2, h0, m1; addc.cc.u32 %3, h1, mt; addc.u32 %4, ht, 0;"
            "add.cc.u32 %2, %2, lt; addc.cc.u32 %3, %3, 0; addc.u32 %4, %4, 0;}"
            : "=&r"(r0), "=&r"(r1), "=&r"(r2), "=&r"(r3), "=&r"(r4)
            : "r"(low_word(a0.v)), "r"(high_word(a0.v)), "r"(low_word(b0.v)), "r"(high_word(b0.v)),
              "r"(low_word(a1.v)), "r"(high_word(a1.v)), "r"(low_word(b1.v)), "r"(high_word(b1.v)));
        Sum s;
        s.low = join_words(r0, r1);
        s.high = join_words(r2, r3);
        s.top = r4;
        return s.reduce();
#else
        return Sum::zero().mul_add(a0, b0).mul_add(a1, b1).reduce();
#endif
    }

    // x k for a small integer k.
    __device__ __forceinline__ Goldilocks times_small(u32 k) const {
        const u64 bottom = (u64)low_word(v) * k, upper = (u64)high_word(v) * k + high_word(bottom);
        Wide w;
        w.low = join_words(low_word(bottom), low_word(upper));
        w.top = high_word(upper);
        return w.reduce();
    }

    // A sum, difference or small multiple of a few elements, unreduced: the integer low + 2^64 top, top signed. An
    // addition costs three instructions in place of eight.
    struct Wide {
        u64 low;
        u32 top;

        static __device__ __forceinline__ Wide from(Goldilocks x) { return from_parts(x.v, 0); }
        static __device__ __forceinline__ Wide from_parts(u64 low, u32 top) {
            Wide w;
            w.low = low;
            w.top = top;
            return w;
        }
        static __device__ __forceinline__ Wide from_words(u32 w0, u32 w1, u32 w2) {
            return from_parts(join_words(w0, w1), w2);
        }
        // k p, for 0 < k < 2^31.
        static __device__ __forceinline__ Wide multiple_of_p(u32 k) { return from_words(k, 0u - k, k - 1); }

        __device__ __forceinline__ Wide operator+(Wide other) const {
            Wide w;
#ifndef RIGEL_EMULATED
            asm("{add.cc.u64 %0, %2, %4; addc.u32 %1, %3, %5;}"
                : "=l"(w.low), "=r"(w.top)
                : "l"(low), "r"(top), "l"(other.low), "r"(other.top));
#else
            w.low = low + other.low;
            w.top = top + other.top + (w.low < low);
#endif
            return w;
        }
        __device__ __forceinline__ Wide operator-(Wide other) const {
            Wide w;
#ifndef RIGEL_EMULATED
            asm("{sub.cc.u64 %0, %2, %4; subc.u32 %1, %3, %5;}"
                : "=l"(w.low), "=r"(w.top)
                : "l"(low), "r"(top), "l"(other.low), "r"(other.top));
#else
            w.low = low - other.low;
            w.top = top - other.top - (low < other.low);
#endif
            return w;
        }
        __device__ __forceinline__ Wide double_() const { return *this + *this; }

        // x 2^s for s < 96, s known when compiled, and |x| 2^(s mod 32) < 2^95. The result is within 2^65 of zero. With
        // x 2^(s mod 32) = y0 + y1 2^32 + y2 2^64, y2 signed,
        //   s < 32:  y0 + y1 2^32 - y2 + y2 2^32      (2^64 = 2^32 - 1)
        //   s < 64:  y1 e - y2 + y0 2^32              (2^96 = -1)
        //   s < 96:  y0 e - y1 - y2 2^32              (2^128 = -2^32)
        // In the first line the sign extensions of -y2 and y2 cancel in the top word.
        __device__ __forceinline__ Wide times_two_to(u32 s) const {
            const u32 bits = s % 32, x0 = low_word(low), x1 = high_word(low);
            const u32 y0 = x0 << bits, y1 = __funnelshift_l(x0, x1, bits), y2 = __funnelshift_l(x1, top, bits);
            const u32 sign = (u32)((i32)top >> 31);
            if (s < 32) return (from_words(y0, y1, 0) - from_words(y2, sign, 0)).plus_upper(y2);
            if (s < 64) return (from_parts(y1 * EPSILON, 0) - from_words(y2, sign, sign)).plus_upper(y0);
            return from_parts(y0 * EPSILON, 0) - from_words(y1, y2, sign);
        }
        // x + 2^32 word.
        __device__ __forceinline__ Wide plus_upper(u32 word) const {
#ifndef RIGEL_EMULATED
            u32 upper, carried;
            asm("{add.cc.u32 %0, %2, %4; addc.u32 %1, %3, 0;}"
                : "=r"(upper), "=r"(carried)
                : "r"(high_word(low)), "r"(top), "r"(word));
            return from_words(low_word(low), upper, carried);
#else
            return *this + from_words(0, word, 0);
#endif
        }

        // For 0 <= top: 2^64 = e, and after a carry the sum is below 2^63, so that adding e for it cannot carry again.
        __device__ __forceinline__ Goldilocks reduce() const {
            u32 e;
            const u64 sum = add_carry(low, (u64)top * EPSILON, e);
            return from_word(sum + e);
        }
    };

    // A sum of products that is reduced once at the end: a 160-bit integer.
    struct Sum {
        u64 low, high;
        u32 top;

        static __device__ __forceinline__ Sum zero() {
            Sum s;
            s.low = s.high = 0;
            s.top = 0;
            return s;
        }
        __device__ __forceinline__ Sum& add_wide(u64 other_low, u64 other_high, u32 other_top) {
#ifndef RIGEL_EMULATED
            asm("{add.cc.u64 %0, %0, %3; addc.cc.u64 %1, %1, %4; addc.u32 %2, %2, %5;}"
                : "+l"(low), "+l"(high), "+r"(top)
                : "l"(other_low), "l"(other_high), "r"(other_top));
#else
            low += other_low;
            const u64 carry = low < other_low;
            const u64 addend = other_high + carry;
            high += addend;
            top += other_top + (addend < carry) + (high < addend);
#endif
            return *this;
        }
        __device__ __forceinline__ Sum& mul_add(Goldilocks a, Goldilocks b) {
            u64 product_low, product_high;
            product(a.v, b.v, product_low, product_high);
            return add_wide(product_low, product_high, 0);
        }
        __device__ __forceinline__ Sum& add(Goldilocks a) { return add_wide(a.v, 0, 0); }
        __device__ __forceinline__ Sum& operator+=(Sum other) {
            return add_wide(other.low, other.high, other.top);
        }
        // 2^128 = -2^32: the top word comes off the upper half of a 64-bit residue.
        __device__ __forceinline__ Goldilocks reduce() const {
            return from_word(reduce_wide(low, high, top));
        }
    };
};
