#pragma once

// The operators that follow from a field's own + - *, as members of its type.
#define RIGEL_DERIVED_OPERATORS(Self)                                                                          \
    __device__ __forceinline__ Self& operator+=(Self other) { return *this = *this + other; }                  \
    __device__ __forceinline__ Self& operator-=(Self other) { return *this = *this - other; }                  \
    __device__ __forceinline__ Self& operator*=(Self other) { return *this = *this * other; }                  \
    __device__ __forceinline__ bool operator!=(Self other) const { return !(*this == other); }                 \
    /* this^exponent by squaring and multiplying, lowest bit first; x^0 = 1. */                                \
    __device__ __forceinline__ Self pow(u64 exponent) const {                                                  \
        Self result = Self::one();                                                                             \
        for (Self power = *this; exponent != 0; exponent >>= 1, power = power.square())                        \
            if (exponent & 1) result = result * power;                                                         \
        return result;                                                                                         \
    }                                                                                                          \
    /* this^(2^n). */                                                                                          \
    __device__ __forceinline__ Self square_n(int n) const {                                                    \
        Self power = *this;                                                                                    \
        for (int i = 0; i < n; ++i) power = power.square();                                                    \
        return power;                                                                                          \
    }
