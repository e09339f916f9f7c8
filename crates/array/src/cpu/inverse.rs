//! Batch inversion of field elements: one inversion per block and three products per element (Montgomery's trick).

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;
use rigel_codegen::map::Type;
use rigel_kernels::field::Ring;

use super::number::with_type;
use super::slices::{elements, with_elements_mut};

/// The number of elements that share an inversion.
const BLOCK: usize = 1024;

/// `to[i] = 1 / from[i]`, with 0 for 0. Returns whether no element was 0.
///
/// # Panics
/// If the type is not a field, or the lengths differ.
pub(crate) fn invert(of: Type, from: &[u8], to: &mut [u8]) -> bool {
    assert_eq!(from.len(), to.len(), "a place for each inverse");
    let all = with_type!(field of, T => {
        // SAFETY: any words are a field element.
        let from = unsafe { elements::<T>(from) };
        // SAFETY: as above.
        unsafe { with_elements_mut::<T, _>(to, |to| invert_all(&from, to)) }
    });
    all.expect("a field")
}

fn invert_all<F: Ring>(from: &[F], to: &mut [F]) -> bool {
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

fn invert_block<F: Ring>(from: &[F], to: &mut [F]) -> bool {
    let mut nonzero = true;
    // The prefix products of the elements.
    let mut product = F::ONE;
    for (&x, to) in from.iter().zip(to.iter_mut()) {
        *to = product;
        if x != F::ZERO {
            product *= x;
        } else {
            nonzero = false;
        }
    }
    let mut inverse = product.inverse().expect("a product of nonzero elements");
    for (&x, to) in from.iter().zip(to.iter_mut()).rev() {
        if x == F::ZERO {
            *to = F::ZERO;
        } else {
            *to *= inverse;
            inverse *= x;
        }
    }
    nonzero
}
