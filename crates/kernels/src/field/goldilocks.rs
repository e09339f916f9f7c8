//! Goldilocks: `p = 2^64 - 2^32 + 1`, stored as any 64-bit integer of the residue class.
//!
//! Since `2^64 = 2^32 - 1 (mod p)`, the 64-bit integers `x` and `x - p` (for `x >= p`) represent the same element.
//! Equality, hashing and [`Field::to_u64`] use the class, [`Field::word`] the stored integer. Which representative an
//! operation returns is unspecified.

use std::hash::{Hash, Hasher};

use super::{Field, Ring, assign_operators};

/// The prime field of `p = 2^64 - 2^32 + 1`, as any `u64` of the class.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Goldilocks(u64);

const P: u64 = 0xffff_ffff_0000_0001;
/// `2^64 mod p`.
const EPSILON: u64 = 0xffff_ffff;

impl Goldilocks {
    /// The element of an integer, usable in constants.
    #[inline]
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The representative in `[0, p)`. One subtraction is enough, since `2 p > 2^64`; if the value is already below p,
    /// the difference wraps around to a larger number, and the minimum ignores it.
    #[inline(always)]
    fn canonical(self) -> u64 {
        self.0.min(self.0.wrapping_sub(P))
    }

    /// Reduces a 128-bit integer, by `2^64 = 2^32 - 1` and `2^96 = -1`.
    #[inline(always)]
    pub fn reduce(x: u128) -> Self {
        let (low, high) = (x as u64, (x >> 64) as u64);
        let (difference, borrow) = low.overflowing_sub(high >> 32);
        // After a borrow the difference is at least 2^64 - 2^32, so this does not borrow again.
        let difference = difference.wrapping_sub(if borrow { EPSILON } else { 0 });
        let middle = (high & EPSILON) * EPSILON;
        let (sum, carry) = difference.overflowing_add(middle);
        // The middle part is at most 2^64 - 2^33 + 1, so a carry cannot overflow again.
        Self(sum.wrapping_add(if carry { EPSILON } else { 0 }))
    }
}

impl PartialEq for Goldilocks {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.canonical() == other.canonical()
    }
}

impl Eq for Goldilocks {}

impl Hash for Goldilocks {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.canonical().hash(state);
    }
}

impl std::ops::Add for Goldilocks {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        let (sum, carry) = self.0.overflowing_add(other.canonical());
        // One of the two is below p, so the carried sum is below p - 1 and cannot overflow again.
        Self(sum.wrapping_add(if carry { EPSILON } else { 0 }))
    }
}

impl std::ops::Sub for Goldilocks {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        let (difference, borrow) = self.0.overflowing_sub(other.canonical());
        // The second is below p, so after a borrow at least 2^32 is left.
        Self(difference.wrapping_sub(if borrow { EPSILON } else { 0 }))
    }
}

impl std::ops::Mul for Goldilocks {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self::reduce(self.0 as u128 * other.0 as u128)
    }
}

impl std::ops::Neg for Goldilocks {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self(P - self.canonical())
    }
}

assign_operators!(Goldilocks);

// SAFETY: the C++ type of this name is a struct of the same word.
unsafe impl Ring for Goldilocks {
    const NAME: &'static str = "Goldilocks";
    const ZERO: Self = Self(0);
    const ONE: Self = Self(1);

    #[inline]
    fn inverse(self) -> Option<Self> {
        (self != Self::ZERO).then(|| self.pow(Self::ORDER - 2))
    }
}

impl Field for Goldilocks {
    type Word = u64;
    const ORDER: u64 = P;
    const TWO_ADICITY: u32 = 32;
    const GENERATOR: Self = Self(7);

    #[inline(always)]
    fn from_u64(value: u64) -> Self {
        Self(value)
    }

    #[inline(always)]
    fn to_u64(self) -> u64 {
        self.canonical()
    }

    #[inline(always)]
    fn from_word(word: u64) -> Self {
        Self(word)
    }

    #[inline(always)]
    fn word(self) -> u64 {
        self.0
    }

    fn two_adic_generator(bits: u32) -> Self {
        assert!(bits <= Self::TWO_ADICITY, "Goldilocks has no root of unity of order 2^{bits}");
        Self(0x1856_29dc_da58_878c).pow(1 << (Self::TWO_ADICITY - bits))
    }
}
