//! BabyBear and KoalaBear: 31-bit primes in Montgomery form with R = 2^32.
//!
//! The element `x` is stored as the integer `x R mod p` in `[0, p)`. The product of stored forms is
//! `(a R)(b R) / R = (a b) R`, where the division by R is Montgomery's: with `t = -x / p mod R`, the number
//! `x + t p` is a multiple of R, and `(x + t p) / R < 2 p` whenever `x < p R`.

use super::{Field, Ring, assign_operators};

macro_rules! monty31_field {
    (
        $(#[$doc:meta])*
        $name:ident, modulus: $modulus:literal, two_adicity: $two_adicity:literal, generator: $generator:literal,
        root: $root:literal
    ) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(u32);

        impl $name {
            const MODULUS: u32 = $modulus;
            /// `-1 / p mod 2^32`, by Newton's iteration: each step doubles the number of right bits.
            const NEGATIVE_INVERSE: u32 = {
                let mut inverse = 1u32;
                let mut step = 0;
                while step < 5 {
                    inverse = inverse.wrapping_mul(2u32.wrapping_sub(Self::MODULUS.wrapping_mul(inverse)));
                    step += 1;
                }
                inverse.wrapping_neg()
            };

            /// The element of a canonical integer, at compile time.
            pub const fn new(value: u32) -> Self {
                Self((((value as u64) << 32) % Self::MODULUS as u64) as u32)
            }

            /// `x / R mod p` in `[0, p)`, for `x < p R`.
            const fn montgomery_reduce(x: u64) -> u32 {
                let t = (x as u32).wrapping_mul(Self::NEGATIVE_INVERSE);
                let reduced = ((x + t as u64 * Self::MODULUS as u64) >> 32) as u32;
                if reduced >= Self::MODULUS { reduced - Self::MODULUS } else { reduced }
            }
        }

        impl std::ops::Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                let sum = self.0 + other.0;
                Self(if sum >= Self::MODULUS { sum - Self::MODULUS } else { sum })
            }
        }

        impl std::ops::Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                let (difference, borrow) = self.0.overflowing_sub(other.0);
                Self(if borrow { difference.wrapping_add(Self::MODULUS) } else { difference })
            }
        }

        impl std::ops::Mul for $name {
            type Output = Self;
            fn mul(self, other: Self) -> Self {
                Self(Self::montgomery_reduce(self.0 as u64 * other.0 as u64))
            }
        }

        impl std::ops::Neg for $name {
            type Output = Self;
            fn neg(self) -> Self {
                Self(if self.0 == 0 { 0 } else { Self::MODULUS - self.0 })
            }
        }

        assign_operators!($name);

        impl Ring for $name {
            const NAME: &'static str = stringify!($name);
            const ZERO: Self = Self(0);
            const ONE: Self = Self::new(1);

            fn inverse(self) -> Option<Self> {
                (self != Self::ZERO).then(|| self.pow(Self::ORDER - 2))
            }
        }

        impl Field for $name {
            type Word = u32;
            const ORDER: u64 = $modulus;
            const TWO_ADICITY: u32 = $two_adicity;
            const GENERATOR: Self = Self::new($generator);

            fn from_u64(value: u64) -> Self {
                Self::new((value % Self::ORDER) as u32)
            }

            fn to_u64(self) -> u64 {
                Self::montgomery_reduce(self.0 as u64) as u64
            }

            fn from_word(word: u32) -> Self {
                debug_assert!(word < Self::MODULUS, "{word:#x} is not a stored form of {}", Self::NAME);
                Self(word)
            }

            fn word(self) -> u32 {
                self.0
            }

            fn two_adic_generator(bits: u32) -> Self {
                assert!(bits <= Self::TWO_ADICITY, "{} has no root of unity of order 2^{bits}", Self::NAME);
                Self::new($root).pow(1 << (Self::TWO_ADICITY - bits))
            }
        }
    };
}

monty31_field! {
    /// The prime field of `p = 2^31 - 2^27 + 1`, in Montgomery form.
    BabyBear, modulus: 0x7800_0001, two_adicity: 27, generator: 31, root: 0x1a42_7a41
}

monty31_field! {
    /// The prime field of `p = 2^31 - 2^24 + 1`, in Montgomery form.
    KoalaBear, modulus: 0x7f00_0001, two_adicity: 24, generator: 3, root: 0x6ac4_9f88
}
