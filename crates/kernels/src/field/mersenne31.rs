//! Mersenne-31: `p = 2^31 - 1`, stored as the canonical integer in `[0, p)`.
//!
//! Plonky3's type may also hold `p` itself for zero; [`Field::from_word`] accepts it and stores zero.
//!
//! Sums and differences are reduced by a minimum, as [`super::BabyBear`]'s are.

use super::{Field, Ring, assign_operators};

/// The prime field of `p = 2^31 - 1`, as the canonical integer.
///
/// `p - 1` is twice an odd number, so there is no large two-adic subgroup; transforms over this field work on
/// the circle group of its complex extension instead.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mersenne31(u32);

const P: u32 = (1 << 31) - 1;

impl Mersenne31 {
    /// The element of an integer below `2^32`, usable in constants.
    #[inline]
    pub const fn new(value: u32) -> Self {
        Self(value % P)
    }

    /// Adds the upper bits to the lower 31, since `2^31 = 1`: an integer congruent modulo p and below `2^34`, so that
    /// two more products can be added to a sum after it is settled.
    #[inline(always)]
    pub fn settle(x: u64) -> u64 {
        (x & P as u64) + (x >> 31)
    }

    /// The element of an integer below `2 p`.
    #[inline(always)]
    fn below(x: u32) -> Self {
        Self(x.min(x.wrapping_sub(P)))
    }
}

impl std::ops::Add for Mersenne31 {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self::below(self.0.wrapping_add(other.0))
    }
}

impl std::ops::Sub for Mersenne31 {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        let difference = self.0.wrapping_sub(other.0);
        Self(difference.min(difference.wrapping_add(P)))
    }
}

impl std::ops::Mul for Mersenne31 {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        let product = self.0 as u64 * other.0 as u64;
        Self::below((product as u32 & P).wrapping_add((product >> 31) as u32))
    }
}

impl std::ops::Neg for Mersenne31 {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self::ZERO - self
    }
}

assign_operators!(Mersenne31);

// SAFETY: the C++ type of this name is a struct of the same word.
unsafe impl Ring for Mersenne31 {
    const NAME: &'static str = "Mersenne31";
    const ZERO: Self = Self(0);
    const ONE: Self = Self(1);

    #[inline]
    fn inverse(self) -> Option<Self> {
        (self != Self::ZERO).then(|| self.pow(Self::ORDER - 2))
    }
}

impl Field for Mersenne31 {
    type Word = u32;
    const ORDER: u64 = P as u64;
    const TWO_ADICITY: u32 = 1;
    const GENERATOR: Self = Self(7);

    #[inline(always)]
    fn from_u64(value: u64) -> Self {
        Self((value % Self::ORDER) as u32)
    }

    #[inline(always)]
    fn to_u64(self) -> u64 {
        self.0 as u64
    }

    #[inline(always)]
    fn from_word(word: u32) -> Self {
        debug_assert!(word <= P, "{word:#x} is not a stored form of Mersenne31");
        Self::new(word)
    }

    #[inline(always)]
    fn word(self) -> u32 {
        self.0
    }

    fn two_adic_generator(bits: u32) -> Self {
        assert!(bits <= Self::TWO_ADICITY, "Mersenne31 has no root of unity of order 2^{bits}");
        if bits == 0 { Self::ONE } else { -Self::ONE }
    }

    /// Four products are below 2^64, and two more fit after settling.
    #[inline(always)]
    fn dot<const D: usize>(a: [Self; D], b: [Self; D]) -> Self {
        let mut sum = 0u64;
        for i in 0..D {
            if i >= 4 && i % 2 == 0 {
                sum = Self::settle(sum);
            }
            sum = sum.wrapping_add(a[i].0 as u64 * b[i].0 as u64);
        }
        // After settling twice it is below 2^31 + 8, which is below 2 p.
        Self::below(Self::settle(Self::settle(sum)) as u32)
    }
}
