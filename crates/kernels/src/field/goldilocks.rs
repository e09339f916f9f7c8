//! Goldilocks: `p = 2^64 - 2^32 + 1`, stored as any 64-bit integer of the residue class.
//!
//! Since `2^64 = 2^32 - 1 (mod p)`, the 64-bit integers `x` and `x - p` (for `x >= p`) stand for one element.
//! Equality, hashing and [`Field::to_u64`] look at the class, [`Field::word`] at the stored integer.

use std::hash::{Hash, Hasher};

use super::{Field, Ring, assign_operators};

/// The prime field of `p = 2^64 - 2^32 + 1`, as any `u64` of the class.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Goldilocks(u64);

const P: u64 = 0xffff_ffff_0000_0001;

impl Goldilocks {
    /// The element of an integer, at compile time.
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The representative in `[0, p)`; one subtraction is enough, since `2 p > 2^64`.
    const fn canonical(self) -> u64 {
        if self.0 >= P { self.0 - P } else { self.0 }
    }

    const fn reduce(x: u128) -> Self {
        Self((x % P as u128) as u64)
    }
}

impl PartialEq for Goldilocks {
    fn eq(&self, other: &Self) -> bool {
        self.canonical() == other.canonical()
    }
}

impl Eq for Goldilocks {}

impl Hash for Goldilocks {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.canonical().hash(state);
    }
}

impl std::ops::Add for Goldilocks {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::reduce(self.0 as u128 + other.0 as u128)
    }
}

impl std::ops::Sub for Goldilocks {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl std::ops::Mul for Goldilocks {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self::reduce(self.0 as u128 * other.0 as u128)
    }
}

impl std::ops::Neg for Goldilocks {
    type Output = Self;
    fn neg(self) -> Self {
        Self(P - self.canonical())
    }
}

assign_operators!(Goldilocks);

impl Ring for Goldilocks {
    const NAME: &'static str = "Goldilocks";
    const ZERO: Self = Self(0);
    const ONE: Self = Self(1);

    fn inverse(self) -> Option<Self> {
        (self != Self::ZERO).then(|| self.pow(Self::ORDER - 2))
    }
}

impl Field for Goldilocks {
    type Word = u64;
    const ORDER: u64 = P;
    const TWO_ADICITY: u32 = 32;
    const GENERATOR: Self = Self(7);

    fn from_u64(value: u64) -> Self {
        Self(value)
    }

    fn to_u64(self) -> u64 {
        self.canonical()
    }

    fn from_word(word: u64) -> Self {
        Self(word)
    }

    fn word(self) -> u64 {
        self.0
    }

    fn two_adic_generator(bits: u32) -> Self {
        assert!(bits <= Self::TWO_ADICITY, "Goldilocks has no root of unity of order 2^{bits}");
        Self(0x1856_29dc_da58_878c).pow(1 << (Self::TWO_ADICITY - bits))
    }
}
