//! Inverses of many field elements: one inversion and three products each for a block of them (Montgomery's trick).

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;
use rigel_codegen::map::Type;
use rigel_kernels::field::{self as twins, Ring};

use super::field::{
    BabyBear, BabyBear4, Cm31, Cubic, Goldilocks, Goldilocks2, KoalaBear, KoalaBear4, Mersenne31, Qm31,
};
use super::number::{Arithmetic, with_type};
use super::slices::{elements, with_elements_mut};

/// Elements that share an inversion.
const BLOCK: usize = 1024;

/// A field whose elements have inverses.
trait Invert: Arithmetic {
    /// `1 / self` for an element that is not zero.
    fn invert(self) -> Self;
}

macro_rules! invert {
    ($($of:ty = $twin:ty),* $(,)?) => { $(
        impl Invert for $of {
            fn invert(self) -> Self {
                // SAFETY: both are the same words, and any are a value of both.
                let twin = unsafe { std::mem::transmute::<$of, $twin>(self) };
                let inverse = twin.inverse().expect("an element that is not zero");
                // SAFETY: as above.
                unsafe { std::mem::transmute::<$twin, $of>(inverse) }
            }
        }
    )* };
}
invert! {
    Mersenne31 = twins::Mersenne31, BabyBear = twins::BabyBear, KoalaBear = twins::KoalaBear,
    Goldilocks = twins::Goldilocks, Cm31 = twins::CM31, Qm31 = twins::QM31, BabyBear4 = twins::BabyBear4,
    KoalaBear4 = twins::KoalaBear4, Goldilocks2 = twins::Goldilocks2, Cubic = twins::Goldilocks3,
}

/// `to[i] = 1 / from[i]`, and 0 for 0; whether none was 0.
///
/// # Panics
/// If the type is no field, or the lengths differ.
pub(crate) fn invert(of: Type, from: &[u8], to: &mut [u8]) -> bool {
    assert_eq!(from.len(), to.len(), "a place for each inverse");
    let all = with_type!(field of, T => {
        // SAFETY: any words are a field's element.
        let from = unsafe { elements::<T>(from) };
        // SAFETY: as above.
        unsafe { with_elements_mut::<T, _>(to, |to| invert_all(&from, to)) }
    });
    all.expect("a field")
}

fn invert_all<F: Invert>(from: &[F], to: &mut [F]) -> bool {
    let nonzero = AtomicBool::new(true);
    let work = |(from, to): (&[F], &mut [F])| {
        if !invert_block(from, to) {
            nonzero.store(false, Ordering::Relaxed);
        }
    };
    if from.len() <= 4 * BLOCK {
        from.chunks(BLOCK).zip(to.chunks_mut(BLOCK)).for_each(work);
    } else {
        from.par_chunks(BLOCK).zip(to.par_chunks_mut(BLOCK)).for_each(work);
    }
    nonzero.into_inner()
}

fn invert_block<F: Invert>(from: &[F], to: &mut [F]) -> bool {
    let mut nonzero = true;
    // The products of all elements before each.
    let mut product = F::ONE;
    for (&x, to) in from.iter().zip(to.iter_mut()) {
        *to = product;
        if x != F::ZERO {
            product = product.mul(x);
        } else {
            nonzero = false;
        }
    }
    let mut inverse = product.invert();
    for (&x, to) in from.iter().zip(to.iter_mut()).rev() {
        if x == F::ZERO {
            *to = F::ZERO;
        } else {
            *to = to.mul(inverse);
            inverse = inverse.mul(x);
        }
    }
    nonzero
}
