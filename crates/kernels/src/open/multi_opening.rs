//! Opening many short matrices at many points, in one launch for all their columns' values and one for their reduced
//! openings. See [`opening`](super::opening) for the domain and the names.
//!
//! - [`evaluate`]: `p(z) = scale sum_i x_i d_i p(x_i)` for every column p of every matrix at its points z, where `x_i
//!   d_i scale` are the barycentric weights
//! - [`quotients`]: for each height, `sum_k s_k (y_k - m(x_i)) / (z_k - x_i)` over the claims on all matrices of that
//!   height
//!
//! Each takes the upload of two lists and one launch, the latter one for every 16 heights. A block evaluates two
//! columns, and reads the x_i and d_i with them: for matrices of many rows, the operations of
//! [`opening`](super::opening) move fewer bytes and fill the device.

use std::marker::PhantomData;

use rigel_gpu::{Error, Result, Shape, Stream, View, ViewMut};

use crate::code::{Instances, KernelFile, Operation, parameters};
use crate::domain::block::Block;
use crate::domain::roots::check_domain;
use crate::field::{Element, Field};
use crate::layout::columns::Columns;
use crate::layout::matrix::Matrix;
use crate::layout::slab::slab_length;
use crate::open::opening::{Claim, check_slab, weights_scale};

/// The columns of a matrix, and the points at which they are evaluated.
#[derive(Clone, Debug)]
pub struct Evaluation<'a, E: Element> {
    /// The columns.
    pub matrix: Columns<'a, E::Base>,
    /// The rows that determine the polynomials, of which the columns begin with all or with some: then the results are
    /// those rows' parts of the values.
    pub coset: Block,
    /// The points z, each with the slab of the d_i.
    pub points: Vec<(E, &'a Matrix<E::Base>)>,
}

impl<E: Element> Evaluation<'_, E> {
    /// The number of results.
    fn results(&self) -> usize {
        self.matrix.columns() * self.points.len()
    }

    /// The number of rows that are read.
    fn rows(&self) -> usize {
        self.matrix.rows().min(self.coset.rows())
    }
}

/// The values of all columns at their points, stored element by element: matrix after matrix, all columns of a matrix
/// at its first point, then those at the next. They fill `out`. `xs` begins with the points of each coset.
pub fn evaluate<E: Element>(
    stream: &Stream,
    out: ViewMut<'_, E::Base>,
    xs: View<'_, E::Base>,
    evaluations: &[Evaluation<'_, E>],
) -> Result<()> {
    const NAME: &str = "multi_opening::evaluate";
    let results = evaluations.iter().map(Evaluation::results).sum::<usize>();
    if out.len() != results * E::DEGREE {
        return Err(Error::shape(NAME, format!("room for {} coefficients of {results} results", out.len())));
    }
    let (mut jobs, mut addresses) = (Vec::new(), Vec::new());
    let mut scales: Vec<((E, Block), E)> = Vec::new();
    let (mut place, mut widest) = (0, 0);
    for evaluation in evaluations {
        let (matrix, coset, rows) = (evaluation.matrix, evaluation.coset, evaluation.rows());
        check_domain::<E::Base>(NAME, coset.log_rows)?;
        if xs.len() < rows {
            let detail = format!("{} points for {rows} rows; there must be at least as many", xs.len());
            return Err(Error::shape(NAME, detail));
        }
        for points in evaluation.points.chunks(MOST_POINTS) {
            let mut scale = |z: E| match scales.iter().find(|(of, _)| *of == (z, coset)) {
                Some(&(_, scale)) => scale,
                None => {
                    let scale = weights_scale(z, coset);
                    scales.push(((z, coset), scale));
                    scale
                }
            };
            for (_, inverses) in points {
                check_slab::<E>(NAME, "inverses", inverses, rows)?;
            }
            let (given, points) = (points.len(), [points[0], points[points.len() - 1]]);
            jobs.push(Job {
                scales: points.map(|(z, _)| scale(z)),
                strides: points.map(|(_, inverses)| inverses.rows() as u64),
                stride: matrix.rows() as u64,
                place: place as u64,
                rows: rows as u64,
                columns: columns_of(NAME, matrix)?,
                points: given as u32,
            });
            addresses.push(matrix.values());
            addresses.extend(points.map(|(_, inverses)| inverses.values().view()));
            place += given * matrix.columns() * E::DEGREE;
            widest = widest.max(matrix.columns());
        }
    }
    if place == 0 {
        return Ok(());
    }
    let shape = Shape::cover(widest.div_ceil(BLOCK_COLUMNS), 1)?.threads(THREADS).rows(jobs.len() as u32);
    let (addresses, jobs) = (stream.addresses(&addresses)?, stream.upload(&jobs)?);
    MultiOpening::<E>::kernels(stream.device(), ())?[EVALUATE].launch(stream, shape, (out, &jobs, &addresses, xs))
}

/// The claims on one matrix.
#[derive(Clone, Debug)]
pub struct Claims<'a, E: Element> {
    /// The columns.
    pub matrix: Columns<'a, E::Base>,
    /// The claims, of which there may be none.
    pub claims: Vec<Claim<'a, E>>,
}

/// The slabs of quotients, one for each number of rows among the matrices, in descending order. A slab is the sum
/// of the [`quotients`](super::opening::quotients) of all matrices with so many rows. `powers` is the slab of the
/// powers of alpha starting at 0, at least one per column of the widest matrix.
pub fn quotients<E: Element>(
    stream: &Stream,
    powers: View<'_, E::Base>,
    matrices: &[Claims<'_, E>],
) -> Result<Vec<Matrix<E::Base>>> {
    const NAME: &str = "multi_opening::quotients";
    let powers_stride = slab_length::<E>(NAME, powers)?;
    let mut rows: Vec<usize> = matrices.iter().map(|claims| claims.matrix.rows()).collect();
    rows.sort_unstable_by(|a, b| b.cmp(a));
    rows.dedup();
    let (mut pieces, mut addresses, mut ends) = (Vec::new(), Vec::new(), Vec::with_capacity(rows.len()));
    for &rows in &rows {
        for Claims { matrix, claims } in matrices.iter().filter(|claims| claims.matrix.rows() == rows) {
            let columns = columns_of(NAME, *matrix)? as usize;
            if powers_stride < columns {
                let detail = format!("{powers_stride} powers for {columns} columns; each column needs one");
                return Err(Error::shape(NAME, detail));
            }
            for claim in claims {
                check_slab::<E>(NAME, "inverses", claim.inverses, rows)?;
            }
            for claims in claims.chunks(MOST_POINTS) {
                let (given, claims) = (claims.len() as u32, [claims[0], claims[claims.len() - 1]]);
                for first in (0..columns).step_by(PIECE) {
                    let end = columns.min(first + PIECE);
                    pieces.push(Piece {
                        scales: claims.map(|claim| claim.scale),
                        // The sum of the pieces has each value once.
                        values: claims.map(|claim| if first == 0 { claim.value } else { E::ZERO }),
                        strides: claims.map(|claim| claim.inverses.rows() as u64),
                        first_power: first as u32,
                        columns: (end - first) as u32,
                        claims: given,
                        padding: 0,
                    });
                    addresses.push(matrix.values().range(first * rows..end * rows)?);
                    addresses.extend(claims.map(|claim| claim.inverses.values().view()));
                }
            }
        }
        ends.push(pieces.len());
    }
    let lengths: Vec<usize> = rows.iter().map(|rows| rows * E::DEGREE).collect();
    let mut out = stream.alloc(lengths.iter().sum())?;
    let (addresses, pieces) = (stream.addresses(&addresses)?, stream.upload(&pieces)?);
    let kernel = &MultiOpening::<E>::kernels(stream.device(), ())?[QUOTIENTS];
    let (mut place, mut first) = (0, 0);
    for (rows, ends) in rows.chunks(MOST_HEIGHTS).zip(ends.chunks(MOST_HEIGHTS)) {
        let mut heights = Heights::default();
        for (i, (&rows, &end)) in rows.iter().zip(ends).enumerate() {
            (heights.rows[i], heights.place[i]) = (rows as u64, place as u64);
            (heights.first[i], heights.pieces[i]) = (first as u32, (end - first) as u32);
            (place, first) = (place + rows * E::DEGREE, end);
        }
        let shape = Shape::cover(rows[0].div_ceil(32), 1)?.threads(THREADS).rows(rows.len() as u32);
        kernel.launch(stream, shape, (&mut out, &pieces, &addresses, powers, powers_stride as u64, heights))?;
    }
    let parts = out.split(&lengths)?.into_iter().zip(rows);
    parts.map(|(values, rows)| Matrix::new(values, rows, E::DEGREE)).collect()
}

/// The number of columns of a matrix, which must have some.
fn columns_of<F: Field>(operation: &'static str, matrix: Columns<'_, F>) -> Result<u32> {
    match u32::try_from(matrix.columns()) {
        Ok(columns) if columns > 0 => Ok(columns),
        _ => {
            let detail = format!("a matrix of {} columns; there must be from 1 to 2^32 - 1", matrix.columns());
            Err(Error::shape(operation, detail))
        }
    }
}

/// Threads and warps per block, points or claims per entry of a list, columns per block that evaluates, columns per
/// piece, and heights per launch.
const THREADS: u32 = 256;
const WARPS: usize = 8;
const MOST_POINTS: usize = 2;
const BLOCK_COLUMNS: usize = 2;
const PIECE: usize = 8;
const MOST_HEIGHTS: usize = 16;

parameters! {
    /// A matrix and points at which it is evaluated.
    struct Job<E: Element> = format!("Evaluation<{}>", E::NAME) => {
        scales: [E; MOST_POINTS],
        strides: [u64; MOST_POINTS],
        stride: u64,
        place: u64,
        rows: u64,
        columns: u32,
        points: u32,
    }
}

parameters! {
    /// Some columns of a matrix, and claims on it.
    struct Piece<E: Element> = format!("Piece<{}>", E::NAME) => {
        scales: [E; MOST_POINTS],
        values: [E; MOST_POINTS],
        strides: [u64; MOST_POINTS],
        first_power: u32,
        columns: u32,
        claims: u32,
        padding: u32,
    }
}

parameters! {
    /// The rows of each height, the place of its results, and its pieces.
    #[derive(Default)]
    struct Heights = "Heights" => {
        rows: [u64; MOST_HEIGHTS],
        place: [u64; MOST_HEIGHTS],
        first: [u32; MOST_HEIGHTS],
        pieces: [u32; MOST_HEIGHTS],
    }
}

/// Openings of many matrices over one extension.
pub(crate) struct MultiOpening<E>(PhantomData<E>);

/// The kernels, in the order in which they are compiled.
const EVALUATE: usize = 0;
const QUOTIENTS: usize = 1;

impl<E: Element> Operation for MultiOpening<E> {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "open/multi_opening.cu",
        text: include_str!("multi_opening.cu"),
        constants: &[
            ("BLOCK_THREADS", THREADS as u64),
            ("WARPS", WARPS as u64),
            ("MOST_POINTS", MOST_POINTS as u64),
            ("PIECE", PIECE as u64),
            ("MOST_HEIGHTS", MOST_HEIGHTS as u64),
        ],
    };

    fn instances((): ()) -> Instances {
        Instances::new([
            format!("evaluate_matrices<{}, {BLOCK_COLUMNS}>", E::NAME),
            format!("reduce_heights<{}>", E::NAME),
        ])
        .takes::<Job<E>>()
        .takes::<Piece<E>>()
        .takes::<Heights>()
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}
