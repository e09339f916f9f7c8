//! BabyBear and KoalaBear: 31-bit primes in Montgomery form with R = 2^32.
//!
//! The element `x` is stored as the integer `x R mod p` in `[0, p)`. The product of stored forms is
//! `(a R)(b R) / R = (a b) R`, where the division by R is Montgomery's: with `t = -x / p mod R`, the number
//! `x + t p` is a multiple of R, and `(x + t p) / R < 2 p` whenever `x < p R`.
//!
//! Of `x` and `x - p`, the one in `[0, p)` is the smaller as unsigned integers, since a negative number wraps
//! around to a large one: reductions are a minimum, without a branch, and loops over many elements vectorise.

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
            /// `-1 / p mod 2^32`, by Newton's iteration: each step doubles the number of correct bits.
            const NEGATIVE_INVERSE: u32 = {
                let mut inverse = 1u32;
                let mut step = 0;
                while step < 5 {
                    inverse = inverse.wrapping_mul(2u32.wrapping_sub(Self::MODULUS.wrapping_mul(inverse)));
                    step += 1;
                }
                inverse.wrapping_neg()
            };
            /// `R^2 mod p`: multiplying an integer by it and dividing by R gives the integer's stored form.
            const R_SQUARED: u32 = ((1u128 << 64) % Self::MODULUS as u128) as u32;

            /// The element of a canonical integer, usable in constants.
            #[inline]
            pub const fn new(value: u32) -> Self {
                Self((((value as u64) << 32) % Self::MODULUS as u64) as u32)
            }

            /// The element stored as `x / R mod p`, for `x < 2^32 p`: with `x` the product of the stored forms of
            /// two elements, their product; with `x` a sum of such products (see [`Self::settle`]), the sum.
            #[inline(always)]
            pub fn montgomery_reduce(x: u64) -> Self {
                let t = (x as u32).wrapping_mul(Self::NEGATIVE_INVERSE);
                Self::below((x.wrapping_add(t as u64 * Self::MODULUS as u64) >> 32) as u32)
            }

            /// `x - 2^32 p` if that is not negative, and `x` otherwise: congruent modulo p.
            ///
            /// For sums of products of stored forms that are reduced once. The result is below `2^64 - 2^32 p`, so two
            /// more products can be added to it; settled once more it is below `2^32 p`, as [`Self::montgomery_reduce`]
            /// requires.
            #[inline(always)]
            pub fn settle(x: u64) -> u64 {
                x.min(x.wrapping_sub((Self::MODULUS as u64) << 32))
            }

            /// The element of a stored form below `2 p`.
            #[inline(always)]
            fn below(x: u32) -> Self {
                Self(x.min(x.wrapping_sub(Self::MODULUS)))
            }
        }

        impl std::ops::Add for $name {
            type Output = Self;
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                Self::below(self.0.wrapping_add(other.0))
            }
        }

        impl std::ops::Sub for $name {
            type Output = Self;
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                let difference = self.0.wrapping_sub(other.0);
                Self(difference.min(difference.wrapping_add(Self::MODULUS)))
            }
        }

        impl std::ops::Mul for $name {
            type Output = Self;
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                Self::montgomery_reduce(self.0 as u64 * other.0 as u64)
            }
        }

        impl std::ops::Neg for $name {
            type Output = Self;
            #[inline(always)]
            fn neg(self) -> Self {
                Self::ZERO - self
            }
        }

        assign_operators!($name);

        // SAFETY: the C++ type of this name is a struct of the same word.
        unsafe impl Ring for $name {
            const NAME: &'static str = stringify!($name);
            const ZERO: Self = Self(0);
            const ONE: Self = Self::new(1);

            #[inline]
            fn inverse(self) -> Option<Self> {
                (self != Self::ZERO).then(|| self.pow(Self::ORDER - 2))
            }
        }

        impl Field for $name {
            type Word = u32;
            const ORDER: u64 = $modulus;
            const TWO_ADICITY: u32 = $two_adicity;
            const GENERATOR: Self = Self::new($generator);

            #[inline(always)]
            fn from_u64(value: u64) -> Self {
                Self::montgomery_reduce(value % Self::ORDER * Self::R_SQUARED as u64)
            }

            #[inline(always)]
            fn to_u64(self) -> u64 {
                Self::montgomery_reduce(self.0 as u64).0 as u64
            }

            #[inline(always)]
            fn from_word(word: u32) -> Self {
                debug_assert!(word < Self::MODULUS, "{word:#x} is not a stored form of {}", Self::NAME);
                Self(word)
            }

            #[inline(always)]
            fn word(self) -> u32 {
                self.0
            }

            fn two_adic_generator(bits: u32) -> Self {
                assert!(bits <= Self::TWO_ADICITY, "{} has no root of unity of order 2^{bits}", Self::NAME);
                Self::new($root).pow(1 << (Self::TWO_ADICITY - bits))
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
                Self::montgomery_reduce(Self::settle(Self::settle(sum)))
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
