#pragma once

#include "field/extension.cuh"
#include "number/number.cuh"

// Elements of finite fields, under the names of `number.cuh`.

namespace num {

#define RIGEL_FIELD(F)                                                                                         \
    template <> RIGEL_NUMBER F zero<F>() { return F::zero(); }                                                 \
    template <> RIGEL_NUMBER F one<F>() { return F::one(); }                                                   \
    RIGEL_NUMBER F neg(const F& x) { return -x; }                                                              \
    RIGEL_NUMBER F add(const F& x, const F& y) { return x + y; }                                               \
    RIGEL_NUMBER F sub(const F& x, const F& y) { return x - y; }                                               \
    RIGEL_NUMBER F mul(const F& x, const F& y) { return x * y; }                                               \
    RIGEL_NUMBER bool eq(const F& x, const F& y) { return x == y; }                                            \
    RIGEL_NUMBER bool ne(const F& x, const F& y) { return !(x == y); }                                         \
    RIGEL_NUMBER F pow(F x, u64 exponent) {                                                                    \
        F result = F::one();                                                                                   \
        _Pragma("unroll 1") for (; exponent != 0; exponent >>= 1) {                                            \
            if (exponent & 1) result = result * x;                                                             \
            x = x.square();                                                                                    \
        }                                                                                                      \
        return result;                                                                                         \
    }
RIGEL_FIELD(Mersenne31)
RIGEL_FIELD(BabyBear)
RIGEL_FIELD(KoalaBear)
RIGEL_FIELD(Goldilocks)
RIGEL_FIELD(CM31)
RIGEL_FIELD(QM31)
RIGEL_FIELD(BabyBear4)
RIGEL_FIELD(KoalaBear4)
RIGEL_FIELD(Goldilocks2)
RIGEL_FIELD(Goldilocks3)

// Integers modulo p. A negative one is the negation of its magnitude.
template <class F>
struct FieldOf {
    static RIGEL_NUMBER F of(u64 x) {
        typedef typename F::Base Base;
        if constexpr (sizeof(Base) == 4) return F::from_base(Base::from_integer((u32)(x % Base::MODULUS)));
        else return F::from_base(Base::from_integer(x));
    }
    static RIGEL_NUMBER F of(u32 x) { return F::from_base(F::Base::from_integer(x)); }
    static RIGEL_NUMBER F of(bool x) { return x ? F::one() : F::zero(); }
    static RIGEL_NUMBER F of(i64 x) {
        const F magnitude = of((u64)(x < 0 ? 0 - (u64)x : (u64)x));
        return x < 0 ? -magnitude : magnitude;
    }
    static RIGEL_NUMBER F of(i32 x) {
        const F magnitude = of((u32)(x < 0 ? 0 - (u32)x : (u32)x));
        return x < 0 ? -magnitude : magnitude;
    }
};
#define RIGEL_FIELD_OF(F)                                                                                      \
    template <> struct Conversion<F, bool> : FieldOf<F> {};                                                    \
    template <> struct Conversion<F, i32> : FieldOf<F> {};                                                     \
    template <> struct Conversion<F, i64> : FieldOf<F> {};                                                     \
    template <> struct Conversion<F, u32> : FieldOf<F> {};                                                     \
    template <> struct Conversion<F, u64> : FieldOf<F> {};
RIGEL_FIELD_OF(Mersenne31)
RIGEL_FIELD_OF(BabyBear)
RIGEL_FIELD_OF(KoalaBear)
RIGEL_FIELD_OF(Goldilocks)
RIGEL_FIELD_OF(CM31)
RIGEL_FIELD_OF(QM31)
RIGEL_FIELD_OF(BabyBear4)
RIGEL_FIELD_OF(KoalaBear4)
RIGEL_FIELD_OF(Goldilocks2)
RIGEL_FIELD_OF(Goldilocks3)

// Elements of a prime field as the integers 0..p.
#define RIGEL_INTEGER_OF(F)                                                                                    \
    template <> struct Conversion<i32, F> { static RIGEL_NUMBER i32 of(F x) { return (i32)x.to_integer(); } }; \
    template <> struct Conversion<i64, F> { static RIGEL_NUMBER i64 of(F x) { return (i64)x.to_integer(); } }; \
    template <> struct Conversion<u32, F> { static RIGEL_NUMBER u32 of(F x) { return (u32)x.to_integer(); } }; \
    template <> struct Conversion<u64, F> { static RIGEL_NUMBER u64 of(F x) { return (u64)x.to_integer(); } };
RIGEL_INTEGER_OF(Mersenne31)
RIGEL_INTEGER_OF(BabyBear)
RIGEL_INTEGER_OF(KoalaBear)
RIGEL_INTEGER_OF(Goldilocks)

// Embedding of a field in one that contains it.
#define RIGEL_EMBEDDING(F, E)                                                                                  \
    template <> struct Conversion<E, F> { static RIGEL_NUMBER E of(F x) { return E::from_base(x); } };
RIGEL_EMBEDDING(Mersenne31, CM31)
RIGEL_EMBEDDING(Mersenne31, QM31)
RIGEL_EMBEDDING(BabyBear, BabyBear4)
RIGEL_EMBEDDING(KoalaBear, KoalaBear4)
RIGEL_EMBEDDING(Goldilocks, Goldilocks2)
RIGEL_EMBEDDING(Goldilocks, Goldilocks3)
template <> struct Conversion<QM31, CM31> {
    static RIGEL_NUMBER QM31 of(const CM31& x) { return QM31::from_halves(x, CM31::zero()); }
};

}  // namespace num
