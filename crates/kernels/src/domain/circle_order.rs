//! Reordering of values on circle domains.
//!
//! - [`centred_prefix_sums`]: inclusive prefix sums in coset order of columns minus their means, stored in the domain's
//!   bit-reversed order
//! - [`pack_leaves`]: the columns of rows of four adjacent values
//! - [`neighbours_into`]: the neighbours of a block of rows, from the blocks that have them
//!
//! A circle domain of n points has the even points of a coset, followed by the odd points from the last to the first.
//! Prefix sums take a pass for the means and three more launches: reorder to coset order, scan, reorder back; each
//! reads and writes each value once. The two that reorder have scattered reads, at 32 bytes of cache traffic per value.

use rigel_gpu::{Buffer, Error, Result, Shape, Stream, View, ViewMut};

use crate::code::{Instances, KernelFile, Operation};
use crate::field::{Mersenne31 as M31, QM31, Ring};
use crate::layout::columns::Columns;
use crate::layout::grid::column_batches;
use crate::layout::matrix::{Matrix, log2_rows};
use crate::layout::slab::slab_length;
use crate::vector::reduce;
use crate::vector::scan::{self, Bound};

/// Subtracts from each column of `rows` values its mean, and replaces the values by their inclusive prefix sums in
/// coset order: Stwo's `inclusive_prefix_sum`. They are stored in the domain's bit-reversed order before and after.
/// There are from 2 to 2^30 rows. Returns the sum of each column as it was.
///
/// So the last sum of each column is zero, as a LogUp argument requires of its last column.
pub fn centred_prefix_sums(stream: &Stream, mut values: ViewMut<'_, M31>, rows: usize) -> Result<Buffer<M31>> {
    const NAME: &str = "circle_order::centred_prefix_sums";
    let columns = Columns::new(values.view(), rows)?.columns();
    let log_rows = log2_rows(NAME, rows)?;
    if !(1..=30).contains(&log_rows) || columns == 0 {
        return Err(Error::shape(
            NAME,
            format!("{columns} columns of {rows} rows; there must be at least one column, of 2 to 2^30 rows"),
        ));
    }
    let kernels = CircleOrder::kernels(stream.device(), ())?;
    let totals = reduce::sums(stream, Columns::new(values.view(), rows)?)?;
    let inverse_rows = M31::new(rows as u32).inverse().expect("rows are fewer than 2^31 - 1");
    let mut sums = Matrix::<M31>::alloc(stream, rows, columns)?;
    let parts = || column_batches(columns).map(|batch| (batch.clone(), batch.start * rows..batch.end * rows));
    let shape = |columns: usize| Ok(Shape::cover(rows, THREADS)?.rows(columns as u32));
    for (batch, part) in parts() {
        let (to, from) = (sums.values_mut().range_mut(part.clone())?, values.view().range(part)?);
        let arguments = (to, from, totals.range(batch.clone())?, inverse_rows, log_rows);
        kernels[CENTRE].launch(stream, shape(batch.len())?, arguments)?;
    }
    scan::prefix_sums_assign(stream, &mut sums, Bound::Inclusive)?;
    for (batch, part) in parts() {
        let arguments = (values.reborrow().range(part.clone())?, sums.values().range(part)?, log_rows);
        kernels[TO_DOMAIN].launch(stream, shape(batch.len())?, arguments)?;
    }
    Ok(totals)
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

/// The rows a number of steps further on a trace's coset from those of a block of `rows` rows of a circle domain, for
/// columns of which `even` is the block that has them for even rows, and `odd` for odd rows: `steps[0]` points further
/// on the half coset of the block `even`, and `steps[1]` on that of `odd`, modulo their number. A block has at least 4
/// rows, in bit-reversed order.
///
/// One launch, which reads and writes each value once, with scattered reads.
pub fn neighbours_into(
    stream: &Stream,
    mut to: ViewMut<'_, M31>,
    even: View<'_, M31>,
    odd: View<'_, M31>,
    rows: usize,
    steps: [i64; 2],
) -> Result<()> {
    const NAME: &str = "circle_order::neighbours_into";
    let columns = Columns::new(even, rows)?.columns();
    let log_rows = log2_rows(NAME, rows)?;
    if !(2..=30).contains(&log_rows) || odd.len() != even.len() || to.len() != even.len() {
        return Err(Error::shape(
            NAME,
            format!(
                "{} and {} values to {} in blocks of {rows} rows; there must be as many of each, and 4 to 2^30 rows",
                even.len(),
                odd.len(),
                to.len()
            ),
        ));
    }
    let kernels = CircleOrder::kernels(stream.device(), ())?;
    let [up, down] = steps.map(|steps| steps.rem_euclid(rows as i64 / 2) as u32);
    for batch in column_batches(columns) {
        let part = batch.start * rows..batch.end * rows;
        let shape = Shape::cover(rows, THREADS)?.rows(batch.len() as u32);
        let (even, odd) = (even.range(part.clone())?, odd.range(part.clone())?);
        let arguments = (to.reborrow().range(part)?, even, odd, log_rows, up, down);
        kernels[NEIGHBOURS].launch(stream, shape, arguments)?;
    }
    Ok(())
}

/// Threads per block.
const THREADS: u32 = 256;

pub(crate) struct CircleOrder;

/// The kernels, in the order in which they are compiled.
const CENTRE: usize = 0;
const TO_DOMAIN: usize = 1;
const PACK: usize = 2;
const NEIGHBOURS: usize = 3;

impl Operation for CircleOrder {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "domain/circle_order.cu",
        text: include_str!("circle_order.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64)],
    };

    fn instances((): ()) -> Instances {
        Instances::new(["centre", "to_domain", "pack_quads", "neighbours"])
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}
