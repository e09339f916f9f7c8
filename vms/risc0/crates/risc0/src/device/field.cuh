// The fields under the names that upstream's headers use for them, over Rigel's arithmetic. Stored forms are the same.
#pragma once

#include "field/extension.cuh"

#include <cstdint>

class Fp {
    u32 word;

    // The stored form of an integer, in plain C++: upstream has tables of constants.
    static __device__ constexpr u32 stored(u32 integer) {
        const u64 product = (u64)integer * BabyBearParameters::R2;
        const u32 factor = (u32)product * BabyBearParameters::NEGATIVE_INVERSE;
        const u32 reduced = (u32)((product + (u64)factor * BabyBearParameters::MODULUS) >> 32);
        return reduced < BabyBearParameters::MODULUS ? reduced : reduced - BabyBearParameters::MODULUS;
    }

  public:
    __device__ constexpr Fp() : word(0) {}
    __device__ constexpr Fp(uint32_t integer) : word(stored(integer)) {}
    __device__ __forceinline__ Fp(BabyBear x) : word(x.v) {}

    __device__ __forceinline__ BabyBear inner() const { return BabyBear::from_word(word); }
    __device__ __forceinline__ uint32_t asUInt32() const { return inner().to_integer(); }

    __device__ __forceinline__ Fp operator+(Fp other) const { return inner() + other.inner(); }
    __device__ __forceinline__ Fp operator-(Fp other) const { return inner() - other.inner(); }
    __device__ __forceinline__ Fp operator-() const { return -inner(); }
    __device__ __forceinline__ Fp operator*(Fp other) const { return inner() * other.inner(); }
    __device__ __forceinline__ Fp& operator+=(Fp other) { return *this = *this + other; }
    __device__ __forceinline__ Fp& operator-=(Fp other) { return *this = *this - other; }
    __device__ __forceinline__ Fp& operator*=(Fp other) { return *this = *this * other; }
    __device__ __forceinline__ bool operator==(Fp other) const { return word == other.word; }
    __device__ __forceinline__ bool operator!=(Fp other) const { return word != other.word; }
};

__device__ __forceinline__ Fp inv(Fp x) { return x.inner().inverse(); }
__device__ __forceinline__ Fp pow(Fp x, uint32_t exponent) { return x.inner().pow(exponent); }
__device__ __forceinline__ uint32_t asUInt32(Fp x) { return x.asUInt32(); }

class FpExt {
    RiscZero4 value;

  public:
    __device__ __forceinline__ FpExt() : value(RiscZero4::zero()) {}
    __device__ __forceinline__ FpExt(RiscZero4 value) : value(value) {}
    __device__ __forceinline__ explicit FpExt(uint32_t integer)
        : value(RiscZero4::from_base(BabyBear::from_integer(integer))) {}
    __device__ __forceinline__ explicit FpExt(Fp x) : value(RiscZero4::from_base(x.inner())) {}
    __device__ __forceinline__ FpExt(Fp a, Fp b, Fp c, Fp d) {
        value.c[0] = a.inner();
        value.c[1] = b.inner();
        value.c[2] = c.inner();
        value.c[3] = d.inner();
    }

    __device__ __forceinline__ Fp elem(size_t i) const { return value.c[i]; }
    __device__ __forceinline__ FpExt operator+(FpExt other) const { return value + other.value; }
    __device__ __forceinline__ FpExt operator-(FpExt other) const { return value - other.value; }
    __device__ __forceinline__ FpExt operator*(FpExt other) const { return value * other.value; }
    __device__ __forceinline__ FpExt operator*(Fp other) const { return value * other.inner(); }
    __device__ __forceinline__ FpExt& operator+=(FpExt other) { return *this = *this + other; }
    __device__ __forceinline__ FpExt& operator-=(FpExt other) { return *this = *this - other; }
    __device__ __forceinline__ FpExt& operator*=(FpExt other) { return *this = *this * other; }
    __device__ __forceinline__ FpExt& operator*=(Fp other) { return *this = *this * other; }
    __device__ __forceinline__ FpExt inverse() const { return value.inverse(); }
};

__device__ __forceinline__ Fp elem(FpExt x, size_t i) { return x.elem(i); }
__device__ __forceinline__ FpExt inv(FpExt x) { return x.inverse(); }
