#pragma once

#include "field/word.cuh"

// Arithmetic of plain numbers, one function per operation of an array expression, with NumPy's semantics: integers wrap
// around, integer division by zero gives zero, minimum and maximum propagate NaN.
//
// `complex.cuh` adds complex numbers and `field.cuh` finite fields, under the same names.

// F(T) for each of the types.
#define RIGEL_INTEGERS(F) F(i32) F(i64) F(u32) F(u64)
#define RIGEL_FLOATS(F) F(float) F(double)
#define RIGEL_ORDERED(F) F(bool) RIGEL_INTEGERS(F) RIGEL_FLOATS(F)

namespace num {

#define RIGEL_NUMBER __device__ __forceinline__

// The unsigned integer type used for wrapping arithmetic, since signed overflow is undefined.
template <class T> struct Wrapping;
template <> struct Wrapping<i32> { typedef u32 Type; };
template <> struct Wrapping<u32> { typedef u32 Type; };
template <> struct Wrapping<i64> { typedef u64 Type; };
template <> struct Wrapping<u64> { typedef u64 Type; };

template <class T> RIGEL_NUMBER T zero() { return T(0); }
template <class T> RIGEL_NUMBER T one() { return T(1); }

// --- integers -----------------------------------------------------------------------------------------------

#define RIGEL_INTEGER(T)                                                                                       \
    RIGEL_NUMBER T neg(T x) { return (T)(0 - (Wrapping<T>::Type)x); }                                          \
    RIGEL_NUMBER T conj(T x) { return x; }                                                                     \
    RIGEL_NUMBER T real(T x) { return x; }                                                                     \
    RIGEL_NUMBER T imag(T) { return 0; }                                                                       \
    RIGEL_NUMBER T add(T x, T y) { return (T)((Wrapping<T>::Type)x + (Wrapping<T>::Type)y); }                  \
    RIGEL_NUMBER T sub(T x, T y) { return (T)((Wrapping<T>::Type)x - (Wrapping<T>::Type)y); }                  \
    RIGEL_NUMBER T mul(T x, T y) { return (T)((Wrapping<T>::Type)x * (Wrapping<T>::Type)y); }                  \
    RIGEL_NUMBER T pow(T x, u64 exponent) {                                                                    \
        T result = 1;                                                                                          \
        for (; exponent != 0; exponent >>= 1, x = mul(x, x))                                                   \
            if (exponent & 1) result = mul(result, x);                                                         \
        return result;                                                                                         \
    }                                                                                                          \
    RIGEL_NUMBER T bitwise_and(T x, T y) { return x & y; }                                                     \
    RIGEL_NUMBER T bitwise_or(T x, T y) { return x | y; }                                                      \
    RIGEL_NUMBER T bitwise_xor(T x, T y) { return x ^ y; }                                                     \
    RIGEL_NUMBER T left_shift(T x, T y) {                                                                      \
        return (u64)y < sizeof(T) * 8 ? (T)((Wrapping<T>::Type)x << y) : 0;                                    \
    }
RIGEL_INTEGERS(RIGEL_INTEGER)

#define RIGEL_UNSIGNED(T)                                                                                      \
    RIGEL_NUMBER T abs(T x) { return x; }                                                                      \
    RIGEL_NUMBER T right_shift(T x, T y) { return (u64)y < sizeof(T) * 8 ? x >> y : 0; }                       \
    RIGEL_NUMBER T floor_div(T x, T y) { return y == 0 ? 0 : x / y; }                                          \
    RIGEL_NUMBER T remainder(T x, T y) { return y == 0 ? 0 : x % y; }
RIGEL_UNSIGNED(u32)
RIGEL_UNSIGNED(u64)

// The minimum divided by -1 overflows: that quotient is the negation, which wraps around.
#define RIGEL_SIGNED(T)                                                                                        \
    RIGEL_NUMBER T abs(T x) { return x < 0 ? neg(x) : x; }                                                     \
    RIGEL_NUMBER T right_shift(T x, T y) { return (u64)y < sizeof(T) * 8 ? x >> y : x < 0 ? -1 : 0; }          \
    RIGEL_NUMBER T floor_div(T x, T y) {                                                                       \
        if (y == 0) return 0;                                                                                  \
        if (y == -1) return neg(x);                                                                            \
        const T quotient = x / y;                                                                              \
        return quotient - (quotient * y != x && (x < 0) != (y < 0));                                           \
    }                                                                                                          \
    RIGEL_NUMBER T remainder(T x, T y) {                                                                       \
        if (y == 0 || y == -1) return 0;                                                                       \
        const T rest = x % y;                                                                                  \
        return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;                                           \
    }
RIGEL_SIGNED(i32)
RIGEL_SIGNED(i64)

// --- floating point -----------------------------------------------------------------------------------------

// T's functions carry a suffix: f for float, none for double.
#define RIGEL_FLOAT_FUNCTION(T, name, function) RIGEL_NUMBER T name(T x) { return ::function(x); }
#define RIGEL_FLOAT(T, f)                                                                                      \
    RIGEL_NUMBER T neg(T x) { return -x; }                                                                     \
    RIGEL_NUMBER T conj(T x) { return x; }                                                                     \
    RIGEL_NUMBER T real(T x) { return x; }                                                                     \
    RIGEL_NUMBER T imag(T) { return 0; }                                                                       \
    RIGEL_NUMBER bool isnan(T x) { return x != x; }                                                            \
    RIGEL_NUMBER bool isfinite(T x) { return x - x == 0; }                                                     \
    RIGEL_NUMBER T add(T x, T y) { return x + y; }                                                             \
    RIGEL_NUMBER T sub(T x, T y) { return x - y; }                                                             \
    RIGEL_NUMBER T mul(T x, T y) { return x * y; }                                                             \
    RIGEL_NUMBER T div(T x, T y) { return x / y; }                                                             \
    RIGEL_NUMBER T pow(T x, T y) { return ::pow##f(x, y); }                                                    \
    RIGEL_FLOAT_FUNCTION(T, abs, fabs##f)                                                                      \
    RIGEL_FLOAT_FUNCTION(T, exp, exp##f)                                                                       \
    RIGEL_FLOAT_FUNCTION(T, log, log##f)                                                                       \
    RIGEL_FLOAT_FUNCTION(T, sqrt, sqrt##f)                                                                     \
    RIGEL_FLOAT_FUNCTION(T, sin, sin##f)                                                                       \
    RIGEL_FLOAT_FUNCTION(T, cos, cos##f)                                                                       \
    RIGEL_FLOAT_FUNCTION(T, tan, tan##f)                                                                       \
    RIGEL_FLOAT_FUNCTION(T, asin, asin##f)                                                                     \
    RIGEL_FLOAT_FUNCTION(T, acos, acos##f)                                                                     \
    RIGEL_FLOAT_FUNCTION(T, atan, atan##f)                                                                     \
    RIGEL_FLOAT_FUNCTION(T, sinh, sinh##f)                                                                     \
    RIGEL_FLOAT_FUNCTION(T, cosh, cosh##f)                                                                     \
    RIGEL_FLOAT_FUNCTION(T, tanh, tanh##f)                                                                     \
    RIGEL_FLOAT_FUNCTION(T, floor, floor##f)                                                                   \
    RIGEL_FLOAT_FUNCTION(T, ceil, ceil##f)                                                                     \
    /* x = y floor_div(x, y) + remainder(x, y), where the remainder has the sign of y. */                      \
    RIGEL_NUMBER T remainder(T x, T y) {                                                                       \
        const T rest = ::fmod##f(x, y);                                                                        \
        if (y == 0) return rest;                                                                               \
        if (rest == 0) return ::copysign##f(T(0), y);                                                          \
        return (rest < 0) != (y < 0) ? rest + y : rest;                                                        \
    }                                                                                                          \
    RIGEL_NUMBER T floor_div(T x, T y) {                                                                       \
        if (y == 0) return x / y;                                                                              \
        const T rest = ::fmod##f(x, y);                                                                        \
        T quotient = (x - rest) / y;                                                                           \
        if (rest != 0 && (rest < 0) != (y < 0)) quotient -= 1;                                                 \
        if (quotient == 0) return ::copysign##f(T(0), x / y);                                                  \
        const T whole = ::floor##f(quotient);                                                                  \
        return quotient - whole > T(0.5) ? whole + 1 : whole;                                                  \
    }
RIGEL_FLOAT(float, f)
RIGEL_FLOAT(double, )

// --- order --------------------------------------------------------------------------------------------------

// Comparisons with NaN are false, except `ne`. Testing `x != x` first keeps a NaN x; a NaN y is chosen because neither
// x < y nor x > y holds.
#define RIGEL_ORDER(T)                                                                                         \
    RIGEL_NUMBER T minimum(T x, T y) { return x != x || x < y ? x : y; }                                       \
    RIGEL_NUMBER T maximum(T x, T y) { return x != x || x > y ? x : y; }                                       \
    RIGEL_NUMBER bool eq(T x, T y) { return x == y; }                                                          \
    RIGEL_NUMBER bool ne(T x, T y) { return x != y; }                                                          \
    RIGEL_NUMBER bool lt(T x, T y) { return x < y; }                                                           \
    RIGEL_NUMBER bool le(T x, T y) { return x <= y; }                                                          \
    RIGEL_NUMBER bool gt(T x, T y) { return x > y; }                                                           \
    RIGEL_NUMBER bool ge(T x, T y) { return x >= y; }
RIGEL_ORDERED(RIGEL_ORDER)

// --- booleans -----------------------------------------------------------------------------------------------

RIGEL_NUMBER bool logical_not(bool x) { return !x; }
RIGEL_NUMBER bool bitwise_and(bool x, bool y) { return x & y; }
RIGEL_NUMBER bool bitwise_or(bool x, bool y) { return x | y; }
RIGEL_NUMBER bool bitwise_xor(bool x, bool y) { return x != y; }

// --- conversions --------------------------------------------------------------------------------------------

// Conversion from another type. Floating-point numbers are truncated; out-of-range values give the machine's result,
// but negative ones are converted to unsigned integers as signed ones are.
template <class To, class From>
struct Conversion {
    static RIGEL_NUMBER To of(From x) { return (To)x; }
};
template <class From>
struct Conversion<bool, From> {
    static RIGEL_NUMBER bool of(From x) { return x != zero<From>(); }
};
#define RIGEL_UNSIGNED_OF(T)                                                                                   \
    template <> struct Conversion<u32, T> {                                                                    \
        static RIGEL_NUMBER u32 of(T x) { return (u32)(i64)x; }                                                \
    };                                                                                                         \
    template <> struct Conversion<u64, T> {                                                                    \
        static RIGEL_NUMBER u64 of(T x) { return x < 0 ? (u64)(i64)x : (u64)x; }                               \
    };
RIGEL_FLOATS(RIGEL_UNSIGNED_OF)

template <class To, class From>
RIGEL_NUMBER To convert(From x) { return Conversion<To, From>::of(x); }

// --- random bits --------------------------------------------------------------------------------------------

// Output number `place` of SplitMix64 with this seed.
RIGEL_NUMBER u64 random(u64 place, u64 seed) {
    u64 z = seed + (place + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

}  // namespace num
