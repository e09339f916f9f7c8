//! The selectors of a trace of n = 2^k rows on the subgroup H: unnormalised polynomials that select its first row, its
//! last row, and all rows but the last (the transitions).
//!
//! With `z(X) = X^n - 1`, which vanishes on H, and t the last point of H:
//!
//! ```text
//! first(X) = z(X) / (X - 1)      last(X) = z(X) / (X - t)      transition(X) = X - t
//! ```
//!
//! - [`on_coset`]: their values on the coset `GENERATOR K` of n q points, as upstream's `selectors_on_coset` but in
//!   bit-reversed order
//! - [`inverse_vanishing`]: the q values that 1 / z takes there
//! - [`on_trace`]: ones and zeros on H itself
//! - [`kept_on_block`], [`kept_on_trace`]: the same, which the device keeps if they are short
//!
//! On the coset the cost is two batch inversions; each value is then read and written once more.

use std::marker::PhantomData;
use std::sync::Arc;

use rigel_gpu::{Error, Result, Shape, Stream, View};

use crate::code::{Instances, KernelFile, Operation};
use crate::domain::block::Block;
use crate::domain::kept::kept;
use crate::domain::points::kept_points;
use crate::domain::roots::{ORDERS, ReversedPowers, check_domain};
use crate::field::{Element, Field};
use crate::layout::matrix::Matrix;
use crate::vector::inverse::invert_differences;

/// The selectors of 2^`log_n` rows on the coset of 2^(`log_n` + `log_q`) points, in bit-reversed order, as three
/// columns: first row, last row, transition. `points` begins with those of the coset, see
/// [`coset_points`](crate::domain::points::coset_points).
pub fn on_coset<F: Field + Element<Base = F>>(
    stream: &Stream,
    points: View<'_, F>,
    log_n: u32,
    log_q: u32,
) -> Result<Matrix<F>> {
    check_domain::<F>("selectors::on_coset", log_n.saturating_add(log_q))?;
    on_block(stream, points, Block::whole(log_n + log_q), log_n)
}

/// [`on_coset`] for a block of its rows, given the block's points.
pub fn on_block<F: Field + Element<Base = F>>(
    stream: &Stream,
    points: View<'_, F>,
    block: Block,
    log_n: u32,
) -> Result<Matrix<F>> {
    const NAME: &str = "selectors::on_coset";
    check_domain::<F>(NAME, log_n)?;
    let rows = block.rows();
    if points.len() < rows {
        return Err(Error::shape(
            NAME,
            format!("{} points given; a coset of {rows} points needs at least {rows}", points.len()),
        ));
    }
    let points = points.range(..rows)?;
    let last = last_point::<F>(log_n);
    let mut out = Matrix::alloc(stream, rows, 3)?;
    invert_differences::<F>(stream, out.column_range_mut(0, 2)?, points, &[(F::ONE, rows), (last, rows)])?;
    let shift = (F::GENERATOR * block.shift::<F>()).pow(1 << log_n);
    Selectors::<F>::kernels(stream.device(), ())?[ON_COSET].launch(
        stream,
        Shape::cover(rows, THREADS)?,
        (out.values_mut(), points, rows as u64, log_n, last, shift, ReversedPowers::<F>::new()),
    )?;
    Ok(out)
}

/// The 2^`log_q` values of 1 / z on the coset of [`on_coset`]: its value in row p, in bit-reversed order, is entry
/// `p >> log_n`.
///
/// # Panics
///
/// If the field has no such coset: `log_n + log_q` must be at most its two-adicity, as [`on_coset`] checks.
pub fn inverse_vanishing<F: Field>(log_n: u32, log_q: u32) -> Vec<F> {
    assert!(log_n + log_q <= F::TWO_ADICITY, "{} has no coset of 2^{} points", F::NAME, log_n + log_q);
    let (shift, powers) = (F::GENERATOR.pow(1 << log_n), ReversedPowers::<F>::new());
    let inverse = |j| (shift * powers.at(j) - F::ONE).inverse().expect("the coset and the subgroup are disjoint");
    (0..1 << log_q).map(inverse).collect()
}

/// The selectors of 2^`log_n` rows on the rows themselves, in natural order, as three columns of ones and zeros:
/// first row, last row, transition.
pub fn on_trace<F: Field>(stream: &Stream, log_n: u32) -> Result<Matrix<F>> {
    check_domain::<F>("selectors::on_trace", log_n)?;
    let rows = 1usize << log_n;
    let mut out = Matrix::alloc(stream, rows, 3)?;
    let kernels = Selectors::<F>::kernels(stream.device(), ())?;
    kernels[ON_TRACE].launch(stream, Shape::cover(rows, THREADS)?, (out.values_mut(), rows as u64))?;
    Ok(out)
}

/// [`on_block`] with the block's own points. The device keeps those of short blocks, which all proofs of a size read.
pub fn kept_on_block<F: Field + Element<Base = F>>(
    stream: &Stream,
    block: Block,
    log_n: u32,
) -> Result<Arc<Matrix<F>>> {
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct OnBlock(Block, u32);
    check_domain::<F>("selectors::on_coset", block.log_rows)?;
    kept(stream, OnBlock(block, log_n), block.rows(), || {
        on_block(stream, kept_points(stream, block)?.view(), block, log_n)
    })
}

/// [`on_trace`]. The device keeps those of short traces, which all proofs of a size read.
pub fn kept_on_trace<F: Field>(stream: &Stream, log_n: u32) -> Result<Arc<Matrix<F>>> {
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct OnTrace(u32);
    check_domain::<F>("selectors::on_trace", log_n)?;
    kept(stream, OnTrace(log_n), 1 << log_n, || on_trace(stream, log_n))
}

/// The last point of the subgroup of order 2^`log_n`, the inverse of its generator.
fn last_point<F: Field>(log_n: u32) -> F {
    F::two_adic_generator(log_n).inverse().expect("a root of unity is not zero")
}

/// Threads per block.
const THREADS: u32 = 256;

pub(crate) struct Selectors<F>(PhantomData<F>);

/// The kernels, in the order in which they are compiled.
const ON_COSET: usize = 0;
const ON_TRACE: usize = 1;

impl<F: Field> Operation for Selectors<F> {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "domain/selectors.cu",
        text: include_str!("selectors.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64), ("ROOT_ORDERS", ORDERS as u64)],
    };

    fn instances((): ()) -> Instances {
        Instances::new([format!("coset_selectors<{}>", F::NAME), format!("trace_selectors<{}>", F::NAME)])
            .takes::<ReversedPowers<F>>()
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}
