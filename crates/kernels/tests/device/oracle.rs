//! Upstream's type of each field and extension, with the operations that the tests need: Plonky3's, and Stwo's for
//! Mersenne-31 and its extensions.

use std::fmt::Debug;
use std::ops::{Add, Mul, Neg, Sub};

use p3_field::extension::{BinomialExtensionField, CubicTrinomialExtensionField};
use p3_field::{
    BasedVectorSpace, PrimeCharacteristicRing, PrimeField64, batch_multiplicative_inverse, integers::QuotientMap,
};
use rand::rngs::SmallRng;
use rigel_gpu::Stream;
use rigel_kernels::Matrix;
use rigel_kernels::field::{
    BabyBear, BabyBear4, CM31, Element, Field, Goldilocks, Goldilocks2, Goldilocks3, KoalaBear, KoalaBear4,
    Mersenne31, QM31,
};
use rigel_kernels::layout::slab::{from_slab, to_slab};
use stwo::core::fields::{cm31, m31::M31, qm31};

use crate::support::random;

/// An element with an upstream counterpart.
pub(crate) trait Oracle: Element {
    /// Upstream's type.
    type Theirs: Copy
        + Debug
        + PartialEq
        + Add<Output = Self::Theirs>
        + Sub<Output = Self::Theirs>
        + Mul<Output = Self::Theirs>
        + Neg<Output = Self::Theirs>;

    fn theirs(self) -> Self::Theirs;
    fn ours(theirs: Self::Theirs) -> Self;
    /// `start x^i`, by upstream's iterator if there is one.
    fn powers(start: Self::Theirs, x: Self::Theirs, n: usize) -> Vec<Self::Theirs>;
    /// Upstream's batch inversion of nonzero elements.
    fn inverses(values: &[Self::Theirs]) -> Vec<Self::Theirs>;
}

macro_rules! plonky3 {
    ($($ours:ty = $theirs:ty, |$x:ident| $up:expr, |$y:ident| $down:expr;)*) => { $(
        impl Oracle for $ours {
            type Theirs = $theirs;

            fn theirs(self) -> Self::Theirs {
                let $x = self;
                $up
            }
            fn ours($y: Self::Theirs) -> Self {
                $down
            }
            fn powers(start: Self::Theirs, x: Self::Theirs, n: usize) -> Vec<Self::Theirs> {
                x.shifted_powers(start).take(n).collect()
            }
            fn inverses(values: &[Self::Theirs]) -> Vec<Self::Theirs> {
                batch_multiplicative_inverse(values)
            }
        }
    )* };
}

fn up<E: Element, U: PrimeField64, V: BasedVectorSpace<U>>(x: &E) -> V {
    V::from_basis_coefficients_fn(|d| U::from_int(x.parts()[d].to_u64()))
}

fn down<E: Element, U: PrimeField64, V: BasedVectorSpace<U>>(y: &V) -> E {
    let parts: Vec<E::Base> =
        y.as_basis_coefficients_slice().iter().map(|c: &U| E::Base::from_u64(c.as_canonical_u64())).collect();
    E::from_parts(&parts).unwrap()
}

plonky3! {
    BabyBear = p3_baby_bear::BabyBear,
        |x| QuotientMap::from_int(x.to_u64()), |y| Self::from_u64(y.as_canonical_u64());
    KoalaBear = p3_koala_bear::KoalaBear,
        |x| QuotientMap::from_int(x.to_u64()), |y| Self::from_u64(y.as_canonical_u64());
    Goldilocks = p3_goldilocks::Goldilocks,
        |x| QuotientMap::from_int(x.to_u64()), |y| Self::from_u64(y.as_canonical_u64());
    BabyBear4 = BinomialExtensionField<p3_baby_bear::BabyBear, 4>,
        |x| up::<_, p3_baby_bear::BabyBear, _>(&x), |y| down::<_, p3_baby_bear::BabyBear, _>(&y);
    KoalaBear4 = BinomialExtensionField<p3_koala_bear::KoalaBear, 4>,
        |x| up::<_, p3_koala_bear::KoalaBear, _>(&x), |y| down::<_, p3_koala_bear::KoalaBear, _>(&y);
    Goldilocks2 = BinomialExtensionField<p3_goldilocks::Goldilocks, 2>,
        |x| up::<_, p3_goldilocks::Goldilocks, _>(&x), |y| down::<_, p3_goldilocks::Goldilocks, _>(&y);
    Goldilocks3 = CubicTrinomialExtensionField<p3_goldilocks::Goldilocks>,
        |x| up::<_, p3_goldilocks::Goldilocks, _>(&x), |y| down::<_, p3_goldilocks::Goldilocks, _>(&y);
}

macro_rules! stwo {
    ($($ours:ty = $theirs:ty, |$x:ident| $up:expr, |$y:ident| $down:expr;)*) => { $(
        impl Oracle for $ours {
            type Theirs = $theirs;

            fn theirs(self) -> Self::Theirs {
                let $x = self.parts().iter().map(|part| M31(part.to_u64() as u32)).collect::<Vec<_>>();
                $up
            }
            fn ours($y: Self::Theirs) -> Self {
                let parts: Vec<_> = $down.into_iter().map(|part: M31| Mersenne31::new(part.0)).collect();
                Self::from_parts(&parts).unwrap()
            }
            fn powers(start: Self::Theirs, x: Self::Theirs, n: usize) -> Vec<Self::Theirs> {
                std::iter::successors(Some(start), |&power| Some(power * x)).take(n).collect()
            }
            fn inverses(values: &[Self::Theirs]) -> Vec<Self::Theirs> {
                stwo::core::fields::batch_inverse(values)
            }
        }
    )* };
}
stwo! {
    Mersenne31 = M31, |x| x[0], |y| [y];
    CM31 = cm31::CM31, |x| cm31::CM31::from_m31(x[0], x[1]), |y| [y.0, y.1];
    QM31 = qm31::QM31, |x| qm31::QM31::from_m31(x[0], x[1], x[2], x[3]), |y| y.to_m31_array();
}

/// Random elements.
pub(crate) fn random_elements<E: Element>(rng: &mut SmallRng, n: usize) -> Vec<E> {
    from_slab(&random::<E::Base>(rng, n * E::DEGREE)).unwrap()
}

/// A matrix of these columns.
pub(crate) fn upload<E: Element>(stream: &Stream, columns: &[Vec<E>]) -> Matrix<E::Base> {
    let values: Vec<E::Base> = columns.iter().flat_map(|column| to_slab(column)).collect();
    Matrix::upload(stream, &values, columns[0].len()).unwrap()
}

/// The columns of a matrix.
pub(crate) fn download<E: Element>(stream: &Stream, matrix: &Matrix<E::Base>) -> Vec<Vec<E>> {
    let values = matrix.to_vec(stream).unwrap();
    values.chunks(matrix.rows() * E::DEGREE).map(|slab| from_slab(slab).unwrap()).collect()
}

/// Random columns.
pub(crate) fn random_columns<E: Element>(rng: &mut SmallRng, rows: usize, columns: usize) -> Vec<Vec<E>> {
    (0..columns).map(|_| random_elements(rng, rows)).collect()
}

/// Applies upstream's function to each pair of elements.
pub(crate) fn zip_with<E: Oracle>(
    x: &[Vec<E>],
    y: &[Vec<E>],
    f: impl Fn(E::Theirs, E::Theirs) -> E::Theirs,
) -> Vec<Vec<E>> {
    let column =
        |(x, y): (&Vec<E>, &Vec<E>)| x.iter().zip(y).map(|(&x, &y)| E::ours(f(x.theirs(), y.theirs()))).collect();
    x.iter().zip(y).map(column).collect()
}

/// Asserts that an error names the operation and contains each of these texts.
pub(crate) fn assert_says<T: Debug>(result: rigel_gpu::Result<T>, words: &[&str]) {
    let text = result.unwrap_err().to_string();
    for word in words {
        assert!(text.contains(word), "{text:?} does not say {word:?}");
    }
}
