#pragma once

#include "number/number.cuh"

// Numbers that are only stored: integers of 8 and 16 bits, and floats of 16. An expression computes with them as i32,
// u32 and float.

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;

struct Half {
    u16 bits;
};

namespace num {

template <>
struct Conversion<float, Half> {
    static RIGEL_NUMBER float of(Half x) {
        const u32 sign = (u32)(x.bits & 0x8000) << 16, rest = x.bits & 0x7fff;
        // Subnormal: a multiple of 2^-24.
        if (rest < 0x400) return __uint_as_float(sign | __float_as_uint((float)rest * 5.9604644775390625e-8f));
        return __uint_as_float(sign | (rest < 0x7c00 ? (rest << 13) + (112u << 23) : 0x7f800000u | rest << 13));
    }
};

// Rounds to the nearest number, or to the even one of two.
template <>
struct Conversion<Half, float> {
    static RIGEL_NUMBER Half of(float x) {
        const u32 bits = __float_as_uint(x), rest = bits & 0x7fffffffu;
        u32 magnitude;
        // Not a number: the upper bits of what it carries, and one that keeps it from being infinite.
        if (rest > 0x7f800000u) magnitude = 0x7e00 | (rest >> 13 & 0x1ff);
        // From 65520 on, the nearest number is infinite.
        else if (rest >= 0x477ff000u) magnitude = 0x7c00;
        // Below 2^-14, multiples of 2^-24, the distance of neighbours from 0.5 on: the sum rounds to one.
        else if (rest < 0x38800000u) magnitude = __float_as_uint(__uint_as_float(rest) + 0.5f) - 0x3f000000u;
        // Half a unit less one, or half a unit if the last bit that is kept is odd.
        else magnitude = (rest - (112u << 23) + 0xfff + (rest >> 13 & 1)) >> 13;
        Half half;
        half.bits = (u16)(bits >> 16 & 0x8000 | magnitude);
        return half;
    }
};

// Rounds once: what a float can't hold is kept in its last bit, which is far below that of a half and only decides
// ties.
template <>
struct Conversion<Half, double> {
    static RIGEL_NUMBER Half of(double x) {
        const float near = (float)x;
        if ((double)near == x || x != x) return Conversion<Half, float>::of(near);
        // The neighbour towards zero, with its last bit set.
        const u32 above = fabs((double)near) > fabs(x);
        return Conversion<Half, float>::of(__uint_as_float((__float_as_uint(near) - above) | 1));
    }
};

}  // namespace num
