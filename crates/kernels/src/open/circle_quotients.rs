//! The quotients to which Stwo applies FRI.
//!
//! A column f opened at p with the value v contributes `(c f(P) - a y - b) / line_p(P)` at the points P = (x, y) of a
//! domain: the line through p and its conjugate vanishes at both, and so does the numerator.
//!
//! - [`accumulate`], [`accumulate_points`]: `sum_k c_k f_k[r] - b`, the part of the numerators of one point, or of each
//!   of several, that depends on the columns
//! - [`combine`]: the sum over the points of these numerators, lifted to one domain, minus `a y`, divided by the line's
//!   values
//!
//! [`accumulate`] is memory-bound: it reads each column once. [`combine`] reads each numerator once and writes each
//! result once, for up to four points per launch; for each point, a value costs an eighth of an inversion in the base
//! field and about 25 products there.

use std::borrow::Cow;

use rigel_gpu::{Error, Result, Shape, Stream, View};

use crate::code::{Instances, KernelFile, Operation, parameters};
use crate::domain::circle_domain::{Domain, ReversedCoset};
use crate::field::{CM31, Mersenne31 as M31, QM31};
use crate::layout::columns::{self, Column, Columns};
use crate::layout::matrix::{Matrix, log2_rows};
use crate::layout::slab::slab_length;

/// The slab of `sum_k c_k f_k[r] - constant` for r < `rows`.
///
/// A term `(i, c)` refers to column i of all columns of all matrices, in order, whose length is at least `rows`; a
/// column may occur in several terms, or in none.
pub fn accumulate(
    stream: &Stream,
    columns: &[Columns<'_, M31>],
    terms: &[(usize, QM31)],
    constant: QM31,
    rows: usize,
) -> Result<Matrix<M31>> {
    let mut one = accumulate_points(stream, columns, &[(terms, constant)], rows)?;
    Ok(one.remove(0))
}

/// The sums of [`accumulate`] for several points: for each, its terms and its constant. Lists of columns and terms are
/// uploaded once for all points.
pub fn accumulate_points(
    stream: &Stream,
    columns: &[Columns<'_, M31>],
    points: &[(&[(usize, QM31)], QM31)],
    rows: usize,
) -> Result<Vec<Matrix<M31>>> {
    const NAME: &str = "circle_quotients::accumulate";
    let total: usize = columns.iter().map(Columns::columns).sum();
    if let Some(shorter) = columns.iter().find(|matrix| matrix.rows() < rows) {
        return Err(Error::shape(NAME, format!("{rows} rows asked for; a column has only {}", shorter.rows())));
    }
    let (mut all, mut ends) = (Vec::new(), Vec::with_capacity(points.len()));
    for (terms, _) in points {
        if rows == 0 || terms.is_empty() || u32::try_from(total).is_err() {
            return Err(Error::shape(
                NAME,
                format!(
                    "{} terms of {rows} rows over {total} columns; there must be at least one term and one row",
                    terms.len()
                ),
            ));
        }
        if let Some((column, _)) = terms.iter().find(|(column, _)| *column >= total) {
            return Err(Error::shape(NAME, format!("column {column} does not exist; there are {total}")));
        }
        merge(&mut all, terms);
        ends.push(all.len());
    }
    if points.is_empty() {
        return Ok(Vec::new());
    }
    let matrices: Vec<_> =
        columns.iter().filter(|matrix| matrix.columns() > 0).map(|&matrix| (matrix, 0)).collect();
    let list = columns::list(stream, &matrices)?;
    let (all, kernels) = (stream.upload(&all)?, CircleQuotients::kernels(stream.device(), ())?);
    let multiprocessors = stream.device().properties().multiprocessors as usize;
    let (mut sums, mut start) = (Vec::with_capacity(points.len()), 0);
    for (&(_, constant), end) in points.iter().zip(ends) {
        let mut out = Matrix::alloc(stream, rows, 4)?;
        let terms = all.range(start..end)?;
        let term_warps = term_warps(rows, terms.len(), multiprocessors);
        let shape = Shape::cover(rows.div_ceil(WARP_ROWS).div_ceil(WARPS / term_warps), 1)?.threads(THREADS);
        let count = terms.len() as u32;
        let arguments = (out.values_mut(), list.part(..)?, terms, count, term_warps as u32, rows as u64, constant);
        kernels[ACCUMULATE].launch(stream, shape, arguments)?;
        sums.push(out);
        start = end;
    }
    Ok(sums)
}

/// Appends the terms by column, with those of the same column added up, so that each column is read once.
fn merge(merged: &mut Vec<Term>, terms: &[(usize, QM31)]) {
    let mut sorted = Cow::Borrowed(terms);
    if !terms.is_sorted_by_key(|&(column, _)| column) {
        sorted.to_mut().sort_by_key(|&(column, _)| column);
    }
    let start = merged.len();
    merged.reserve(terms.len());
    for &(column, coefficient) in &*sorted {
        match merged[start..].last_mut() {
            Some(term) if term.column as usize == column => term.coefficient += coefficient,
            _ => merged.push(Term { coefficient, column: column as u32, padding: [0; 3] }),
        }
    }
}

/// The number of warps that share rows: as many as fill the device, while each has at least four columns.
fn term_warps(rows: usize, terms: usize, multiprocessors: usize) -> usize {
    let wanted = (multiprocessors * 32).div_ceil(rows.div_ceil(WARP_ROWS));
    1 << wanted.min(terms / 4).clamp(1, WARPS).ilog2()
}

/// The numerators of one opened point, as computed by [`accumulate`].
#[derive(Clone, Copy, Debug)]
pub struct Numerators<'a> {
    /// The point, x and y.
    pub point: [QM31; 2],
    /// The slab of values in bit-reversed order: as many as the domain has points, or fewer by a power of two (at least
    /// two), on the domain doubled that many times.
    pub values: View<'a, M31>,
    /// The coefficient a of y.
    pub linear: QM31,
}

/// The slab of `sum_k (values_k[lift(i)] - linear_k y_i) / line_k(P_i)` for the points `P_i = (x_i, y_i)` of a domain
/// in bit-reversed order. If there are 2^r times fewer numerators than points,
/// `lift(i) = (i >> (r + 1) << 1) + (i & 1)`.
///
/// `line_k(x, y) = (Re.x - x) Im.y - (Re.y - y) Im.x` for the point `Re + Im u` over [`CM31`]. It is nonzero for a
/// point that is not over the base field; otherwise the quotient is undefined.
pub fn combine(stream: &Stream, numerators: &[Numerators<'_>], domain: Domain) -> Result<Matrix<M31>> {
    const NAME: &str = "circle_quotients::combine";
    domain.half.check(NAME)?;
    if numerators.is_empty() {
        return Err(Error::shape(NAME, "no numerators given; there must be those of at least one point"));
    }
    let n = 1usize << domain.log_size();
    let lines = numerators
        .iter()
        .map(|numerators| Line::new(numerators, domain.log_size()))
        .collect::<Result<Vec<_>>>()?;
    let mut out = Matrix::alloc(stream, n, 4)?;
    let kernels = CircleQuotients::kernels(stream.device(), ())?;
    let most = stream.device().properties().multiprocessors as usize * 4;
    let shape = Shape::new(n.div_ceil(8 * THREADS as usize).clamp(1, most) as u32, THREADS);
    for (batch, first) in lines.chunks(MOST_POINTS).zip((0..).step_by(MOST_POINTS)) {
        let value = |k: usize| (k < batch.len()).then(|| numerators[first + k].values);
        let points = Lines {
            lines: std::array::from_fn(|k| batch[k.min(batch.len() - 1)]),
            count: batch.len() as u32,
            adds: u32::from(first > 0),
        };
        let half = ReversedCoset::new(domain.half);
        let arguments = (out.values_mut(), n as u64, half, points, value(0), value(1), value(2), value(3));
        kernels[COMBINE].launch(stream, shape, arguments)?;
    }
    Ok(out)
}

/// Threads and warps per block, rows per warp, and points per launch.
const THREADS: u32 = 256;
const WARPS: usize = 8;
const WARP_ROWS: usize = 128;
const MOST_POINTS: usize = 4;

parameters! {
    /// A column and its coefficient.
    #[derive(Debug, PartialEq, Eq)]
    struct Term = "Term" => {
        coefficient: QM31,
        column: u32,
        padding: [u32; 3],
    }
}

parameters! {
    /// The denominator of one opened point.
    struct Line = "Line" => {
        linear: QM31,
        constant: CM31,
        x: CM31,
        y: CM31,
        log_ratio: u32,
        padding: u32,
    }
}

impl Line {
    fn new(numerators: &Numerators<'_>, log_size: u32) -> Result<Self> {
        const NAME: &str = "circle_quotients::combine";
        let length = slab_length::<QM31>(NAME, numerators.values)?;
        let log_length = log2_rows(NAME, length)?;
        if log_length == 0 || log_length > log_size {
            return Err(Error::shape(
                NAME,
                format!("{length} numerators for 2^{log_size} points; there must be from 2 to 2^{log_size}"),
            ));
        }
        let [(re_x, im_x), (re_y, im_y)] = numerators.point.map(|QM31([a, b, c, d])| (CM31([a, b]), CM31([c, d])));
        Ok(Self {
            linear: numerators.linear,
            constant: re_x * im_y - re_y * im_x,
            x: im_y,
            y: im_x,
            log_ratio: log_size - log_length,
            padding: 0,
        })
    }
}

parameters! {
    /// The points of one launch.
    struct Lines = "Lines" => {
        lines: [Line; MOST_POINTS],
        count: u32,
        adds: u32,
    }
}

pub(crate) struct CircleQuotients;

/// The kernels, in the order in which they are compiled.
const ACCUMULATE: usize = 0;
const COMBINE: usize = 1;

impl Operation for CircleQuotients {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "open/circle_quotients.cu",
        text: include_str!("circle_quotients.cu"),
        constants: &[
            ("BLOCK_THREADS", THREADS as u64),
            ("WARPS", WARPS as u64),
            ("WARP_ROWS", WARP_ROWS as u64),
            ("MOST_POINTS", MOST_POINTS as u64),
        ],
    };

    fn instances((): ()) -> Instances {
        Instances::new(["accumulate_terms", "combine_quotients"])
            .takes::<ReversedCoset>()
            .takes::<Column>()
            .takes::<Term>()
            .takes::<Line>()
            .takes::<Lines>()
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_of_a_column_are_one() {
        let c = |x: u32| QM31::from(M31::new(x));
        let mut merged = Vec::new();
        merge(&mut merged, &[(3, c(1)), (0, c(2)), (3, c(5)), (1, c(7)), (3, c(9))]);
        // Another point's terms of the same column are its own.
        merge(&mut merged, &[(3, c(4)), (3, c(2))]);
        let found: Vec<_> = merged.iter().map(|term| (term.column, term.coefficient)).collect();
        assert_eq!(found, [(0, c(2)), (1, c(7)), (3, c(15)), (3, c(6))]);
    }

    #[test]
    fn few_rows_are_shared_by_warps_with_columns_of_their_own() {
        assert_eq!(term_warps(1 << 24, 2_000, 132), 1);
        assert_eq!(term_warps(1 << 16, 2_000, 132), 8);
        assert_eq!(term_warps(1 << 16, 16, 132), 4);
        assert_eq!(term_warps(4, 1, 132), 1);
    }
}
