//! The finite fields on the host: a host counterpart for each device type in the headers beside them.
//!
//! A host counterpart has the device's stored form, bit for bit, so a slice of elements is uploaded as it is. Launchers
//! use these types to compute roots of unity, coset shifts and scaling factors, tests compare against them, and arrays
//! on the CPU consist of them. Operators are therefore inlined and branch-free: loops over slices of 31-bit elements
//! vectorise.
//!
//! | host type | modulus | stored form | extensions |
//! |---|---|---|---|
//! | [`Mersenne31`] | 2^31 - 1 | the canonical integer | [`CM31`], [`QM31`] |
//! | [`BabyBear`] | 2^31 - 2^27 + 1 | Montgomery, R = 2^32, in `[0, p)` | [`BabyBear4`], [`RiscZero4`] |
//! | [`KoalaBear`] | 2^31 - 2^24 + 1 | Montgomery, R = 2^32, in `[0, p)` | [`KoalaBear4`] |
//! | [`Goldilocks`] | 2^64 - 2^32 + 1 | any `u64` of the class | [`Goldilocks2`], [`Goldilocks3`] |

use std::fmt::Debug;
use std::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub, SubAssign};

mod element;
mod extension;
mod goldilocks;
mod mersenne31;
mod monty31;
#[cfg(test)]
mod tests;

pub use element::Element;
pub use extension::{BabyBear4, CM31, Goldilocks2, Goldilocks3, KoalaBear4, QM31, RiscZero4};
pub use goldilocks::Goldilocks;
pub use mersenne31::Mersenne31;
pub use monty31::{BabyBear, KoalaBear};

/// The operations common to base fields and their extensions, and the type's name on the device.
///
/// # Safety
///
/// [`NAME`](Self::NAME) becomes text of kernels. It names a C++ type of the same size, alignment and stored form, whose
/// functions access no memory but their arguments'. If the type also implements [`Field`], [`Extension`] or
/// [`Element`], then with the base field, degree and constants of that C++ type.
pub unsafe trait Ring:
    rigel_gpu::Plain
    + Debug
    + Default
    + Eq
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + AddAssign
    + Sub<Output = Self>
    + SubAssign
    + Mul<Output = Self>
    + MulAssign
    + Neg<Output = Self>
{
    /// The C++ type in the header beside it, as written in a kernel's template argument.
    const NAME: &'static str;
    /// The neutral element of addition.
    const ZERO: Self;
    /// The neutral element of multiplication.
    const ONE: Self;

    /// `self^exponent`, with `0^0 = 1`.
    #[inline]
    fn pow(self, mut exponent: u64) -> Self {
        let (mut power, mut result) = (self, Self::ONE);
        while exponent != 0 {
            if exponent & 1 == 1 {
                result *= power;
            }
            power *= power;
            exponent >>= 1;
        }
        result
    }

    /// `1 / self`, or `None` for zero.
    fn inverse(self) -> Option<Self>;
}

/// A prime field as the device stores it.
pub trait Field: Ring {
    /// The unsigned integer that holds an element in memory.
    type Word: Copy + Debug + Eq + Send + Sync + 'static;

    /// The modulus p.
    const ORDER: u64;
    /// The largest `k` with `2^k | p - 1`.
    const TWO_ADICITY: u32;
    /// The generator of the multiplicative group that Plonky3 uses.
    const GENERATOR: Self;

    /// The class of an integer modulo p; any `u64` is accepted.
    fn from_u64(value: u64) -> Self;
    /// The representative in `[0, p)`.
    fn to_u64(self) -> u64;
    /// The element that a word from device memory stands for.
    fn from_word(word: Self::Word) -> Self;
    /// The word that stands for this element in device memory.
    fn word(self) -> Self::Word;
    /// The root of unity of order `2^bits` that Plonky3's `two_adic_generator` returns.
    ///
    /// # Panics
    ///
    /// If `bits > TWO_ADICITY`: the field has no such root. Launchers check their sizes first.
    fn two_adic_generator(bits: u32) -> Self;

    /// `a[0] b[0] + a[1] b[1] + ...`, reduced once where the products' sum fits a wider integer.
    #[inline(always)]
    fn dot<const D: usize>(a: [Self; D], b: [Self; D]) -> Self {
        let mut sum = Self::ZERO;
        for i in 0..D {
            sum += a[i] * b[i];
        }
        sum
    }
}

/// A field extension, stored as its coefficients in the power basis (for [`QM31`], the basis 1, i, u, iu).
pub trait Extension:
    Ring + Mul<Self::Base, Output = Self> + Add<Self::Base, Output = Self> + From<Self::Base>
{
    /// The field of the coefficients.
    type Base: Field;
    /// The number of coefficients.
    const DEGREE: usize;

    /// The element with these coefficients, lowest power first; `None` if there are not [`Self::DEGREE`].
    fn from_coefficients(coefficients: &[Self::Base]) -> Option<Self>;
    /// The coefficients, lowest power first.
    fn coefficients(&self) -> &[Self::Base];
}

/// The compound assignments, written once in terms of the operators.
macro_rules! assign_operators {
    ($type:ty) => {
        impl std::ops::AddAssign for $type {
            #[inline(always)]
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }
        impl std::ops::SubAssign for $type {
            #[inline(always)]
            fn sub_assign(&mut self, other: Self) {
                *self = *self - other;
            }
        }
        impl std::ops::MulAssign for $type {
            #[inline(always)]
            fn mul_assign(&mut self, other: Self) {
                *self = *self * other;
            }
        }
    };
}
use assign_operators;

macro_rules! plain {
    ($($twin:ty)*) => { $(
        // SAFETY: transparent over one or several unsigned integers; every bit pattern stands for an element.
        unsafe impl rigel_gpu::Plain for $twin {}
    )* };
}
plain!(Mersenne31 BabyBear KoalaBear Goldilocks CM31 QM31 BabyBear4 RiscZero4 KoalaBear4 Goldilocks2 Goldilocks3);
