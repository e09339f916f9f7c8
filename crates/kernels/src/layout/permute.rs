//! Operations that only move values: transposes, bit reversal, row gathers. For any plain type of four or eight bytes.
//!
//! - [`to_columns`], [`to_rows`]: between row-major buffers and (column-major) matrices
//! - [`bit_reverse`]: `out[rev(r)][c] = m[r][c]`, rev reversing the bits of a row index; rows are a power of two
//! - [`gather_rows`]: row k of the result, row-major, is row `indices[k]` of the matrix
//! - [`gather_columns_into`]: the same, column-major
//! - [`take_columns`]: the first rows of some columns
//! - [`join_rows`]: whole columns from blocks of rows
//!
//! Each reads and writes each value once, through tiles in shared memory where rows and columns are exchanged, so that
//! reads and writes are runs of at least 256 bytes (fewer where the matrix itself is smaller). Only the rows of a
//! gather are read value by value, at 32 bytes of memory traffic each.

use std::marker::PhantomData;
use std::ops::Range;

use rigel_gpu::{Buffer, Device, Error, Kernel, Plain, Result, Shape, Stream, View, ViewMut};

use crate::code::{Instances, KernelFile, Operation};
use crate::layout::grid::column_batches;
use crate::layout::matrix::{Matrix, log2_rows};

/// The matrix of a row-major buffer.
pub fn to_columns<'a, T: Plain>(
    stream: &Stream,
    row_major: impl Into<View<'a, T>>,
    columns: usize,
) -> Result<Matrix<T>> {
    let row_major = row_major.into();
    let len = row_major.len();
    if columns == 0 || len == 0 || !len.is_multiple_of(columns) {
        return Err(Error::shape(
            "permute::to_columns",
            format!("{len} values; the number must be a positive multiple of the {columns} columns of a row"),
        ));
    }
    let rows = len / columns;
    let mut out = Matrix::alloc(stream, rows, columns)?;
    transpose(stream, out.values_mut().view_mut(), row_major, rows, columns)?;
    Ok(out)
}

/// The values of a matrix, row after row.
pub fn to_rows<T: Plain>(stream: &Stream, matrix: &Matrix<T>) -> Result<Buffer<T>> {
    check("permute::to_rows", matrix.values().view(), matrix.rows())?;
    let mut out = stream.alloc(matrix.values().len())?;
    transpose(stream, out.view_mut(), matrix.values().view(), matrix.columns(), matrix.rows())?;
    Ok(out)
}

/// The matrix with row r at row rev(r).
pub fn bit_reverse<T: Plain>(stream: &Stream, matrix: &Matrix<T>) -> Result<Matrix<T>> {
    check("permute::bit_reverse", matrix.values().view(), matrix.rows())?;
    log2_rows("permute::bit_reverse", matrix.rows())?;
    let mut out = Matrix::alloc(stream, matrix.rows(), matrix.columns())?;
    bit_reverse_into(stream, out.values_mut().view_mut(), matrix)?;
    Ok(out)
}

/// Permutes as [`bit_reverse`] does, into an existing buffer. A matrix without columns needs no launch.
pub fn bit_reverse_into<T: Plain>(stream: &Stream, mut out: ViewMut<'_, T>, from: &Matrix<T>) -> Result<()> {
    let (rows, columns) = (from.rows(), from.columns());
    let log_rows = log2_rows("permute::bit_reverse_into", rows)?;
    if out.len() != rows * columns {
        return Err(Error::shape(
            "permute::bit_reverse_into",
            format!("the output has {} values, the matrix {}; they must be equal", out.len(), rows * columns),
        ));
    }
    if log_rows > 31 {
        return Err(Error::shape(
            "permute::bit_reverse_into",
            format!("2^{log_rows} rows; at most 2^31 are supported"),
        ));
    }
    if columns == 0 {
        return Ok(());
    }
    let side = square_bits::<T>();
    if log_rows < 2 * side {
        let shape = Shape::cover(out.len(), THREADS)?;
        let words = out.len() as u64;
        let kernel = kernel::<T>(stream.device(), Move::BitReverseShort)?;
        return kernel.launch(stream, shape, (out, from.values(), words, log_rows));
    }
    let squares = 1u32 << (log_rows - 2 * side);
    let kernel = kernel::<T>(stream.device(), Move::BitReverse)?;
    for batch in column_batches(columns) {
        let part = batch.start * rows..batch.end * rows;
        let shape = Shape::new(squares, THREADS).rows(batch.len() as u32);
        let (to, from) = (out.reborrow().range(part.clone())?, from.values().range(part)?);
        kernel.launch(stream, shape, (to, from, log_rows))?;
    }
    Ok(())
}

/// The rows with these indices, one after another. An index out of range gives zeros; [`gather_rows_at`] checks the
/// indices.
pub fn gather_rows<T: Plain>(stream: &Stream, matrix: &Matrix<T>, indices: &Buffer<u32>) -> Result<Buffer<T>> {
    let mut out = stream.alloc::<T>(indices.len() * matrix.columns())?;
    gather_rows_into(stream, out.view_mut(), matrix.values().view(), matrix.rows(), indices.view())?;
    Ok(out)
}

/// [`gather_rows`] of columns of `rows` values, one after another in memory, into `out`, which has room for exactly
/// these rows.
pub fn gather_rows_into<T: Plain>(
    stream: &Stream,
    mut out: ViewMut<'_, T>,
    values: View<'_, T>,
    rows: usize,
    indices: View<'_, u32>,
) -> Result<()> {
    let columns = check("permute::gather_rows", values, rows)?;
    if out.len() != indices.len() * columns {
        return Err(Error::shape(
            "permute::gather_rows",
            format!("{} rows of {columns} values into room for {}", indices.len(), out.len()),
        ));
    }
    let kernel = kernel::<T>(stream.device(), Move::GatherRows)?;
    for Range { start, end } in column_batches(indices.len()) {
        let shape = Shape::cover(columns, THREADS)?.rows((end - start) as u32);
        let to = out.reborrow().range(start * columns..end * columns)?;
        let indices = indices.range(start..end)?;
        kernel.launch(stream, shape, (to, values, indices, rows as u64, columns as u64))?;
    }
    Ok(())
}

/// The values with these indices of each column of `rows` values, column after column, into `out`, which has room for
/// exactly these values. The columns are one after another in memory. An index out of range gives a zero.
pub fn gather_columns_into<T: Plain>(
    stream: &Stream,
    out: ViewMut<'_, T>,
    values: View<'_, T>,
    rows: usize,
    indices: View<'_, u32>,
) -> Result<()> {
    const NAME: &str = "permute::gather_columns";
    let columns = check(NAME, values, rows)?;
    let total = out.len();
    if total != indices.len() * columns {
        return Err(Error::shape(
            NAME,
            format!("{} rows of {columns} values into room for {total}", indices.len()),
        ));
    }
    let Ok(count) = u32::try_from(indices.len()) else {
        return Err(Error::shape(NAME, format!("{} rows; at most 2^32 - 1 are supported", indices.len())));
    };
    if total == 0 {
        return Ok(());
    }
    let shape = Shape::cover(total, THREADS)?;
    let arguments = (out, values, indices, rows as u64, count, total as u64);
    kernel::<T>(stream.device(), Move::GatherColumns)?.launch(stream, shape, arguments)
}

/// The rows with these indices, one after another, after checking that all exist.
pub fn gather_rows_at<T: Plain>(stream: &Stream, matrix: &Matrix<T>, indices: &[u32]) -> Result<Buffer<T>> {
    let mut out = stream.alloc::<T>(indices.len() * matrix.columns())?;
    gather_rows_at_into(stream, out.view_mut(), matrix.values().view(), matrix.rows(), indices)?;
    Ok(out)
}

/// [`gather_rows_at`] of columns of `rows` values, one after another in memory, into `out`, which has room for exactly
/// these rows.
pub fn gather_rows_at_into<T: Plain>(
    stream: &Stream,
    out: ViewMut<'_, T>,
    values: View<'_, T>,
    rows: usize,
    indices: &[u32],
) -> Result<()> {
    check("permute::gather_rows_at", values, rows)?;
    if let Some(index) = indices.iter().find(|&&index| index as usize >= rows) {
        return Err(Error::shape(
            "permute::gather_rows_at",
            format!("row {index} does not exist; the matrix has {rows} rows"),
        ));
    }
    gather_rows_into(stream, out, values, rows, stream.upload(indices)?.view())
}

/// The first `rows` rows of some columns, in the given order.
pub fn take_columns<T: Plain>(
    stream: &Stream,
    matrix: &Matrix<T>,
    columns: &[usize],
    rows: usize,
) -> Result<Matrix<T>> {
    if rows > matrix.rows() || columns.iter().any(|&column| column >= matrix.columns()) {
        return Err(Error::shape(
            "permute::take_columns",
            format!(
                "{rows} rows and columns up to {:?} of a matrix of {} rows and {} columns",
                columns.iter().max(),
                matrix.rows(),
                matrix.columns()
            ),
        ));
    }
    let mut out = Matrix::alloc(stream, rows, columns.len())?;
    let kernel = kernel::<T>(stream.device(), Move::TakeColumns)?;
    for batch in column_batches(columns.len()) {
        let chosen: Vec<u32> = columns[batch.clone()].iter().map(|&column| column as u32).collect();
        let shape = Shape::cover(rows, THREADS)?.rows(batch.len() as u32);
        let to = out.column_range_mut(batch.start, batch.end)?;
        let arguments = (to, matrix.values(), &stream.upload(&chosen)?, rows as u64, matrix.rows() as u64);
        kernel.launch(stream, shape, arguments)?;
    }
    Ok(out)
}

/// Some columns of a matrix in bit-reversed order, in the given order, with each row's successor in natural order in
/// its place; the first row succeeds the last.
pub fn take_next<T: Plain>(stream: &Stream, matrix: &Matrix<T>, columns: &[usize]) -> Result<Matrix<T>> {
    const NAME: &str = "permute::take_next";
    let (rows, log_rows) = (matrix.rows(), log2_rows(NAME, matrix.rows())?);
    if let Some(column) = columns.iter().find(|&&column| column >= matrix.columns()) {
        return Err(Error::shape(NAME, format!("column {column} of a matrix of {} columns", matrix.columns())));
    }
    let mut out = Matrix::alloc(stream, rows, columns.len())?;
    let kernel = kernel::<T>(stream.device(), Move::TakeNext)?;
    for batch in column_batches(columns.len()) {
        let chosen: Vec<u32> = columns[batch.clone()].iter().map(|&column| column as u32).collect();
        let shape = Shape::cover(rows, THREADS)?.rows(batch.len() as u32);
        let to = out.column_range_mut(batch.start, batch.end)?;
        kernel.launch(stream, shape, (to, matrix.values(), &stream.upload(&chosen)?, log_rows))?;
    }
    Ok(out)
}

/// Whole columns from blocks of their rows. The blocks come one after another, each of `columns` columns of `stride`
/// values, of which the first `rows` count, a power of two.
pub fn join_rows<T: Plain>(
    stream: &Stream,
    blocks: View<'_, T>,
    columns: usize,
    stride: usize,
    rows: usize,
) -> Result<Matrix<T>> {
    let count = whole_blocks(blocks.len(), columns, stride).unwrap_or(0);
    let mut out = Matrix::alloc(stream, count * rows.min(stride), columns)?;
    join_rows_into(stream, out.values_mut().view_mut(), blocks, (columns, 0..columns), stride, rows)?;
    Ok(out)
}

/// [`join_rows`] of some of the columns of each block, into `out`, which has room for exactly these.
pub fn join_rows_into<T: Plain>(
    stream: &Stream,
    mut out: ViewMut<'_, T>,
    blocks: View<'_, T>,
    (columns, chosen): (usize, Range<usize>),
    stride: usize,
    rows: usize,
) -> Result<()> {
    const NAME: &str = "permute::join_rows";
    let log_rows = log2_rows(NAME, rows)?;
    let Some(count) = whole_blocks(blocks.len(), columns, stride).filter(|_| rows <= stride) else {
        let detail = format!(
            "{} values; there must be whole blocks of {columns} columns of {stride} values, of which {rows} count",
            blocks.len()
        );
        return Err(Error::shape(NAME, detail));
    };
    let total = count * rows;
    if chosen.start > chosen.end || chosen.end > columns || out.len() != chosen.len() * total {
        let detail = format!("columns {chosen:?} of {columns} and {total} rows into room for {}", out.len());
        return Err(Error::shape(NAME, detail));
    }
    let kernel = kernel::<T>(stream.device(), Move::JoinRows)?;
    for batch in column_batches(chosen.len()) {
        let shape = Shape::cover(total, THREADS)?.rows(batch.len() as u32);
        let to = out.reborrow().range(batch.start * total..batch.end * total)?;
        let first = chosen.start + batch.start;
        let [total, columns, first, stride] = [total, columns, first, stride].map(|length| length as u64);
        kernel.launch(stream, shape, (to, blocks, total, columns, first, stride, log_rows))?;
    }
    Ok(())
}

/// The number of blocks of `columns` columns of `stride` values each, if `values` values are whole blocks.
fn whole_blocks(values: usize, columns: usize, stride: usize) -> Option<usize> {
    let block = columns.checked_mul(stride)?;
    let count = values.checked_div(block).unwrap_or(0);
    (count * block == values).then_some(count)
}

/// The number of columns of a matrix that is not empty.
fn check<T: Plain>(operation: &'static str, values: View<'_, T>, rows: usize) -> Result<usize> {
    let columns = values.len().checked_div(rows).unwrap_or(0);
    if columns == 0 || columns * rows != values.len() {
        let len = values.len();
        let detail = format!(
            "{len} values, {rows} rows and {columns} columns; there must be one column or more, all whole"
        );
        return Err(Error::shape(operation, detail));
    }
    Ok(columns)
}

/// `height` rows of `width` values become `width` rows of `height`.
fn transpose<T: Plain>(
    stream: &Stream,
    out: ViewMut<'_, T>,
    from: View<'_, T>,
    height: usize,
    width: usize,
) -> Result<()> {
    let (log_rows, log_columns) = tile::<T>(height, width);
    let blocks = height.div_ceil(1 << log_rows) * width.div_ceil(1 << log_columns);
    let shape = Shape::cover(blocks, 1)?;
    kernel::<T>(stream.device(), Move::Transpose)?.launch(
        stream,
        Shape::new(shape.blocks[0], THREADS),
        (out, from, height as u64, width as u64, log_rows, log_columns),
    )
}

/// Threads per block.
const THREADS: u32 = 256;

/// The logarithms of a tile's rows and columns: 16 KiB, square or nearly so, but no wider or higher than the matrix.
/// The minimum is two of either.
fn tile<T>(height: usize, width: usize) -> (u32, u32) {
    let bits = if size_of::<T>() == 4 { 12 } else { 11 };
    let needed = |n: usize| n.next_power_of_two().trailing_zeros().max(1);
    let columns =
        if needed(height) < bits - bits / 2 { bits - needed(height) } else { needed(width).min(bits / 2) };
    (bits - columns, columns)
}

/// The number of index bits per side of the square that bit reversal moves at a time.
fn square_bits<T>() -> u32 {
    if size_of::<T>() == 4 { 6 } else { 5 }
}

/// The kernels for values of one size, in the order in which they are compiled.
#[derive(Clone, Copy)]
enum Move {
    Transpose,
    BitReverse,
    BitReverseShort,
    GatherRows,
    GatherColumns,
    TakeColumns,
    TakeNext,
    JoinRows,
}

/// The kernel for values of this type's size.
fn kernel<T: Plain>(device: &Device, moves: Move) -> Result<Kernel> {
    let kernels = match size_of::<T>() {
        4 => Permute::<u32>::kernels(device, ())?,
        8 => Permute::<u64>::kernels(device, ())?,
        bytes => return Err(Error::shape("permute", format!("values of {bytes} bytes; supported are 4 and 8"))),
    };
    Ok(kernels[moves as usize].clone())
}

/// Word types, by their C++ names.
pub(crate) trait Word: Plain {
    const NAME: &'static str;
}

impl Word for u32 {
    const NAME: &'static str = "u32";
}

impl Word for u64 {
    const NAME: &'static str = "u64";
}

pub(crate) struct Permute<W>(PhantomData<W>);

impl<W: Word> Operation for Permute<W> {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "layout/permute.cu",
        text: include_str!("permute.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64)],
    };

    fn instances((): ()) -> Instances {
        let word = W::NAME;
        Instances::new([
            format!("transpose<{word}>"),
            format!("bit_reverse<{word}, {}>", square_bits::<W>()),
            format!("bit_reverse_short<{word}>"),
            format!("gather_rows<{word}>"),
            format!("gather_columns<{word}>"),
            format!("take_columns<{word}>"),
            format!("take_next<{word}>"),
            format!("join_rows<{word}>"),
        ])
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_fit_the_matrix() {
        assert_eq!(tile::<u32>(1 << 18, 2_633), (6, 6));
        assert_eq!(tile::<u64>(1 << 18, 2_633), (6, 5));
        assert_eq!(tile::<u32>(1 << 18, 4), (10, 2));
        assert_eq!(tile::<u32>(4, 1 << 18), (2, 10));
        assert_eq!(tile::<u32>(1, 1), (1, 11));
        for (height, width) in [(1, 1), (1, 9_999), (9_999, 1), (3, 5), (40, 40), (1 << 20, 33)] {
            for (rows, columns, bits) in [
                (tile::<u32>(height, width).0, tile::<u32>(height, width).1, 12),
                (tile::<u64>(height, width).0, tile::<u64>(height, width).1, 11),
            ] {
                assert!(
                    rows + columns == bits && rows >= 1 && columns >= 1,
                    "{height} x {width}: {rows} {columns}"
                );
            }
        }
    }
}
