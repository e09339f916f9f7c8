//! Functions of complex numbers, with NumPy's branch cuts: on a cut along an axis, the sign of the zero part
//! determines the side of the cut.

use std::f64::consts::{FRAC_PI_2, LN_2};

use rigel_codegen::map::Complex;

use super::number::Arithmetic;

/// The largest exponent for which `e^x` does not overflow. Beyond it, the product of `e^x` with a sine or cosine
/// may still be finite.
const LARGEST_EXPONENT: f64 = 709.0;

#[inline(always)]
pub(crate) fn complex(re: f64, im: f64) -> Complex {
    Complex { re, im }
}

/// `i z`.
#[inline(always)]
fn times_i(z: Complex) -> Complex {
    complex(-z.im, z.re)
}

/// `-i z`.
#[inline(always)]
fn over_i(z: Complex) -> Complex {
    complex(z.im, -z.re)
}

/// The absolute value.
pub(crate) fn abs(z: Complex) -> f64 {
    z.re.hypot(z.im)
}

/// `a / b`, scaled by the larger part of b, so that the squares of its parts do not overflow.
pub(crate) fn div(a: Complex, b: Complex) -> Complex {
    let (re, im) = (b.re.abs(), b.im.abs());
    if re >= im {
        if re == 0.0 && im == 0.0 {
            return complex(a.re / re, a.im / im);
        }
        let ratio = b.im / b.re;
        let scale = 1.0 / (b.re + b.im * ratio);
        complex((a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale)
    } else {
        let ratio = b.re / b.im;
        let scale = 1.0 / (b.im + b.re * ratio);
        complex((a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale)
    }
}

/// `f e^x` for a factor |f| <= 1, in two steps if `e^x` alone overflows.
fn scaled_exp(x: f64, factor: f64) -> f64 {
    if x <= LARGEST_EXPONENT || !x.is_finite() {
        return x.exp() * factor;
    }
    if x <= 2.0 * LARGEST_EXPONENT {
        let half = (x * 0.5).exp();
        return half * factor * half;
    }
    // Above three times the largest exponent, the result overflows even for the smallest factor.
    let large = LARGEST_EXPONENT.exp();
    large * factor * large * large
}

/// `e^z`.
pub(crate) fn exp(z: Complex) -> Complex {
    if z.im == 0.0 {
        return complex(z.re.exp(), z.im);
    }
    if z.re == f64::NEG_INFINITY && !z.im.is_finite() {
        return Complex::ZERO;
    }
    if z.re == f64::INFINITY && !z.im.is_finite() {
        return complex(f64::INFINITY, f64::NAN);
    }
    let (sine, cosine) = z.im.sin_cos();
    complex(scaled_exp(z.re, cosine), scaled_exp(z.re, sine))
}

/// The natural logarithm, with a branch cut along the negative real axis.
pub(crate) fn log(z: Complex) -> Complex {
    let (x, y) = (z.re.abs(), z.im.abs());
    let (large, small) = (x.max(y), x.min(y));
    let length = if (0.5..2.0).contains(&large) && !x.is_nan() && !y.is_nan() {
        // Near 1, rounding the absolute value would lose precision.
        let above = (large - 1.0) * (large + 1.0) + small * small;
        if above > -0.5 { 0.5 * above.ln_1p() } else { z.re.hypot(z.im).ln() }
    } else if large > 1e300 {
        (z.re * 0.5).hypot(z.im * 0.5).ln() + LN_2
    } else if large < 1e-300 && large > 0.0 {
        let scale = 2f64.powi(60);
        (z.re * scale).hypot(z.im * scale).ln() - 60.0 * LN_2
    } else {
        z.re.hypot(z.im).ln()
    };
    complex(length, z.im.atan2(z.re))
}

/// The square root in the right half plane, with a branch cut along the negative real axis.
pub(crate) fn sqrt(z: Complex) -> Complex {
    if z.re == 0.0 && z.im == 0.0 {
        return complex(0.0, z.im);
    }
    if z.im.is_infinite() {
        return complex(f64::INFINITY, z.im);
    }
    if z.re.is_infinite() {
        return match (z.re > 0.0, z.im.is_nan()) {
            (true, true) => z,
            (true, false) => complex(z.re, 0f64.copysign(z.im)),
            (false, true) => complex(f64::NAN, f64::INFINITY),
            (false, false) => complex(0.0, f64::INFINITY.copysign(z.im)),
        };
    }
    // Scaling z by 4^k, and its root by 2^k, keeps the absolute value in range.
    let large = z.re.abs().max(z.im.abs());
    let (scale, back) = if large > 1e300 {
        (0.25, 2.0)
    } else if large < 1e-290 {
        (2f64.powi(108), 2f64.powi(-54))
    } else {
        (1.0, 1.0)
    };
    let (x, y) = (z.re * scale, z.im * scale);
    let t = ((x.abs() + x.hypot(y)) * 0.5).sqrt();
    if x >= 0.0 {
        complex(t * back, y / (2.0 * t) * back)
    } else {
        complex(y.abs() / (2.0 * t) * back, t.copysign(y) * back)
    }
}

/// The hyperbolic sine.
pub(crate) fn sinh(z: Complex) -> Complex {
    if z.im == 0.0 {
        return complex(z.re.sinh(), z.im);
    }
    if z.re == 0.0 && !z.im.is_finite() {
        return complex(z.re, f64::NAN);
    }
    let (sine, cosine) = z.im.sin_cos();
    if z.re.abs() > LARGEST_EXPONENT && z.re.is_finite() {
        let sign = 1f64.copysign(z.re);
        return complex(scaled_exp(z.re.abs(), cosine * 0.5 * sign), scaled_exp(z.re.abs(), sine * 0.5));
    }
    complex(z.re.sinh() * cosine, z.re.cosh() * sine)
}

/// The hyperbolic cosine.
pub(crate) fn cosh(z: Complex) -> Complex {
    let (sine, cosine) = z.im.sin_cos();
    if z.re.abs() > LARGEST_EXPONENT && z.re.is_finite() {
        let sign = 1f64.copysign(z.re);
        return complex(scaled_exp(z.re.abs(), cosine * 0.5), scaled_exp(z.re.abs(), sine * 0.5 * sign));
    }
    if z.im == 0.0 {
        return complex(z.re.cosh(), 0f64.copysign(z.re) * z.im);
    }
    if z.re == 0.0 {
        return complex(cosine, if sine.is_nan() { 0.0 } else { z.re * sine });
    }
    complex(z.re.cosh() * cosine, z.re.sinh() * sine)
}

/// The hyperbolic tangent: with t = tan y, s = sinh x and b = 1 + t^2, `(b s cosh x + i t) / (1 + b s^2)`.
pub(crate) fn tanh(z: Complex) -> Complex {
    if z.re == 0.0 {
        return complex(z.re, z.im.tan());
    }
    if z.re.abs() > 20.0 {
        // The real part is 1 up to rounding; the imaginary part decays.
        let decay = if z.im.is_finite() { z.im.sin() * z.im.cos() } else { 0f64.copysign(z.im) };
        return complex(1f64.copysign(z.re), 4.0 * decay * (-2.0 * z.re.abs()).exp());
    }
    let t = z.im.tan();
    let (s, b) = (z.re.sinh(), 1.0 + t * t);
    let below = 1.0 + b * s * s;
    complex(b * z.re.cosh() * s / below, t / below)
}

/// The sine.
pub(crate) fn sin(z: Complex) -> Complex {
    over_i(sinh(times_i(z)))
}

/// The cosine.
pub(crate) fn cos(z: Complex) -> Complex {
    cosh(times_i(z))
}

/// The tangent.
pub(crate) fn tan(z: Complex) -> Complex {
    over_i(tanh(times_i(z)))
}

/// `sqrt(1 - z)` and `sqrt(1 + z)`.
fn roots(z: Complex) -> (Complex, Complex) {
    (sqrt(complex(1.0 - z.re, -z.im)), sqrt(complex(1.0 + z.re, z.im)))
}

/// The inverse sine, with branch cuts along the real axis outside of [-1, 1]: with `r = sqrt(1 - z)` and
/// `s = sqrt(1 + z)`, `atan(x / Re(r s)) + i asinh(Im(conj(r) s))` (Kahan).
pub(crate) fn asin(z: Complex) -> Complex {
    if z.re.abs().max(z.im.abs()) > 1e150 {
        let far = log(complex(z.im.abs(), z.re.abs()));
        return complex(far.im.copysign(z.re), (far.re + LN_2).copysign(z.im));
    }
    let (r, s) = roots(z);
    let below = r.re * s.re - r.im * s.im;
    complex(z.re.atan2(below), (r.re * s.im - r.im * s.re).asinh())
}

/// The inverse cosine, with the same branch cuts: `2 atan(Re r / Re s) + i asinh(Im(conj(s) r))`.
pub(crate) fn acos(z: Complex) -> Complex {
    if z.re.abs().max(z.im.abs()) > 1e150 {
        let far = log(complex(z.re, z.im.abs()));
        return complex(far.im, -(far.re + LN_2).copysign(z.im));
    }
    let (r, s) = roots(z);
    complex(2.0 * r.re.atan2(s.re), (s.re * r.im - s.im * r.re).asinh())
}

/// The inverse hyperbolic tangent, with branch cuts along the real axis outside of [-1, 1].
fn atanh(z: Complex) -> Complex {
    let (x, y) = (z.re, z.im);
    if x.abs().max(y.abs()) > 1e150 {
        // 1 / z plus or minus i pi / 2.
        let small = div(Complex::ONE, z);
        let re = if x.is_infinite() || y.is_infinite() { 0.0 } else { small.re.abs() };
        return complex(re.copysign(x), FRAC_PI_2.copysign(y));
    }
    if x.abs() == 1.0 && y.abs() < 1e-150 {
        // The square of y would underflow: log(1 + 4 / y^2) / 4.
        return complex((0.5 * (LN_2 - y.abs().ln())).copysign(x), 0.5 * (2.0 * y).atan2(0.0 - y * y));
    }
    let squares = (1.0 - x.abs()) * (1.0 - x.abs()) + y * y;
    let re = (0.25 * (4.0 * x.abs() / squares).ln_1p()).copysign(x);
    complex(re, 0.5 * (2.0 * y).atan2((1.0 - x) * (1.0 + x) - y * y))
}

/// The inverse tangent, with branch cuts along the imaginary axis outside of [-i, i].
pub(crate) fn atan(z: Complex) -> Complex {
    over_i(atanh(times_i(z)))
}

/// `a^b`: by squaring for integer exponents below 100, else `e^(b log a)`.
pub(crate) fn pow(a: Complex, b: Complex) -> Complex {
    if b.re == 0.0 && b.im == 0.0 {
        return Complex::ONE;
    }
    if a.re == 0.0 && a.im == 0.0 {
        return if b.re > 0.0 { Complex::ZERO } else { complex(f64::NAN, f64::NAN) };
    }
    if b.im == 0.0 && b.re.abs() < 100.0 && b.re.trunc() == b.re {
        let power = a.power(b.re.abs() as u64);
        return if b.re < 0.0 { div(Complex::ONE, power) } else { power };
    }
    exp(b.mul(log(a)))
}
