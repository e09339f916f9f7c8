//! Randomness in the polynomials that a hiding proof commits to, as in Plonky3's `HidingFriPcs`.
//!
//! - [`interleave`]: a trace of n rows and w columns becomes one of 2 n rows and w + k columns: every second row and
//!   the last k columns are random
//! - [`add_multiple`]: adds a multiple of a mask to columns on a coset, by another factor for each block of rows: the
//!   multiple of a vanishing polynomial, which is constant on such a block in bit-reversed order
//!
//! Each reads and writes each value once.

use std::marker::PhantomData;
use std::ops::Range;

use rigel_gpu::{Error, Result, Shape, Stream, View};

use crate::code::{Instances, KernelFile, Operation};
use crate::field::Field;
use crate::layout::columns::Columns;
use crate::layout::grid::column_batches;
use crate::layout::matrix::Matrix;

/// Columns `columns` of a trace whose rows alternate with random ones, followed by `codewords` random columns.
///
/// `masks` has as many rows as the trace, and `codewords` columns more than the result: row i of them has the random
/// columns of row 2 i of the result, then row 2 i + 1.
pub fn interleave<F: Field>(
    stream: &Stream,
    trace: Columns<'_, F>,
    masks: Columns<'_, F>,
    codewords: usize,
    columns: Range<usize>,
) -> Result<Matrix<F>> {
    const NAME: &str = "mask::interleave";
    let (rows, width) = (trace.rows(), trace.columns());
    if masks.rows() != rows || masks.columns() != width + 2 * codewords || columns.end > width + codewords {
        return Err(Error::shape(
            NAME,
            format!(
                "columns {columns:?} of a trace of {rows} rows and {width} columns with {codewords} random ones, and \
                 {} columns of {} random rows",
                masks.columns(),
                masks.rows()
            ),
        ));
    }
    let mut out = Matrix::alloc(stream, 2 * rows, columns.len())?;
    for batch in column_batches(columns.len()) {
        let first = columns.start + batch.start;
        let shape = Shape::cover(rows, THREADS)?.rows(batch.len() as u32);
        let to = out.column_range_mut(batch.start, batch.end)?;
        let sizes = (rows as u64, first as u32, width as u32, codewords as u32);
        Mask::<F>::kernels(stream.device(), ())?[INTERLEAVE].launch(
            stream,
            shape,
            (to, trace.values(), masks.values(), sizes.0, sizes.1, sizes.2, sizes.3),
        )?;
    }
    Ok(out)
}

/// `values[c][r] += factors[r / block] mask[c][r]`, with as many blocks of rows as factors.
pub fn add_multiple<F: Field>(
    stream: &Stream,
    values: &mut Matrix<F>,
    mask: &Matrix<F>,
    factors: View<'_, F>,
) -> Result<()> {
    let (rows, columns) = (values.rows(), values.columns());
    let fits = (rows, columns) == (mask.rows(), mask.columns());
    if !fits || !rows.is_power_of_two() || !factors.len().is_power_of_two() || factors.len() > rows {
        let detail = format!(
            "{rows} rows and {columns} columns, a mask of {} rows and {} columns, and {} factors",
            mask.rows(),
            mask.columns(),
            factors.len()
        );
        return Err(Error::shape("mask::add_multiple", detail));
    }
    let log_block = (rows / factors.len()).trailing_zeros();
    for batch in column_batches(columns) {
        let shape = Shape::cover(rows, THREADS)?.rows(batch.len() as u32);
        let mask = mask.column_range(batch.start, batch.end)?;
        let values = values.column_range_mut(batch.start, batch.end)?;
        Mask::<F>::kernels(stream.device(), ())?[ADD_MULTIPLE].launch(
            stream,
            shape,
            (values, mask, factors, rows as u64, log_block),
        )?;
    }
    Ok(())
}

/// Threads per block.
const THREADS: u32 = 256;

const INTERLEAVE: usize = 0;
const ADD_MULTIPLE: usize = 1;

pub(crate) struct Mask<F>(PhantomData<F>);

impl<F: Field> Operation for Mask<F> {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "commit/mask.cu",
        text: include_str!("mask.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64)],
    };

    fn instances((): ()) -> Instances {
        Instances::new([format!("interleave<{}>", F::NAME), format!("add_multiple<{}>", F::NAME)])
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}
