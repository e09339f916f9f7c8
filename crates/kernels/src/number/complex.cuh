#pragma once

#include "number/number.cuh"

// Complex numbers, under the names of `number.cuh`, with the branch cuts of C99 and NumPy: on a cut, the sign of a zero
// part selects the side from which the function is continuous.

struct __align__(16) Complex {
    double re, im;
};

__device__ __forceinline__ Complex complex(double re, double im) {
    Complex z;
    z.re = re;
    z.im = im;
    return z;
}
__device__ __forceinline__ Complex operator+(Complex a, Complex b) { return complex(a.re + b.re, a.im + b.im); }
__device__ __forceinline__ Complex operator-(Complex a, Complex b) { return complex(a.re - b.re, a.im - b.im); }
__device__ __forceinline__ Complex operator-(Complex a) { return complex(-a.re, -a.im); }
__device__ __forceinline__ Complex operator*(Complex a, Complex b) {
    return complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
}
// Smith's method: divides by the larger part of the divisor, so that no square overflows.
__device__ __forceinline__ Complex operator/(Complex a, Complex b) {
    const double re = fabs(b.re), im = fabs(b.im);
    if (re >= im) {
        if (re == 0 && im == 0) return complex(a.re / re, a.im / re);
        const double ratio = b.im / b.re, scale = 1.0 / (b.re + b.im * ratio);
        return complex((a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale);
    }
    const double ratio = b.re / b.im, scale = 1.0 / (b.im + b.re * ratio);
    return complex((a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale);
}
__device__ __forceinline__ bool operator==(Complex a, Complex b) { return a.re == b.re && a.im == b.im; }
__device__ __forceinline__ bool operator!=(Complex a, Complex b) { return !(a == b); }

namespace num {

constexpr double HALF_PI = 1.5707963267948966192313216916398;
constexpr double LN_2 = 0.69314718055994530941723212145818;

template <> RIGEL_NUMBER Complex zero<Complex>() { return complex(0, 0); }
template <> RIGEL_NUMBER Complex one<Complex>() { return complex(1, 0); }

RIGEL_NUMBER Complex neg(Complex x) { return -x; }
RIGEL_NUMBER Complex conj(Complex x) { return complex(x.re, -x.im); }
RIGEL_NUMBER double real(Complex x) { return x.re; }
RIGEL_NUMBER double imag(Complex x) { return x.im; }
RIGEL_NUMBER double abs(Complex x) { return ::hypot(x.re, x.im); }
RIGEL_NUMBER bool isnan(Complex x) { return isnan(x.re) || isnan(x.im); }
RIGEL_NUMBER bool isfinite(Complex x) { return isfinite(x.re) && isfinite(x.im); }
RIGEL_NUMBER Complex add(Complex x, Complex y) { return x + y; }
RIGEL_NUMBER Complex sub(Complex x, Complex y) { return x - y; }
RIGEL_NUMBER Complex mul(Complex x, Complex y) { return x * y; }
RIGEL_NUMBER Complex div(Complex x, Complex y) { return x / y; }
RIGEL_NUMBER bool eq(Complex x, Complex y) { return x == y; }
RIGEL_NUMBER bool ne(Complex x, Complex y) { return x != y; }

// e^x (cos y + i sin y), in two factors where e^x alone would overflow.
RIGEL_NUMBER Complex exp(Complex z) {
    if (z.im == 0) return complex(::exp(z.re), z.im);
    const double c = ::cos(z.im), s = ::sin(z.im);
    if (z.re > 709.0 && isfinite(z.re)) {
        const double half = ::exp(0.5 * z.re);
        return complex(half * c * half, half * s * half);
    }
    const double e = ::exp(z.re);
    if (e == 0) return complex(::copysign(0.0, c), ::copysign(0.0, s));
    return complex(e * c, e * s);
}

// log |z| + i arg z. Near |z| = 1 the logarithm comes from |z|^2 - 1, which cancels less than |z| - 1.
RIGEL_NUMBER Complex log(Complex z) {
    const double x = ::fabs(z.re), y = ::fabs(z.im), large = x > y ? x : y, small = x > y ? y : x;
    double length;
    if (large > 0.5 && large < 2.0) {
        length = 0.5 * ::log1p((large - 1.0) * (large + 1.0) + small * small);
    } else if (large > 8e307 && isfinite(large)) {
        length = ::log(::hypot(0.25 * x, 0.25 * y)) + 2.0 * LN_2;
    } else if (large < 1e-300 && large > 0) {
        length = ::log(::hypot(x * 0x1p200, y * 0x1p200)) - 200.0 * LN_2;
    } else {
        length = ::log(::hypot(x, y));
    }
    return complex(length, ::atan2(z.im, z.re));
}

// With t = sqrt((|x| + |z|) / 2): t + i y / 2t for x >= 0, |y| / 2t + i t with the sign of y elsewhere.
RIGEL_NUMBER Complex sqrt(Complex z) {
    if (z.re == 0 && z.im == 0) return complex(0, z.im);
    const double infinity = __longlong_as_double(0x7ff0000000000000ll);
    if (::fabs(z.im) == infinity) return complex(infinity, z.im);
    if (z.re != z.re) return complex(z.re, z.re);
    if (z.re == infinity) return complex(z.re, isnan(z.im) ? z.im : ::copysign(0.0, z.im));
    if (z.re == -infinity) return complex(isnan(z.im) ? z.im : 0.0, ::copysign(infinity, z.im));
    double x = ::fabs(z.re), y = z.im, scale = 1.0;
    if (x > 4e307 || ::fabs(y) > 4e307) {
        x *= 0.0625, y *= 0.0625, scale = 4.0;
    } else if (x < 1e-300 && ::fabs(y) < 1e-300) {
        x *= 0x1p200, y *= 0x1p200, scale = 0x1p-100;
    }
    const double t = ::sqrt(0.5 * (x + ::hypot(x, y))), other = ::fabs(y) / (2.0 * t);
    if (z.re >= 0) return complex(t * scale, ::copysign(other * scale, z.im));
    return complex(other * scale, ::copysign(t * scale, z.im));
}

// a cosh y and b sinh y, in two factors where cosh y alone would overflow.
RIGEL_NUMBER Complex hyperbolic(double a, double b, double y) {
    if (::fabs(y) > 709.0 && isfinite(y)) {
        const double half = ::exp(0.5 * ::fabs(y)), sign = ::copysign(1.0, y);
        // A zero factor gives zero, however large the other.
        return complex(a == 0 ? a : 0.5 * a * half * half, b == 0 ? sign * b : sign * 0.5 * b * half * half);
    }
    return complex(a * ::cosh(y), b * ::sinh(y));
}
RIGEL_NUMBER Complex sin(Complex z) { return hyperbolic(::sin(z.re), ::cos(z.re), z.im); }
RIGEL_NUMBER Complex cos(Complex z) { return hyperbolic(::cos(z.re), -::sin(z.re), z.im); }
RIGEL_NUMBER Complex cosh(Complex z) { return hyperbolic(::cos(z.im), ::sin(z.im), z.re); }
RIGEL_NUMBER Complex sinh(Complex z) {
    const Complex swapped = hyperbolic(::sin(z.im), ::cos(z.im), z.re);
    return complex(swapped.im, swapped.re);
}

// Kahan's formula in t = tan y and s = sinh x, which neither overflows nor cancels.
RIGEL_NUMBER Complex tanh(Complex z) {
    if (::fabs(z.re) > 22.0) {
        const double part = isfinite(z.im) ? 4.0 * ::sin(z.im) * ::cos(z.im) * ::exp(-2.0 * ::fabs(z.re)) : 0.0;
        return complex(::copysign(1.0, z.re), isfinite(z.im) && part == 0 ? ::copysign(0.0, ::sin(2.0 * z.im)) : part);
    }
    const double t = ::tan(z.im), beta = 1.0 + t * t, s = ::sinh(z.re), rho = ::sqrt(1.0 + s * s);
    if (!isfinite(t) && !isnan(t)) return complex(rho / s, 1.0 / t);
    const double denominator = 1.0 + beta * s * s;
    return complex(beta * rho * s / denominator, t / denominator);
}
// -i tanh(i z).
RIGEL_NUMBER Complex tan(Complex z) {
    const Complex t = tanh(complex(-z.im, z.re));
    return complex(t.im, -t.re);
}

// Kahan's formulas for the inverse functions: square roots of 1 - z and 1 + z determine the side of a cut.
RIGEL_NUMBER Complex asin(Complex z) {
    const Complex a = sqrt(complex(1.0 - z.re, -z.im)), b = sqrt(complex(1.0 + z.re, z.im));
    return complex(::atan2(z.re, a.re * b.re - a.im * b.im), ::asinh(a.re * b.im - a.im * b.re));
}
RIGEL_NUMBER Complex acos(Complex z) {
    const Complex a = sqrt(complex(1.0 - z.re, -z.im)), b = sqrt(complex(1.0 + z.re, z.im));
    return complex(2.0 * ::atan2(a.re, b.re), ::asinh(b.re * a.im - b.im * a.re));
}
// For z with a nonnegative real part; see `atan`.
RIGEL_NUMBER Complex atanh_right(double x, double y) {
    const double large = 3e153;
    if (x > large || ::fabs(y) > large) {
        // Re 1/z, for a z whose square would overflow.
        const double ratio = ::fabs(y) > x ? x / y : y / x;
        const double half = ::fabs(y) > x ? 0.5 * y + 0.5 * x * ratio : 0.5 * x + 0.5 * y * ratio;
        const double part = (::fabs(y) > x ? 0.5 * ratio : 0.5) / half;
        return complex(isnan(part) ? 0.0 : part, ::copysign(HALF_PI, y));
    }
    const double y2 = y * y;
    if (x == 1.0 && y == 0.0) return complex(__longlong_as_double(0x7ff0000000000000ll), y);
    if (x == 1.0) {
        const double length = ::fabs(y);
        const double re = length < 1e-150 ? 0.5 * (LN_2 - ::log(length)) : 0.25 * ::log1p(4.0 / y2);
        return complex(re, ::copysign(0.5 * (HALF_PI + ::atan(0.5 * length)), y));
    }
    const double re = 0.25 * ::log1p(4.0 * x / ((1.0 - x) * (1.0 - x) + y2));
    return complex(re, 0.5 * ::atan2(2.0 * y, (1.0 - x) * (1.0 + x) - y2));
}
// -i atanh(i z), where atanh is odd and commutes with conjugation.
RIGEL_NUMBER Complex atan(Complex z) {
    const Complex t = atanh_right(::fabs(z.im), z.re);
    return complex(t.im, ::copysign(t.re, z.im));
}

// As NumPy: repeated products for small integer exponents, else e^(y log x).
RIGEL_NUMBER Complex pow(Complex x, Complex y) {
    if (y.re == 0 && y.im == 0) return one<Complex>();
    if (x.re == 0 && x.im == 0) {
        const double undefined = __longlong_as_double(0x7ff8000000000000ll);
        return y.re > 0 ? zero<Complex>() : complex(undefined, undefined);
    }
    if (y.im == 0 && y.re == ::floor(y.re) && ::fabs(y.re) < 100.0) {
        Complex result = one<Complex>(), power = x;
        for (u32 n = (u32)::fabs(y.re); n != 0; n >>= 1) {
            if (n & 1) result = result * power;
            if (n > 1) power = power * power;
        }
        return y.re < 0 ? one<Complex>() / result : result;
    }
    return exp(y * log(x));
}

template <class To> struct Conversion<To, Complex> {
    static RIGEL_NUMBER To of(Complex x) { return convert<To>(x.re); }
};
template <> struct Conversion<bool, Complex> {
    static RIGEL_NUMBER bool of(Complex x) { return x != zero<Complex>(); }
};
template <class From> struct Conversion<Complex, From> {
    static RIGEL_NUMBER Complex of(From x) { return complex(convert<double>(x), 0); }
};

}  // namespace num
