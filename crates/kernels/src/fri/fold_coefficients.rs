//! Folding a polynomial in coefficient form: `out[j] = sum_(i < 16) c[16 j + i] beta^i`.
//!
//! Coefficients are a slab (see [`crate::layout::slab`]) in natural order; the result has a sixteenth of them. This is
//! how RISC Zero's FRI folds. Each coefficient is read once; a result takes 16 products of the extension with its base
//! for each of its coefficients.

use std::marker::PhantomData;

use rigel_gpu::{Error, Result, Shape, Stream, View, ViewMut};

use crate::code::{Instances, KernelFile, Operation};
use crate::field::Element;
use crate::layout::slab::slab_length;

/// The logarithm of the arity.
pub const LOG_ARITY: u32 = 4;

/// Folds by 16 with the challenge `beta`, into a slab of a sixteenth of the length.
pub fn fold_into<E: Element>(
    stream: &Stream,
    out: ViewMut<'_, E::Base>,
    coefficients: View<'_, E::Base>,
    beta: E,
) -> Result<()> {
    const NAME: &str = "fold_coefficients::fold_into";
    let n = slab_length::<E>(NAME, out.view())?;
    if coefficients.len() != out.len() << LOG_ARITY || !coefficients.address().is_multiple_of(16) {
        let detail = format!(
            "{} values at {:#x} folded by 16 into {}; there must be 16 times as many, at a multiple of 16",
            coefficients.len(),
            coefficients.address(),
            out.len()
        );
        return Err(Error::shape(NAME, detail));
    }
    let powers: Vec<E> = std::iter::successors(Some(E::ONE), |&x| Some(x * beta)).take(1 << LOG_ARITY).collect();
    let powers = stream.upload(&powers)?;
    let kernel = FoldCoefficients::<E>::kernel(stream.device(), ())?;
    kernel.launch(stream, Shape::cover(n, THREADS)?, (out, coefficients, &powers, n as u64))
}

/// Threads per block.
const THREADS: u32 = 128;

pub(crate) struct FoldCoefficients<E>(PhantomData<E>);

impl<E: Element> Operation for FoldCoefficients<E> {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "fri/fold_coefficients.cu",
        text: include_str!("fold_coefficients.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64)],
    };

    fn instances((): ()) -> Instances {
        Instances::one(format!("fold_coefficients<{}, {LOG_ARITY}>", E::NAME))
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}
