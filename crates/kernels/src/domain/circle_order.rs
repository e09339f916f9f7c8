//! Reordering of values on circle domains.
//!
//! - [`prefix_sums`]: inclusive prefix sums in coset order, of columns stored in the domain's bit-reversed order
//! - [`pack_leaves`]: the columns of rows of four adjacent values
//!
//! A circle domain of n points has the even points of a coset, followed by the odd points from the last to the first.
//! Prefix sums take three launches: reorder to coset order, scan, reorder back; each reads and writes each value once.
//! The two that reorder have scattered reads, at 32 bytes of cache traffic per value.

use rigel_gpu::{Error, Result, Shape, Stream, View};

use crate::code::{Instances, KernelFile, Operation};
use crate::field::{Mersenne31 as M31, QM31};
use crate::layout::columns::Columns;
use crate::layout::grid::column_batches;
use crate::layout::matrix::{Matrix, log2_rows};
use crate::layout::slab::slab_length;
use crate::vector::scan::{self, Bound};

/// The inclusive prefix sums, in coset order, of each column of `rows` values, stored in the domain's bit-reversed
/// order before and after: Stwo's `inclusive_prefix_sum`. There are from 2 to 2^30 rows.
pub fn prefix_sums(stream: &Stream, values: View<'_, M31>, rows: usize) -> Result<Matrix<M31>> {
    const NAME: &str = "circle_order::prefix_sums";
    let columns = Columns::new(values, rows)?.columns();
    let log_rows = log2_rows(NAME, rows)?;
    if !(1..=30).contains(&log_rows) || columns == 0 {
        return Err(Error::shape(
            NAME,
            format!("{columns} columns of {rows} rows; there must be at least one column, of 2 to 2^30 rows"),
        ));
    }
    let kernels = CircleOrder::kernels(stream.device(), ())?;
    let reorder = |kernel: usize, from: View<'_, M31>| -> Result<Matrix<M31>> {
        let mut out = Matrix::alloc(stream, rows, columns)?;
        for batch in column_batches(columns) {
            let part = batch.start * rows..batch.end * rows;
            let shape = Shape::cover(rows, THREADS)?.rows(batch.len() as u32);
            let arguments = (out.values_mut().range_mut(part.clone())?, from.range(part)?, log_rows);
            kernels[kernel].launch(stream, shape, arguments)?;
        }
        Ok(out)
    };
    let mut sums = reorder(TO_COSET, values)?;
    scan::prefix_sums_assign(stream, &mut sums, Bound::Inclusive)?;
    reorder(TO_DOMAIN, sums.values().view())
}

/// The 16 columns whose rows are groups of four adjacent values of a slab of n, n a multiple of 4: coordinate d of
/// value `4 r + k` is in row r of column `4 k + d`. This is Stwo's `pack_leaves_input`.
pub fn pack_leaves(stream: &Stream, values: View<'_, M31>) -> Result<Matrix<M31>> {
    const NAME: &str = "circle_order::pack_leaves";
    let n = slab_length::<QM31>(NAME, values)?;
    if !n.is_multiple_of(4) {
        return Err(Error::shape(NAME, format!("{n} values; the number must be a multiple of 4")));
    }
    let mut out = Matrix::alloc(stream, n / 4, 16)?;
    let kernels = CircleOrder::kernels(stream.device(), ())?;
    kernels[PACK].launch(stream, Shape::cover(n / 4, THREADS)?, (out.values_mut(), values, n as u64))?;
    Ok(out)
}

/// Threads per block.
const THREADS: u32 = 256;

pub(crate) struct CircleOrder;

/// The kernels, in the order in which they are compiled.
const TO_COSET: usize = 0;
const TO_DOMAIN: usize = 1;
const PACK: usize = 2;

impl Operation for CircleOrder {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "domain/circle_order.cu",
        text: include_str!("circle_order.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64)],
    };

    fn instances((): ()) -> Instances {
        Instances::new(["reorder<true>", "reorder<false>", "pack_quads"])
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}
