//! The number types of the loops, and their common operations.

use rigel_codegen::map::Complex;
use rigel_kernels::field::{self, Ring};

/// A boolean as stored in arrays: one byte. Foreign memory may hold any byte, so it is not a `bool`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Truth(pub(crate) u8);

impl PartialEq for Truth {
    /// Compares truth values, not bytes.
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.holds() == other.holds()
    }
}

impl Eq for Truth {}

impl Truth {
    /// The truth value.
    #[inline(always)]
    pub(crate) fn holds(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Truth {
    #[inline(always)]
    fn from(value: bool) -> Self {
        Self(value as u8)
    }
}

/// Numbers with sums and products. Integers wrap around.
pub(crate) trait Arithmetic: Copy + Send + Sync + PartialEq + 'static {
    /// The sum of none.
    const ZERO: Self;
    /// The empty product.
    const ONE: Self;
    /// `self + other`.
    fn add(self, other: Self) -> Self;
    /// `self - other`.
    fn sub(self, other: Self) -> Self;
    /// `self other`.
    fn mul(self, other: Self) -> Self;
    /// `-self`.
    fn neg(self) -> Self;

    /// `self^exponent` by squaring, with `0^0 = 1`.
    #[inline]
    fn power(self, mut exponent: u64) -> Self {
        let (mut square, mut result) = (self, Self::ONE);
        while exponent != 0 {
            if exponent & 1 == 1 {
                result = result.mul(square);
            }
            exponent >>= 1;
            if exponent != 0 {
                square = square.mul(square);
            }
        }
        result
    }
}

/// Ordered numbers. The minimum and maximum are NaN if an operand is NaN.
pub(crate) trait Ordered: Copy + PartialOrd + Send + Sync + 'static {
    /// The minimum.
    fn smaller(self, other: Self) -> Self;
    /// The maximum.
    fn larger(self, other: Self) -> Self;
}

impl PartialOrd for Truth {
    #[inline(always)]
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.0.partial_cmp(&other.0)
    }
}

impl Ordered for Truth {
    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }
}

/// Numbers with floor division. The remainder has the sign of the divisor.
pub(crate) trait Rounded: Copy {
    /// The quotient rounded down; zero for an integer divided by zero.
    fn floor_div(self, other: Self) -> Self;
    /// The remainder; zero for an integer divided by zero.
    fn remainder(self, other: Self) -> Self;
}

/// Integers with shifts by any number of bits.
pub(crate) trait Shifted: Copy {
    /// `self 2^other`, wrapping around; 0 if the number of bits is negative or at least the type's.
    fn shift_left(self, other: Self) -> Self;
    /// `self / 2^other` rounded down; the sign, 0 or -1, for such a number of bits.
    fn shift_right(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($integer:ty: $floor_div:expr, $remainder:expr;)*) => { $(
        impl Arithmetic for $integer {
            const ZERO: Self = 0;
            const ONE: Self = 1;

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            #[inline(always)]
            fn neg(self) -> Self {
                self.wrapping_neg()
            }
        }

        impl Ordered for $integer {
            #[inline(always)]
            fn smaller(self, other: Self) -> Self {
                self.min(other)
            }

            #[inline(always)]
            fn larger(self, other: Self) -> Self {
                self.max(other)
            }
        }

        impl Shifted for $integer {
            #[inline(always)]
            fn shift_left(self, other: Self) -> Self {
                if (other as u64) < u64::from(Self::BITS) { self.wrapping_shl(other as u32) } else { 0 }
            }

            #[inline(always)]
            fn shift_right(self, other: Self) -> Self {
                // A shift by all bits but one leaves the sign; of unsigned numbers, one more bit.
                let within = (other as u64) < u64::from(Self::BITS);
                let bits = if within { other as u32 } else { Self::BITS - 1 };
                let shifted = self.wrapping_shr(bits);
                if !within && Self::MIN == 0 { 0 } else { shifted }
            }
        }

        impl Rounded for $integer {
            #[inline(always)]
            fn floor_div(self, other: Self) -> Self {
                if other == 0 { 0 } else { $floor_div(self, other) }
            }

            #[inline(always)]
            fn remainder(self, other: Self) -> Self {
                if other == 0 { 0 } else { $remainder(self, other) }
            }
        }
    )* };
}

/// Signed division truncates. If the remainder has the other sign, the floor is one less.
macro_rules! floored {
    ($integer:ty) => {
        |x: $integer, y: $integer| {
            let left = x.wrapping_rem(y);
            x.wrapping_div(y).wrapping_sub((left != 0 && (left < 0) != (y < 0)) as $integer)
        }
    };
}

macro_rules! signed_remainder {
    ($integer:ty) => {
        |x: $integer, y: $integer| {
            let left = x.wrapping_rem(y);
            if left != 0 && (left < 0) != (y < 0) { left.wrapping_add(y) } else { left }
        }
    };
}

integers! {
    i32: floored!(i32), signed_remainder!(i32);
    i64: floored!(i64), signed_remainder!(i64);
    u32: |x: u32, y: u32| x / y, |x: u32, y: u32| x % y;
    u64: |x: u64, y: u64| x / y, |x: u64, y: u64| x % y;
}

macro_rules! floats {
    ($($float:ty)*) => { $(
        impl Arithmetic for $float {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self - other
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }

            #[inline(always)]
            fn neg(self) -> Self {
                -self
            }
        }

        impl Ordered for $float {
            #[inline(always)]
            fn smaller(self, other: Self) -> Self {
                if self <= other || self.is_nan() { self } else { other }
            }

            #[inline(always)]
            fn larger(self, other: Self) -> Self {
                if self >= other || self.is_nan() { self } else { other }
            }
        }

        impl Rounded for $float {
            /// The remainder is exact; the quotient without it is an integer up to a rounding error.
            #[inline]
            fn floor_div(self, other: Self) -> Self {
                if other == 0.0 {
                    return self / other;
                }
                let left = self % other;
                let mut quotient = (self - left) / other;
                if left != 0.0 && (left < 0.0) != (other < 0.0) {
                    quotient -= 1.0;
                }
                if quotient == 0.0 {
                    return (0.0 as $float).copysign(self / other);
                }
                let floor = quotient.floor();
                if quotient - floor > 0.5 { floor + 1.0 } else { floor }
            }

            #[inline]
            fn remainder(self, other: Self) -> Self {
                let left = self % other;
                if left == 0.0 {
                    (0.0 as $float).copysign(other)
                } else if (left < 0.0) != (other < 0.0) {
                    left + other
                } else {
                    left
                }
            }
        }
    )* };
}
floats!(f32 f64);

impl Arithmetic for Complex {
    const ZERO: Self = Self { re: 0.0, im: 0.0 };
    const ONE: Self = Self { re: 1.0, im: 0.0 };

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self { re: self.re - other.re, im: self.im - other.im }
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self { re: self.re * other.re - self.im * other.im, im: self.re * other.im + self.im * other.re }
    }

    #[inline(always)]
    fn neg(self) -> Self {
        Self { re: -self.re, im: -self.im }
    }
}

macro_rules! fields {
    ($($field:ident)*) => { $(
        impl Arithmetic for field::$field {
            const ZERO: Self = <Self as Ring>::ZERO;
            const ONE: Self = <Self as Ring>::ONE;

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self - other
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }

            #[inline(always)]
            fn neg(self) -> Self {
                -self
            }
        }
    )* };
}
fields!(Mersenne31 BabyBear KoalaBear Goldilocks CM31 QM31 BabyBear4 KoalaBear4 Goldilocks2 Goldilocks3);

/// `$body` with `$of` the Rust type of a [`Type`](rigel_codegen::map::Type), or `None` if it is not among those named:
/// `integer`, `float`, `ordered`, `rounded`, `prime`, `field`, `exact`, `arithmetic`, `any`.
macro_rules! with_type {
    (@ $value:expr, $of:ident, $body:expr, $($variant:ident = $rust:ty),*) => {
        match $value {
            $(rigel_codegen::map::Type::$variant => {
                type $of = $rust;
                Some($body)
            })*
            #[allow(unreachable_patterns)]
            _ => None,
        }
    };
    (@fields $value:expr, $of:ident, $body:expr $(, $variant:ident = $rust:ty)*) => {
        with_type!(@ $value, $of, $body, $($variant = $rust,)*
            Mersenne31 = rigel_kernels::field::Mersenne31, BabyBear = rigel_kernels::field::BabyBear,
            KoalaBear = rigel_kernels::field::KoalaBear, Goldilocks = rigel_kernels::field::Goldilocks,
            CM31 = rigel_kernels::field::CM31, QM31 = rigel_kernels::field::QM31,
            BabyBear4 = rigel_kernels::field::BabyBear4, KoalaBear4 = rigel_kernels::field::KoalaBear4,
            Goldilocks2 = rigel_kernels::field::Goldilocks2, Goldilocks3 = rigel_kernels::field::Goldilocks3)
    };
    (integer $value:expr, $of:ident => $body:expr) => {
        with_type!(@ $value, $of, $body, I32 = i32, I64 = i64, U32 = u32, U64 = u64)
    };
    (float $value:expr, $of:ident => $body:expr) => {
        with_type!(@ $value, $of, $body, F32 = f32, F64 = f64)
    };
    (ordered $value:expr, $of:ident => $body:expr) => {
        with_type!(@ $value, $of, $body, Bool = $crate::cpu::number::Truth, I32 = i32, I64 = i64, U32 = u32,
            U64 = u64, F32 = f32, F64 = f64)
    };
    (rounded $value:expr, $of:ident => $body:expr) => {
        with_type!(@ $value, $of, $body, I32 = i32, I64 = i64, U32 = u32, U64 = u64, F32 = f32, F64 = f64)
    };
    (prime $value:expr, $of:ident => $body:expr) => {
        with_type!(@ $value, $of, $body, Mersenne31 = rigel_kernels::field::Mersenne31,
            BabyBear = rigel_kernels::field::BabyBear, KoalaBear = rigel_kernels::field::KoalaBear,
            Goldilocks = rigel_kernels::field::Goldilocks)
    };
    (field $value:expr, $of:ident => $body:expr) => {
        with_type!(@fields $value, $of, $body)
    };
    (exact $value:expr, $of:ident => $body:expr) => {
        with_type!(@fields $value, $of, $body, I32 = i32, I64 = i64, U32 = u32, U64 = u64)
    };
    (arithmetic $value:expr, $of:ident => $body:expr) => {
        with_type!(@fields $value, $of, $body, I32 = i32, I64 = i64, U32 = u32, U64 = u64, F32 = f32, F64 = f64,
            C128 = rigel_codegen::map::Complex)
    };
    (any $value:expr, $of:ident => $body:expr) => {
        with_type!(@fields $value, $of, $body, Bool = $crate::cpu::number::Truth, I32 = i32, I64 = i64, U32 = u32,
            U64 = u64, F32 = f32, F64 = f64, C128 = rigel_codegen::map::Complex)
    };
}
pub(crate) use with_type;
