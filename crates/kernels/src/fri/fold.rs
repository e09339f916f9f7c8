//! FRI folding: n evaluations in bit-reversed order become n / 2^k, as one column (a slab, see
//! [`crate::layout::slab`]).
//!
//! There are k halvings. With g the root of unity whose order is the current number of values, b = beta, beta^2,
//! beta^4, .. and rev the bit reversal of i, each computes
//!
//! ```text
//! v'[i] = (v[2i] + v[2i + 1]) / 2 + (v[2i] - v[2i + 1]) b g^-rev(i) / 2
//! ```
//!
//! and at the end, if a column of n / 2^k elements joins, `v[i] + beta^(2^k) joined[i]`. This is upstream's
//! `fold_matrix` of rows of 2^k adjacent values, followed by adding the column that joins at the next height.
//!
//! Up to four halvings take one launch and stay in registers; each element is read once, and each result written once.
//! A halving costs one product of extension elements per pair.

use std::marker::PhantomData;

use rigel_gpu::{Error, Result, Shape, Stream, View};

use crate::code::{Instances, KernelFile, Operation, parameters};
use crate::domain::roots::{ORDERS, ReversedPowers, check_domain};
use crate::field::{Element, Field, Ring};
use crate::layout::matrix::{Matrix, log2_rows};
use crate::layout::slab::{constant, slab_length};

/// Folds a slab of n elements, n a power of two, by 2^`log_arity` (from 2 to n) to a slab of n / 2^`log_arity`.
/// `joined` has as many elements as the result.
pub fn fold<E: Element>(
    stream: &Stream,
    values: View<'_, E::Base>,
    log_arity: u32,
    beta: E,
    joined: Option<View<'_, E::Base>>,
) -> Result<Matrix<E::Base>> {
    const NAME: &str = "fold";
    let n = slab_length::<E>(NAME, values)?;
    let log_n = log2_rows(NAME, n)?;
    check_domain::<E::Base>(NAME, log_n)?;
    if !(1..=log_n).contains(&log_arity) {
        return Err(Error::shape(
            NAME,
            format!("{n} elements folded by 2^{log_arity}; the arity must be from 2 to the number of elements"),
        ));
    }
    if let Some(joined) = joined.filter(|joined| joined.len() != values.len() >> log_arity) {
        return Err(Error::shape(
            NAME,
            format!(
                "{} values join a result of {}; the numbers must be equal",
                joined.len(),
                values.len() >> log_arity
            ),
        ));
    }
    let (mut folded, mut beta) = (None, beta);
    for done in (0..log_arity).step_by(MOST_AT_ONCE as usize) {
        let step = MOST_AT_ONCE.min(log_arity - done);
        let joined = joined.filter(|_| done + step == log_arity);
        let from = folded.as_ref().map_or(values, |matrix: &Matrix<E::Base>| matrix.values().view());
        let next = fold_at_once(stream, from, step, beta, joined)?;
        beta = beta.pow(1 << step);
        folded = Some(next);
    }
    Ok(folded.expect("at least one halving"))
}

/// Threads per block, and the maximum number of halvings in one launch.
const THREADS: u32 = 256;
const MOST_AT_ONCE: u32 = 4;

parameters! {
    /// The challenge of a launch, in the form that the kernel uses.
    struct Folding<E: Element> = format!("Folding<{}>", E::NAME) => {
        factors: [E; 1 << MOST_AT_ONCE],
        weight: E,
        inverse: ReversedPowers<E::Base>,
    }
}

impl<E: Element> Folding<E> {
    fn new(log_arity: u32, beta: E) -> Self {
        let inverse = ReversedPowers::inverse();
        let half = E::Base::from_u64(2).inverse().expect("two is not zero");
        let (mut factors, mut b) = ([E::ZERO; 1 << MOST_AT_ONCE], beta);
        for log_pairs in (0..log_arity).rev() {
            let pairs = 1 << log_pairs;
            for q in 0..pairs {
                factors[pairs + q] = b * constant(inverse.at(2 * q) * half);
            }
            b *= b;
        }
        Self { factors, weight: b, inverse }
    }
}

/// One module for each number of halvings in one launch.
pub(crate) struct Fold<E>(PhantomData<E>);

impl<E: Element> Operation for Fold<E> {
    type Variant = u32;

    const FILE: KernelFile = KernelFile {
        path: "fri/fold.cu",
        text: include_str!("fold.cu"),
        constants: &[
            ("BLOCK_THREADS", THREADS as u64),
            ("MOST_FACTORS", 1 << MOST_AT_ONCE),
            ("ROOT_ORDERS", ORDERS as u64),
        ],
    };

    fn instances(log_arity: u32) -> Instances {
        Instances::one(format!("fold<{}, {log_arity}>", E::NAME))
            .takes::<Folding<E>>()
            .takes::<ReversedPowers<E::Base>>()
    }

    fn warmed() -> Vec<u32> {
        (1..=MOST_AT_ONCE).collect()
    }
}

/// One launch: at most [`MOST_AT_ONCE`] halvings.
fn fold_at_once<E: Element>(
    stream: &Stream,
    values: View<'_, E::Base>,
    log_arity: u32,
    beta: E,
    joined: Option<View<'_, E::Base>>,
) -> Result<Matrix<E::Base>> {
    let n = (values.len() / E::DEGREE) >> log_arity;
    let mut out = Matrix::alloc(stream, n, E::DEGREE)?;
    let outputs = ((16 / size_of::<E::Base>()) >> log_arity).max(1);
    let shape = Shape::cover(n.div_ceil(outputs), THREADS)?;
    let kernel = Fold::<E>::kernel(stream.device(), log_arity)?;
    let folding = Folding::new(log_arity, beta);
    kernel.launch(stream, shape, (out.values_mut(), values, joined, n as u64, folding))?;
    Ok(out)
}
