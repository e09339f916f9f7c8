//! Sums and dot products of the columns of a matrix m of n rows over a base field.
//!
//! - [`sums`]: `sum_r m[r][c]` for each column c
//! - [`dots`]: `sum_r w[r] m[r][c]` for each column c and weights w over the base field or an extension, as for
//!   barycentric evaluation
//!
//! [`evaluate`](crate::open::opening::evaluate) does the same for the first rows, with several slabs of weights.
//!
//! The matrix is read once, and the weights effectively once for every 32 columns. A warp takes a few columns of a part
//! of the rows, accumulates without reduction, and writes one partial result per column; a second, small launch adds
//! the parts. Results do not depend on timing.

use std::marker::PhantomData;

use rigel_gpu::{Buffer, Error, Result, Shape, Stream, View, ViewMut};

use crate::code::{Instances, KernelFile, Operation, parameters};
use crate::field::{Element, Field, Ring};
use crate::layout::columns::Columns;
use crate::layout::matrix::Matrix;

/// The sum of each column. (Over an extension, these are the coefficients of the sums of its slabs.)
pub fn sums<'a, F: Field + Element<Base = F>>(
    stream: &Stream,
    matrix: impl Into<Columns<'a, F>>,
) -> Result<Buffer<F>> {
    let matrix = matrix.into();
    let (rows, columns) = (matrix.rows(), matrix.columns());
    if rows == 0 || columns == 0 {
        let detail = format!("a matrix of {rows} rows and {columns} columns has no values");
        return Err(Error::shape("reduce::sums", detail));
    }
    let mut out = stream.alloc(columns)?;
    Reduce::<F, 0>::run(stream, out.view_mut(), matrix, rows, [None; MOST_SLABS], Layout::Slab)?;
    Ok(out)
}

/// The dot product of each column with `weights`, one slab with as many elements as the matrix has rows. The result is
/// also a slab: one row per column of the matrix.
pub fn dots<E: Element>(
    stream: &Stream,
    matrix: &Matrix<E::Base>,
    weights: &Matrix<E::Base>,
) -> Result<Matrix<E::Base>> {
    if matrix.rows() == 0 || matrix.columns() == 0 {
        let detail = format!("a matrix of {} rows and {} columns has no values", matrix.rows(), matrix.columns());
        return Err(Error::shape("reduce::dots", detail));
    }
    if (weights.rows(), weights.columns()) != (matrix.rows(), E::DEGREE) {
        return Err(Error::shape(
            "reduce::dots",
            format!(
                "weights of {} x {} for {} rows; over {} they must be {} x {}",
                weights.rows(),
                weights.columns(),
                matrix.rows(),
                E::NAME,
                matrix.rows(),
                E::DEGREE
            ),
        ));
    }
    let mut out = Matrix::alloc(stream, matrix.columns(), E::DEGREE)?;
    dots_into::<E>(stream, out.values_mut().view_mut(), matrix.into(), &[weights.values().view()], Layout::Slab)?;
    Ok(out)
}

/// The maximum number of slabs of weights per launch.
pub(crate) const MOST_SLABS: usize = 2;

/// The dot products of the first rows of each column with one or two slabs of weights of equal length, at most the
/// number of rows. The results of the second slab follow those of the first. The matrix, which must not be empty, is
/// read once.
pub(crate) fn dots_into<E: Element>(
    stream: &Stream,
    out: ViewMut<'_, E::Base>,
    matrix: Columns<'_, E::Base>,
    weights: &[View<'_, E::Base>],
    layout: Layout,
) -> Result<()> {
    let rows = weights[0].len() / E::DEGREE;
    let weights = [weights.first().copied(), weights.get(1).copied()];
    match weights[1] {
        None => Reduce::<E, 1>::run(stream, out, matrix, rows, weights, layout),
        Some(_) => Reduce::<E, 2>::run(stream, out, matrix, rows, weights, layout),
    }
}

/// The layout of the results of all columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// The results are a slab: coefficient d of column c at `d columns + c`.
    Slab,
    /// Element after element: at `c D + d`.
    Elements,
}

/// Threads and warps per block.
const THREADS: u32 = 256;
const WARPS: usize = 8;
/// Rows that a warp reads per step; parts are multiples of it.
const STEP: usize = 128;
/// The maximum number of parts per column: as many as one block of the second launch adds in 16 iterations.
const MOST_PARTS: usize = 4096;

/// Columns per warp: as many as leave registers for two blocks of accumulators.
const fn warp_columns<E: Element>(slabs: usize) -> usize {
    match (slabs, E::DEGREE, size_of::<E::Base>()) {
        (..2, ..) | (_, 1, _) => 4,
        (_, _, 4) => 3,
        _ => 2,
    }
}

parameters! {
    /// The split of a matrix into parts.
    #[derive(Debug)]
    struct Cut = "Cut" => {
        rows: u64,
        stride: u64,
        part_rows: u64,
        parts: u32,
        columns: u32,
        column_warps: u32,
        column_step: u32,
        coefficient_step: u32,
        padding: u32,
    }
}

impl Cut {
    /// Cuts a matrix into enough parts for every multiprocessor to hold 32 warps, eight times over if parts stay
    /// long enough to make the work at their end negligible. A warp takes `warp_columns` columns.
    fn new(rows: usize, columns: usize, warp_columns: usize, multiprocessors: usize) -> Self {
        let groups = columns.div_ceil(warp_columns);
        let full = multiprocessors * 32;
        let (long, short) = (rows.div_ceil(64 * STEP), rows.div_ceil(8 * STEP));
        let parts = long.max(short.min(full.div_ceil(groups))).clamp(1, MOST_PARTS);
        let part_rows = rows.div_ceil(parts).next_multiple_of(STEP);
        Self {
            rows: rows as u64,
            stride: rows as u64,
            part_rows: part_rows as u64,
            parts: rows.div_ceil(part_rows) as u32,
            columns: columns as u32,
            column_warps: groups.next_power_of_two().min(WARPS) as u32,
            column_step: 1,
            coefficient_step: columns as u32,
            padding: 0,
        }
    }

    fn shape(self, warp_columns: usize) -> Shape {
        let groups = self.columns.div_ceil(warp_columns as u32);
        let part_warps = WARPS as u32 / self.column_warps;
        Shape::new(groups.div_ceil(self.column_warps), THREADS).rows(self.parts.div_ceil(part_warps))
    }
}

/// Sums with this many slabs of weights; zero stands for plain sums.
pub(crate) struct Reduce<E, const SLABS: usize>(PhantomData<E>);

impl<E: Element, const SLABS: usize> Operation for Reduce<E, SLABS> {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "vector/reduce.cu",
        text: include_str!("reduce.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64), ("WARPS", WARPS as u64)],
    };

    /// Partial sums of columns, and the sum of the parts.
    fn instances((): ()) -> Instances {
        Instances::new([
            format!("column_parts<{}, {SLABS}, {}>", E::NAME, Self::COLUMNS),
            format!("sum_parts<{}>", E::Base::NAME),
        ])
        .takes::<Cut>()
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}

impl<E: Element, const SLABS: usize> Reduce<E, SLABS> {
    const COLUMNS: usize = warp_columns::<E>(SLABS);

    /// Sums over the first `rows` rows of each column, into a buffer for the results.
    fn run(
        stream: &Stream,
        out: ViewMut<'_, E::Base>,
        matrix: Columns<'_, E::Base>,
        rows: usize,
        weights: [Option<View<'_, E::Base>>; MOST_SLABS],
        layout: Layout,
    ) -> Result<()> {
        let columns = matrix.columns();
        let results = out.len();
        if u32::try_from(results).is_err() {
            return Err(Error::shape(
                "reduce",
                format!("{columns} columns exceed the limit of a launch; split the matrix"),
            ));
        }
        let multiprocessors = stream.device().properties().multiprocessors as usize;
        let mut cut =
            Cut { stride: matrix.rows() as u64, ..Cut::new(rows, columns, Self::COLUMNS, multiprocessors) };
        if layout == Layout::Elements {
            (cut.column_step, cut.coefficient_step) = (E::DEGREE as u32, 1);
        }
        let (shape, [first, second]) = (cut.shape(Self::COLUMNS), weights);
        let kernels = Self::kernels(stream.device(), ())?;
        let [column_parts, sum_parts] = [&kernels[0], &kernels[1]];
        if cut.parts == 1 {
            return column_parts.launch(stream, shape, (out, matrix.values(), first, second, cut));
        }
        let mut parts = stream.alloc::<E::Base>(results * cut.parts as usize)?;
        column_parts.launch(stream, shape, (&mut parts, matrix.values(), first, second, cut))?;
        let threads = cut.parts.next_power_of_two().clamp(32, THREADS);
        sum_parts.launch(stream, Shape::new(results as u32, threads), (out, &parts, cut.parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_rows() {
        for rows in [1, 127, 128, 129, 5_000, 1 << 18, (1 << 24) + 1] {
            for columns in [1, 3, 4, 5, 33, 2_633] {
                let cut = Cut::new(rows, columns, 4, 132);
                let (parts, part_rows) = (cut.parts as usize, cut.part_rows as usize);
                assert!(parts * part_rows >= rows && (parts - 1) * part_rows < rows, "{cut:?}");
                assert!(part_rows % STEP == 0 && parts <= MOST_PARTS, "{cut:?}");
            }
        }
    }

    #[test]
    fn one_column_fills_the_device() {
        let cut = Cut::new(1 << 24, 1, 4, 132);
        assert!(cut.parts >= 132 * 8);
        assert_eq!(Cut::new(100, 1, 4, 132).parts, 1);
    }
}
