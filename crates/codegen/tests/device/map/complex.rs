//! Complex functions by their definitions, with nothing done about cancellation.

use rigel_codegen::map::{Binary, Complex, Unary};

const I: Complex = Complex { re: 0.0, im: 1.0 };
const ONE: Complex = Complex { re: 1.0, im: 0.0 };

fn of(re: f64, im: f64) -> Complex {
    Complex { re, im }
}
fn add(a: Complex, b: Complex) -> Complex {
    of(a.re + b.re, a.im + b.im)
}
fn sub(a: Complex, b: Complex) -> Complex {
    of(a.re - b.re, a.im - b.im)
}
fn mul(a: Complex, b: Complex) -> Complex {
    of(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)
}
fn div(a: Complex, b: Complex) -> Complex {
    let norm = b.re * b.re + b.im * b.im;
    let x = mul(a, of(b.re, -b.im));
    of(x.re / norm, x.im / norm)
}
fn scale(a: Complex, by: f64) -> Complex {
    of(a.re * by, a.im * by)
}
fn exp(z: Complex) -> Complex {
    of(z.re.exp() * z.im.cos(), z.re.exp() * z.im.sin())
}
fn log(z: Complex) -> Complex {
    of(z.re.hypot(z.im).ln(), z.im.atan2(z.re))
}
fn sqrt(z: Complex) -> Complex {
    let (length, angle) = (z.re.hypot(z.im).sqrt(), 0.5 * z.im.atan2(z.re));
    of(length * angle.cos(), length * angle.sin())
}
fn cosh(z: Complex) -> Complex {
    scale(add(exp(z), exp(scale(z, -1.0))), 0.5)
}
fn sinh(z: Complex) -> Complex {
    scale(sub(exp(z), exp(scale(z, -1.0))), 0.5)
}
fn sin(z: Complex) -> Complex {
    let s = sinh(mul(I, z));
    of(s.im, -s.re)
}
fn cos(z: Complex) -> Complex {
    cosh(mul(I, z))
}
/// `-i log(i z + sqrt(1 - z) sqrt(1 + z))`.
fn asin(z: Complex) -> Complex {
    let root = mul(sqrt(sub(ONE, z)), sqrt(add(ONE, z)));
    let l = log(add(mul(I, z), root));
    of(l.im, -l.re)
}

pub(super) fn unary(operation: Unary, z: Complex) -> Complex {
    match operation {
        Unary::Neg => scale(z, -1.0),
        Unary::Conj => of(z.re, -z.im),
        Unary::Exp => exp(z),
        Unary::Log => log(z),
        Unary::Sqrt => sqrt(z),
        Unary::Sin => sin(z),
        Unary::Cos => cos(z),
        Unary::Tan => div(sin(z), cos(z)),
        Unary::Asin => asin(z),
        Unary::Acos => sub(of(std::f64::consts::FRAC_PI_2, 0.0), asin(z)),
        Unary::Atan => {
            let iz = mul(I, z);
            mul(of(0.0, -0.5), sub(log(add(ONE, iz)), log(sub(ONE, iz))))
        }
        Unary::Sinh => sinh(z),
        Unary::Cosh => cosh(z),
        Unary::Tanh => div(sinh(z), cosh(z)),
        _ => unreachable!("{operation:?}"),
    }
}

pub(super) fn binary(operation: Binary, a: Complex, b: Complex) -> Complex {
    match operation {
        Binary::Add => add(a, b),
        Binary::Sub => sub(a, b),
        Binary::Mul => mul(a, b),
        Binary::Div => div(a, b),
        Binary::Pow => exp(mul(b, log(a))),
        _ => unreachable!("{operation:?}"),
    }
}
