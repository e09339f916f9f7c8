//! Polynomials modulo `x^m - y`: what is needed of one to evaluate it on a coset of m points, fewer than it has
//! coefficients.
//!
//! Block k of the K blocks of a domain, m rows each, is the coset `s_k H`, `|H| = m`, on which `x^m` is
//! `y_k = s_k^m = g^m P(k)` (see [`crate::domain::block`]). So with coefficients c of a polynomial of n = 2^p m of
//! them,
//!
//! ```text
//! r_k[i] = sum_j c[i + j m] y_k^j,     i < m, j < 2^p
//! ```
//!
//! has the same values on it. Each coefficient is read once, each of the K m results written once, at 2^p products.

use std::marker::PhantomData;

use rigel_gpu::{Buffer, Error, Result, Shape, Stream};

use crate::code::{Instances, KernelFile, Operation};
use crate::domain::roots::{ORDERS, ReversedPowers};
use crate::layout::columns::Columns;
use crate::layout::grid::column_batches;
use crate::layout::matrix::log2_rows;
use crate::transform::ntt::TwoAdic;

/// The residues of the columns' polynomials for each of the `blocks` blocks of 2^`log_rows` rows of the coset
/// `GENERATOR K`: those of all columns for the first block, then for the next.
pub fn residues<F: TwoAdic>(
    stream: &Stream,
    coefficients: Columns<'_, F>,
    log_rows: u32,
    blocks: usize,
) -> Result<Buffer<F>> {
    const NAME: &str = "residues";
    let log_parts = log2_rows(NAME, coefficients.rows())?.checked_sub(log_rows);
    let Some(log_parts) = log_parts.filter(|parts| (1..=MOST_LOG_PARTS).contains(parts)) else {
        let detail = format!(
            "{} coefficients modulo polynomials of degree 2^{log_rows}; there must be from 2 to 2^{MOST_LOG_PARTS} \
             times as many",
            coefficients.rows()
        );
        return Err(Error::shape(NAME, detail));
    };
    let (m, columns) = (1usize << log_rows, coefficients.columns());
    if columns > column_batches(columns).next().map_or(0, |batch| batch.len()) {
        return Err(Error::shape(NAME, format!("{columns} columns exceed the limit of a launch; split them")));
    }
    let mut out = stream.alloc(m * columns * blocks)?;
    if out.is_empty() {
        return Ok(out);
    }
    let shift = F::GENERATOR.pow(m as u64);
    let shape = Shape::cover(m, THREADS)?.rows(columns as u32);
    let arguments = (&mut out, coefficients.values(), m as u64, blocks as u32, shift, ReversedPowers::<F>::new());
    Residues::<F>::kernel(stream.device(), log_parts)?.launch(stream, shape, arguments)?;
    Ok(out)
}

/// Threads per block, and the most coefficients that a thread holds, as a logarithm.
const THREADS: u32 = 256;
const MOST_LOG_PARTS: u32 = 5;

/// One module for each number of coefficients that a result is made of.
pub(crate) struct Residues<F>(PhantomData<F>);

impl<F: TwoAdic> Operation for Residues<F> {
    type Variant = u32;

    const FILE: KernelFile = KernelFile {
        path: "transform/residues.cu",
        text: include_str!("residues.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64), ("ROOT_ORDERS", ORDERS as u64)],
    };

    fn instances(log_parts: u32) -> Instances {
        Instances::one(format!("residues<{}, {log_parts}>", F::NAME)).takes::<ReversedPowers<F>>()
    }

    fn warmed() -> Vec<u32> {
        Vec::new()
    }

    fn on_demand() -> Vec<u32> {
        (1..=MOST_LOG_PARTS).collect()
    }
}
