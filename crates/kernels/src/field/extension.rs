//! Extensions: polynomials over a base field modulo an irreducible one, lowest coefficient first.
//!
//! Every product is schoolbook, followed by the reduction of the powers at and above the degree; every inverse
//! goes through a norm, an element of a smaller field:
//! `1 / a = conjugate(a) / (a conjugate(a))`.

use std::array;
use std::ops::{Add, Mul, Neg, Sub};

use super::{BabyBear, Extension, Field, Goldilocks, KoalaBear, Mersenne31, Ring, assign_operators};

/// Declares an extension with everything except its product and inverse.
macro_rules! extension {
    ($(#[$doc:meta])* $name:ident, $base:ty, $degree:literal) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub [$base; $degree]);

        impl Add for $name {
            type Output = Self;
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                Self(array::from_fn(|i| self.0[i] + other.0[i]))
            }
        }

        impl Sub for $name {
            type Output = Self;
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                Self(array::from_fn(|i| self.0[i] - other.0[i]))
            }
        }

        impl Neg for $name {
            type Output = Self;
            #[inline(always)]
            fn neg(self) -> Self {
                Self(self.0.map(|c| -c))
            }
        }

        impl Mul<$base> for $name {
            type Output = Self;
            #[inline(always)]
            fn mul(self, scalar: $base) -> Self {
                Self(self.0.map(|c| c * scalar))
            }
        }

        impl Add<$base> for $name {
            type Output = Self;
            #[inline(always)]
            fn add(mut self, constant: $base) -> Self {
                self.0[0] += constant;
                self
            }
        }

        impl From<$base> for $name {
            #[inline(always)]
            fn from(constant: $base) -> Self {
                let mut coefficients = [<$base>::ZERO; $degree];
                coefficients[0] = constant;
                Self(coefficients)
            }
        }

        assign_operators!($name);

        // SAFETY: the C++ type of this name in `field/extension.cuh` has these coefficients in this order.
        unsafe impl Ring for $name {
            const NAME: &'static str = stringify!($name);
            const ZERO: Self = Self([<$base>::ZERO; $degree]);
            const ONE: Self = {
                let mut coefficients = [<$base>::ZERO; $degree];
                coefficients[0] = <$base>::ONE;
                Self(coefficients)
            };

            #[inline]
            fn inverse(self) -> Option<Self> {
                (self != Self::ZERO).then(|| self.invert_nonzero())
            }
        }

        impl Extension for $name {
            type Base = $base;
            const DEGREE: usize = $degree;

            #[inline(always)]
            fn from_coefficients(coefficients: &[$base]) -> Option<Self> {
                coefficients.try_into().ok().map(Self)
            }

            #[inline(always)]
            fn coefficients(&self) -> &[$base] {
                &self.0
            }
        }
    };
}

extension! {
    /// BabyBear modulo `X^4 - 11`.
    BabyBear4, BabyBear, 4
}
extension! {
    /// BabyBear modulo `X^4 + 11`, RISC Zero's extension.
    RiscZero4, BabyBear, 4
}
extension! {
    /// KoalaBear modulo `X^4 - 3`.
    KoalaBear4, KoalaBear, 4
}
extension! {
    /// Goldilocks modulo `X^2 - 7`.
    Goldilocks2, Goldilocks, 2
}
extension! {
    /// Goldilocks modulo `X^3 - X - 1`.
    Goldilocks3, Goldilocks, 3
}
extension! {
    /// The complex extension of Mersenne-31, modulo `X^2 + 1`.
    CM31, Mersenne31, 2
}
extension! {
    /// Stwo's secure field, [`CM31`] modulo `u^2 - 2 - i`: `(c0 + c1 i) + (c2 + c3 i) u`.
    QM31, Mersenne31, 4
}

/// `a b mod X^D - w`: coefficients that wrap around are multiplied by w.
#[inline(always)]
fn binomial_product<F: Field, const D: usize>(a: [F; D], b: [F; D], w: F) -> [F; D] {
    let around = b.map(|x| x * w);
    array::from_fn(|k| F::dot(a, array::from_fn(|i| if i <= k { b[k - i] } else { around[D + k - i] })))
}

/// `1 / (a0 + a1 X) mod X^2 - w`: the conjugate `a0 - a1 X` over the norm `a0^2 - w a1^2`.
fn quadratic_inverse<F: Field>([a0, a1]: [F; 2], w: F) -> [F; 2] {
    let norm = a0 * a0 - w * a1 * a1;
    let inverse = norm.inverse().expect("the norm of a nonzero element is nonzero");
    [a0 * inverse, -a1 * inverse]
}

/// `1 / a mod X^4 - w`, through the tower `Y = X^2`: with `a = A + B X` for `A, B` over `Y`, the conjugate is
/// `A - B X` and the norm is `A^2 - Y B^2`.
fn quartic_inverse<F: Field>([a0, a1, a2, a3]: [F; 4], w: F) -> [F; 4] {
    let [s0, s1] = binomial_product([a0, a2], [a0, a2], w);
    let [t0, t1] = binomial_product([a1, a3], [a1, a3], w);
    let norm = [s0 - w * t1, s1 - t0];
    let inverse = quadratic_inverse(norm, w);
    let [c0, c2] = binomial_product([a0, a2], inverse, w);
    let [c1, c3] = binomial_product([a1, a3], inverse, w);
    [c0, -c1, c2, -c3]
}

macro_rules! binomial_arithmetic {
    ($name:ident, $w:expr, $inverse:ident) => {
        impl Mul for $name {
            type Output = Self;
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                Self(binomial_product(self.0, other.0, const { $w }))
            }
        }

        impl $name {
            fn invert_nonzero(self) -> Self {
                Self($inverse(self.0, $w))
            }
        }
    };
}

binomial_arithmetic!(BabyBear4, BabyBear::new(11), quartic_inverse);
binomial_arithmetic!(RiscZero4, BabyBear::new(BabyBear::ORDER as u32 - 11), quartic_inverse);
binomial_arithmetic!(KoalaBear4, KoalaBear::new(3), quartic_inverse);
binomial_arithmetic!(Goldilocks2, Goldilocks::new(7), quadratic_inverse);

impl Mul for Goldilocks3 {
    type Output = Self;

    /// `X^3 = X + 1` and `X^4 = X^2 + X` fold the product's upper coefficients.
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        let ([a0, a1, a2], [b0, b1, b2]) = (self.0, other.0);
        let (d3, d4) = (a1 * b2 + a2 * b1, a2 * b2);
        Self([a0 * b0 + d3, a0 * b1 + a1 * b0 + d3 + d4, a0 * b2 + a1 * b1 + a2 * b0 + d4])
    }
}

impl Goldilocks3 {
    /// The first column of the inverse of the matrix of multiplication by `a`,
    ///
    /// ```text
    /// | a0    a2     a1    |
    /// | a1  a0+a2  a1+a2   |
    /// | a2    a1   a0+a2   |
    /// ```
    ///
    /// which is the cofactors of its first row over its determinant.
    fn invert_nonzero(self) -> Self {
        let [a0, a1, a2] = self.0;
        let (a02, a12) = (a0 + a2, a1 + a2);
        let cofactors = [a02 * a02 - a12 * a1, a12 * a2 - a1 * a02, a1 * a1 - a02 * a2];
        let determinant = a0 * cofactors[0] + a2 * cofactors[1] + a1 * cofactors[2];
        Self(cofactors) * determinant.inverse().expect("the norm of a nonzero element is nonzero")
    }
}

impl Mul for CM31 {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        let ([a0, a1], [b0, b1]) = (self.0, other.0);
        Self([Field::dot([a0, -a1], [b0, b1]), Field::dot([a0, a1], [b1, b0])])
    }
}

impl CM31 {
    /// `(2 + i) self`: the product with `u^2`.
    #[inline(always)]
    fn times_u_squared(self) -> Self {
        let [a, b] = self.0;
        Self([a + a - b, b + b + a])
    }

    fn invert_nonzero(self) -> Self {
        Self(quadratic_inverse(self.0, -Mersenne31::ONE))
    }
}

impl QM31 {
    #[inline(always)]
    fn halves(self) -> (CM31, CM31) {
        let [a, b, c, d] = self.0;
        (CM31([a, b]), CM31([c, d]))
    }

    #[inline(always)]
    fn from_halves(low: CM31, high: CM31) -> Self {
        Self([low.0[0], low.0[1], high.0[0], high.0[1]])
    }

    /// The conjugate `A - B u` over the norm `A^2 - (2 + i) B^2`.
    fn invert_nonzero(self) -> Self {
        let (low, high) = self.halves();
        let norm = low * low - (high * high).times_u_squared();
        let inverse = norm.invert_nonzero();
        Self::from_halves(low * inverse, -(high * inverse))
    }
}

impl Mul for QM31 {
    type Output = Self;

    /// `(A + B u)(C + D u) = A C + B (2 + i) D + (A D + B C) u`, each coefficient a sum of four products.
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        let [a0, a1, b0, b1] = self.0;
        let [c0, c1, d0, d1] = other.0;
        let [e0, e1] = CM31([d0, d1]).times_u_squared().0;
        let (real, imaginary) = ([a0, -a1, b0, -b1], [a0, a1, b0, b1]);
        Self([
            Field::dot(real, [c0, c1, e0, e1]),
            Field::dot(imaginary, [c1, c0, e1, e0]),
            Field::dot(real, [d0, d1, c0, c1]),
            Field::dot(imaginary, [d1, d0, c1, c0]),
        ])
    }
}

impl From<CM31> for QM31 {
    #[inline(always)]
    fn from(low: CM31) -> Self {
        Self::from_halves(low, CM31::ZERO)
    }
}
