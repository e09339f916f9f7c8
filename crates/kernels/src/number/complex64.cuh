#pragma once

#include "number/complex.cuh"

// Complex numbers of two floats, which are only stored: an expression computes with them as Complex.

struct __align__(8) Complex64 {
    float re, im;
};

namespace num {

template <>
struct Conversion<Complex, Complex64> {
    static RIGEL_NUMBER Complex of(Complex64 z) { return complex(z.re, z.im); }
};
template <>
struct Conversion<Complex64, Complex> {
    static RIGEL_NUMBER Complex64 of(Complex z) {
        Complex64 rounded;
        rounded.re = (float)z.re;
        rounded.im = (float)z.im;
        return rounded;
    }
};

}  // namespace num
