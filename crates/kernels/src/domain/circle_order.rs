//! Values on circle domains, rearranged.
//!
//! - [`prefix_sums`]: inclusive prefix sums in the order of the coset, of columns in the domain's bit-reversed
//!   order
//! - [`pack_leaves`]: the columns of rows of four neighbouring values
//!
//! A circle domain of n points has the even points of a coset, and then the odd ones, from the last to the first.
//! Prefix sums take three launches: to the coset's order, the sums, and back, each of which reads and writes each
//! value once. The two that rearrange read values one by one, at 32 bytes of cache each.

use rigel_gpu::{Device, Error, Kernel, Result, Shape, Stream, View};

use crate::code::source;
use crate::field::{Mersenne31 as M31, QM31};
use crate::layout::columns::Columns;
use crate::layout::grid::column_batches;
use crate::layout::matrix::{Matrix, log2_rows};
use crate::layout::slab::slab_length;
use crate::vector::scan::{self, Bound};

/// The inclusive prefix sums, in the coset's order, of each column of `rows` values, which come and go in the
/// domain's bit-reversed order: Stwo's `inclusive_prefix_sum`. There are from 2 to 2^30 rows.
pub fn prefix_sums(stream: &Stream, values: View<'_, M31>, rows: usize) -> Result<Matrix<M31>> {
    const NAME: &str = "circle_order::prefix_sums";
    let columns = Columns::new(values, rows)?.columns();
    let log_rows = log2_rows(NAME, rows)?;
    if !(1..=30).contains(&log_rows) || columns == 0 {
        return Err(Error::shape(
            NAME,
            format!("{columns} columns of {rows} rows; there must be one or more of 2 to 2^30"),
        ));
    }
    let program = stream.device().program(Program::new)?;
    let reorder = |kernel: &Kernel, from: View<'_, M31>| -> Result<Matrix<M31>> {
        let out = Matrix::alloc(stream, rows, columns)?;
        for batch in column_batches(columns) {
            let part = batch.start * rows..batch.end * rows;
            let shape = Shape::cover(rows, THREADS)?.rows(batch.len() as u32);
            kernel.launch(stream, shape, (out.values().range(part.clone())?, from.range(part)?, log_rows))?;
        }
        Ok(out)
    };
    let mut sums = reorder(&program.to_coset, values)?;
    scan::prefix_sums_assign(stream, &mut sums, Bound::Inclusive)?;
    reorder(&program.to_domain, sums.values().view())
}

/// The 16 columns of the rows of four neighbouring values of a slab of n, n a multiple of 4: coordinate d of value
/// `4 r + k` in row r of column `4 k + d`. It is Stwo's `pack_leaves_input`.
pub fn pack_leaves(stream: &Stream, values: View<'_, M31>) -> Result<Matrix<M31>> {
    const NAME: &str = "circle_order::pack_leaves";
    let n = slab_length::<QM31>(NAME, values)?;
    if !n.is_multiple_of(4) {
        return Err(Error::shape(NAME, format!("{n} values; the number must be a multiple of 4")));
    }
    let out = Matrix::alloc(stream, n / 4, 16)?;
    let program = stream.device().program(Program::new)?;
    program.pack.launch(stream, Shape::cover(n / 4, THREADS)?, (out.values(), values, n as u64))?;
    Ok(out)
}

/// Threads of a block, as in `circle_order.cu`.
const THREADS: u32 = 256;

/// Compiles what the operations need, but for the sums.
pub(crate) fn warm(device: &Device) -> Result<()> {
    device.program(Program::new).map(|_| ())
}

struct Program {
    to_coset: Kernel,
    to_domain: Kernel,
    pack: Kernel,
}

impl Program {
    fn new(device: &Device) -> Result<Self> {
        let (to_coset, to_domain) = ("reorder<true>", "reorder<false>");
        let text = source("circle_order.cu", include_str!("circle_order.cu"));
        let module = device.compile(&text.kernel(to_coset).kernel(to_domain).kernel("pack_quads"))?;
        Ok(Self {
            to_coset: module.kernel(to_coset)?,
            to_domain: module.kernel(to_domain)?,
            pack: module.kernel("pack_quads")?,
        })
    }
}
