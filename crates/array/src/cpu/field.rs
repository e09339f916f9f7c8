//! The finite fields as loops over many elements want them: the stored forms of [`rigel_kernels::field`], with products
//! and sums that compile to a few instructions and vectorise.
//!
//! | type | stored form |
//! |---|---|
//! | [`Monty31`] | `x 2^32 mod p`, below p |
//! | [`Mersenne31`] | the integer below p |
//! | [`Goldilocks`] | any `u64` of the class |
//! | [`Binomial`], [`Cubic`], [`Qm31`] | their coefficients, lowest first |

use super::number::Arithmetic;

/// A prime field.
pub(crate) trait Prime: Arithmetic {
    /// The modulus.
    const ORDER: u64;
    /// The class of an integer.
    fn from_u64(value: u64) -> Self;
    /// The integer below p.
    fn to_u64(self) -> u64;

    /// The sum of the products of up to four pairs.
    #[inline(always)]
    fn dot<const D: usize>(a: [Self; D], b: [Self; D]) -> Self {
        let mut sum = a[0].mul(b[0]);
        for i in 1..D {
            sum = sum.add(a[i].mul(b[i]));
        }
        sum
    }
}

/// A prime field of 31 bits in Montgomery form with R = 2^32.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Monty31<const P: u32>(pub(crate) u32);

/// 2^31 - 2^27 + 1.
pub(crate) type BabyBear = Monty31<0x7800_0001>;
/// 2^31 - 2^24 + 1.
pub(crate) type KoalaBear = Monty31<0x7f00_0001>;

impl<const P: u32> Monty31<P> {
    /// `-1 / p mod 2^32`: each step of Newton's iteration doubles the number of right bits.
    const NEGATIVE_INVERSE: u32 = {
        let (mut inverse, mut step) = (1u32, 0);
        while step < 5 {
            inverse = inverse.wrapping_mul(2u32.wrapping_sub(P.wrapping_mul(inverse)));
            step += 1;
        }
        inverse.wrapping_neg()
    };
    const R_SQUARED: u32 = ((1u128 << 64) % P as u128) as u32;

    /// `x / R` for `x < p R`.
    #[inline(always)]
    pub(crate) fn reduce(x: u64) -> Self {
        let t = (x as u32).wrapping_mul(Self::NEGATIVE_INVERSE);
        Self::below((x.wrapping_add(t as u64 * P as u64) >> 32) as u32)
    }

    /// The element of a stored form below 2 p. The difference wraps around to above it where it is not wanted.
    #[inline(always)]
    fn below(x: u32) -> Self {
        Self(x.min(x.wrapping_sub(P)))
    }

    #[inline(always)]
    const fn constant(value: u32) -> Self {
        Self((((value as u64) << 32) % P as u64) as u32)
    }
}

impl<const P: u32> Arithmetic for Monty31<P> {
    const ZERO: Self = Self(0);
    const ONE: Self = Self::constant(1);

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self::below(self.0.wrapping_add(other.0))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        let difference = self.0.wrapping_sub(other.0);
        Self(difference.min(difference.wrapping_add(P)))
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self::reduce(self.0 as u64 * other.0 as u64)
    }

    #[inline(always)]
    fn neg(self) -> Self {
        Self::ZERO.sub(self)
    }
}

impl<const P: u32> Prime for Monty31<P> {
    const ORDER: u64 = P as u64;

    #[inline(always)]
    fn from_u64(value: u64) -> Self {
        Self::reduce(value % P as u64 * Self::R_SQUARED as u64)
    }

    #[inline(always)]
    fn to_u64(self) -> u64 {
        Self::reduce(self.0 as u64).0 as u64
    }

    /// Four products are below 2^64, and with 2^32 p taken off twice at most, below 2^32 p.
    #[inline(always)]
    fn dot<const D: usize>(a: [Self; D], b: [Self; D]) -> Self {
        const { assert!(D <= 4) };
        let mut sum = 0u64;
        for i in 0..D {
            sum = sum.wrapping_add(a[i].0 as u64 * b[i].0 as u64);
        }
        for _ in 0..2 {
            sum = sum.min(sum.wrapping_sub((P as u64) << 32));
        }
        Self::reduce(sum)
    }
}

/// 2^31 - 1.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mersenne31(pub(crate) u32);

impl Mersenne31 {
    const P: u32 = (1 << 31) - 1;

    #[inline(always)]
    fn below(x: u32) -> Self {
        Self(x.min(x.wrapping_sub(Self::P)))
    }
}

impl Arithmetic for Mersenne31 {
    const ZERO: Self = Self(0);
    const ONE: Self = Self(1);

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self::below(self.0.wrapping_add(other.0))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        let difference = self.0.wrapping_sub(other.0);
        Self(difference.min(difference.wrapping_add(Self::P)))
    }

    /// `2^31 = 1`: the upper half is added to the lower one.
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        let x = self.0 as u64 * other.0 as u64;
        Self::below((x as u32 & Self::P).wrapping_add((x >> 31) as u32))
    }

    #[inline(always)]
    fn neg(self) -> Self {
        Self::ZERO.sub(self)
    }
}

impl Prime for Mersenne31 {
    const ORDER: u64 = Self::P as u64;

    #[inline(always)]
    fn from_u64(value: u64) -> Self {
        Self((value % Self::ORDER) as u32)
    }

    #[inline(always)]
    fn to_u64(self) -> u64 {
        self.0 as u64
    }
}

/// 2^64 - 2^32 + 1.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goldilocks(pub(crate) u64);

impl Goldilocks {
    const P: u64 = 0xffff_ffff_0000_0001;
    /// `2^64 mod p`.
    const EPSILON: u64 = 0xffff_ffff;

    /// The class of a number of 128 bits: `2^64 = 2^32 - 1` and `2^96 = -1`.
    #[inline(always)]
    pub(crate) fn reduce(x: u128) -> Self {
        let (low, high) = (x as u64, (x >> 64) as u64);
        let (difference, borrow) = low.overflowing_sub(high >> 32);
        // After a borrow the difference is at least 2^64 - 2^32, so this does not borrow again.
        let difference = difference.wrapping_sub(if borrow { Self::EPSILON } else { 0 });
        let middle = (high & Self::EPSILON) * Self::EPSILON;
        let (sum, carry) = difference.overflowing_add(middle);
        // The middle part is at most 2^64 - 2^33 + 1: after a carry there is room.
        Self(sum.wrapping_add(if carry { Self::EPSILON } else { 0 }))
    }
}

impl PartialEq for Goldilocks {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.to_u64() == other.to_u64()
    }
}

impl Arithmetic for Goldilocks {
    const ZERO: Self = Self(0);
    const ONE: Self = Self(1);

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        let (sum, carry) = self.0.overflowing_add(other.to_u64());
        // One of the two is below p, so the carried sum is below p - 1 and has room.
        Self(sum.wrapping_add(if carry { Self::EPSILON } else { 0 }))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        let (difference, borrow) = self.0.overflowing_sub(other.to_u64());
        Self(difference.wrapping_sub(if borrow { Self::EPSILON } else { 0 }))
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self::reduce(self.0 as u128 * other.0 as u128)
    }

    #[inline(always)]
    fn neg(self) -> Self {
        Self(Self::P - self.to_u64())
    }
}

impl Prime for Goldilocks {
    const ORDER: u64 = Self::P;

    #[inline(always)]
    fn from_u64(value: u64) -> Self {
        Self(value)
    }

    #[inline(always)]
    fn to_u64(self) -> u64 {
        self.0.min(self.0.wrapping_sub(Self::P))
    }
}

/// Polynomials modulo `X^D - W`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Binomial<F, const D: usize, const W: u64>(pub(crate) [F; D]);

/// BabyBear modulo `X^4 - 11`.
pub(crate) type BabyBear4 = Binomial<BabyBear, 4, 11>;
/// KoalaBear modulo `X^4 - 3`.
pub(crate) type KoalaBear4 = Binomial<KoalaBear, 4, 3>;
/// Goldilocks modulo `X^2 - 7`.
pub(crate) type Goldilocks2 = Binomial<Goldilocks, 2, 7>;
/// Mersenne-31 modulo `X^2 + 1`.
pub(crate) type Cm31 = Binomial<Mersenne31, 2, { (1 << 31) - 2 }>;

/// Coefficient by coefficient, for types of coefficients in an array.
macro_rules! coefficients {
    ($degree:expr, $field:ty) => {
        const ZERO: Self = Self([<$field>::ZERO; $degree]);
        const ONE: Self = {
            let mut coefficients = [<$field>::ZERO; $degree];
            coefficients[0] = <$field>::ONE;
            Self(coefficients)
        };

        #[inline(always)]
        fn add(self, other: Self) -> Self {
            Self(std::array::from_fn(|i| self.0[i].add(other.0[i])))
        }

        #[inline(always)]
        fn sub(self, other: Self) -> Self {
            Self(std::array::from_fn(|i| self.0[i].sub(other.0[i])))
        }

        #[inline(always)]
        fn neg(self) -> Self {
            Self(self.0.map(|x| x.neg()))
        }
    };
}

impl<F: Prime, const D: usize, const W: u64> Arithmetic for Binomial<F, D, W> {
    coefficients!(D, F);

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // Coefficients that come round again do so W times.
        let w = F::from_u64(W);
        let around = other.0.map(|x| x.mul(w));
        Self(std::array::from_fn(|k| {
            F::dot(self.0, std::array::from_fn(|i| if i <= k { other.0[k - i] } else { around[D + k - i] }))
        }))
    }
}

/// Goldilocks modulo `X^3 - X - 1`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cubic(pub(crate) [Goldilocks; 3]);

impl Arithmetic for Cubic {
    coefficients!(3, Goldilocks);

    /// `X^3 = X + 1` and `X^4 = X^2 + X` fold the upper coefficients.
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        let ([a0, a1, a2], [b0, b1, b2]) = (self.0, other.0);
        let (d3, d4) = (a1.mul(b2).add(a2.mul(b1)), a2.mul(b2));
        let c1 = a0.mul(b1).add(a1.mul(b0));
        let c2 = a0.mul(b2).add(a1.mul(b1)).add(a2.mul(b0));
        Self([a0.mul(b0).add(d3), c1.add(d3).add(d4), c2.add(d4)])
    }
}

/// [`Cm31`] modulo `u^2 - 2 - i`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Qm31(pub(crate) [Mersenne31; 4]);

impl Arithmetic for Qm31 {
    coefficients!(4, Mersenne31);

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        let ([a0, a1, a2, a3], [b0, b1, b2, b3]) = (self.0, other.0);
        let product = |x: [Mersenne31; 2], y: [Mersenne31; 2]| {
            [x[0].mul(y[0]).sub(x[1].mul(y[1])), x[0].mul(y[1]).add(x[1].mul(y[0]))]
        };
        let (low, high) = (product([a0, a1], [b0, b1]), product([a2, a3], [b2, b3]));
        let (left, right) = (product([a0, a1], [b2, b3]), product([a2, a3], [b0, b1]));
        // (2 + i)(h0 + h1 i)
        let folded = [high[0].add(high[0]).sub(high[1]), high[1].add(high[1]).add(high[0])];
        Self([low[0].add(folded[0]), low[1].add(folded[1]), left[0].add(right[0]), left[1].add(right[1])])
    }
}

/// The element of an extension whose lowest coefficient this is.
pub(crate) trait Embed<F> {
    /// `x`, in the larger field.
    fn embed(x: F) -> Self;
}

impl<F: Prime, const D: usize, const W: u64> Embed<F> for Binomial<F, D, W> {
    #[inline(always)]
    fn embed(x: F) -> Self {
        let mut coefficients = [F::ZERO; D];
        coefficients[0] = x;
        Self(coefficients)
    }
}

impl Embed<Goldilocks> for Cubic {
    #[inline(always)]
    fn embed(x: Goldilocks) -> Self {
        Self([x, Goldilocks::ZERO, Goldilocks::ZERO])
    }
}

impl Embed<Mersenne31> for Qm31 {
    #[inline(always)]
    fn embed(x: Mersenne31) -> Self {
        Self([x, Mersenne31::ZERO, Mersenne31::ZERO, Mersenne31::ZERO])
    }
}

impl Embed<Cm31> for Qm31 {
    #[inline(always)]
    fn embed(x: Cm31) -> Self {
        Self([x.0[0], x.0[1], Mersenne31::ZERO, Mersenne31::ZERO])
    }
}
