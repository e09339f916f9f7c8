//! Mersenne-31: `p = 2^31 - 1`, stored as the canonical integer in `[0, p)`.
//!
//! Plonky3's type may also hold `p` itself for zero; [`Field::from_word`] accepts it and stores zero.

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
    /// The element of an integer below `2^32`, at compile time.
    pub const fn new(value: u32) -> Self {
        Self(value % P)
    }
}

impl std::ops::Add for Mersenne31 {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let sum = self.0 + other.0;
        Self(if sum >= P { sum - P } else { sum })
    }
}

impl std::ops::Sub for Mersenne31 {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl std::ops::Mul for Mersenne31 {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self((self.0 as u64 * other.0 as u64 % P as u64) as u32)
    }
}

impl std::ops::Neg for Mersenne31 {
    type Output = Self;
    fn neg(self) -> Self {
        Self(if self.0 == 0 { 0 } else { P - self.0 })
    }
}

assign_operators!(Mersenne31);

impl Ring for Mersenne31 {
    const NAME: &'static str = "Mersenne31";
    const ZERO: Self = Self(0);
    const ONE: Self = Self(1);

    fn inverse(self) -> Option<Self> {
        (self != Self::ZERO).then(|| self.pow(Self::ORDER - 2))
    }
}

impl Field for Mersenne31 {
    type Word = u32;
    const ORDER: u64 = P as u64;
    const TWO_ADICITY: u32 = 1;
    const GENERATOR: Self = Self(7);

    fn from_u64(value: u64) -> Self {
        Self((value % Self::ORDER) as u32)
    }

    fn to_u64(self) -> u64 {
        self.0 as u64
    }

    fn from_word(word: u32) -> Self {
        debug_assert!(word <= P, "{word:#x} is not a stored form of Mersenne31");
        Self::new(word)
    }

    fn word(self) -> u32 {
        self.0
    }

    fn two_adic_generator(bits: u32) -> Self {
        assert!(bits <= Self::TWO_ADICITY, "Mersenne31 has no root of unity of order 2^{bits}");
        if bits == 0 { Self::ONE } else { -Self::ONE }
    }
}
