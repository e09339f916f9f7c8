//! Opening committed matrices at points z outside their domain, elements of an extension (slabs, see
//! [`crate::layout::slab`]).
//!
//! A committed column holds the evaluations of a polynomial p on the coset g H of 2^l points, in bit-reversed order,
//! with g the field's generator: row i is at `x_i = g w^rev(i)`. The first 2^k rows are its evaluations on the smaller
//! coset of 2^k points.
//!
//! - [`coset_points`](crate::domain::points::coset_points): the x_i
//! - [`inverse_denominators`], [`all_inverse_denominators`]: `d_i = 1 / (z - x_i)`, for one z or for several
//! - [`barycentric_weights`]: `x_i d_i (z^h - g^h) / (h g^h)`, with which `p(z) = sum_i weights[i] p(x_i)` over the
//!   first h rows, for p of degree below h
//! - [`evaluate`]: these sums for every column of a matrix, at one or more points
//! - [`quotients`], [`accumulate_quotients`]: `sum_k s_k (y_k - m(x_i)) / (z_k - x_i)` with `m = sum_c alpha^c p_c`,
//!   which is a polynomial where the y_k are `m(z_k)`
//!
//! [`multi_opening`](super::multi_opening) computes sums and quotients of many short matrices in one launch each.
//!
//! Sums and quotients read a matrix once for every two points, and are memory-bound. Inverting the denominators costs
//! about three products and a fraction of an inversion per element; the rest costs a product or two.

use std::marker::PhantomData;

use rigel_gpu::{Buffer, Error, Result, Shape, Stream, View, ViewMut};

use crate::code::{Instances, KernelFile, Operation, parameters};
use crate::domain::block::Block;
use crate::domain::roots::{ORDERS, check_domain};
use crate::field::{Element, Field, Ring};
use crate::layout::columns::Columns;
use crate::layout::matrix::Matrix;
use crate::layout::slab::{constant, slab_length};
use crate::vector::inverse::invert_differences;
use crate::vector::reduce::{self, Layout};

/// The slab of `1 / (z - points[i])`, and 0 where z is a point.
pub fn inverse_denominators<E: Element>(
    stream: &Stream,
    points: View<'_, E::Base>,
    z: E,
) -> Result<Matrix<E::Base>> {
    Ok(all_inverse_denominators(stream, points, &[(z, points.len())])?.remove(0))
}

/// The slab of `1 / (z - points[i])` for each (z, n) of `slabs`: over the first n points, from 1 to all of them,
/// and 0 where z is a point. One launch for every 16 slabs.
pub fn all_inverse_denominators<E: Element>(
    stream: &Stream,
    points: View<'_, E::Base>,
    slabs: &[(E, usize)],
) -> Result<Vec<Matrix<E::Base>>> {
    const NAME: &str = "opening::inverse_denominators";
    if let Some((_, n)) = slabs.iter().find(|(_, n)| !(1..=points.len()).contains(n)) {
        let detail = format!("{n} of {} points; there must be at least one, and at most all", points.len());
        return Err(Error::shape(NAME, detail));
    }
    let lengths: Vec<usize> = slabs.iter().map(|(_, n)| n * E::DEGREE).collect();
    let mut all = stream.alloc(lengths.iter().sum())?;
    invert_differences::<E>(stream, all.view_mut(), points, slabs)?;
    let parts = all.split(&lengths)?.into_iter().zip(slabs);
    parts.map(|(values, &(_, n))| Matrix::new(values, n, E::DEGREE)).collect()
}

/// The slab of the h = 2^`log_h` weights `x_i d_i (z^h - g^h) / (h g^h)` that evaluate at z a polynomial of degree
/// below h, given on the coset of h points. `points` and `inverses` (the slab of the d_i for z) have at least h
/// elements. If z is in the coset, all weights are zero.
pub fn barycentric_weights<E: Element>(
    stream: &Stream,
    points: View<'_, E::Base>,
    inverses: &Matrix<E::Base>,
    z: E,
    log_h: u32,
) -> Result<Matrix<E::Base>> {
    check_domain::<E::Base>("opening::barycentric_weights", log_h)?;
    block_weights(stream, points, inverses, z, Block::whole(log_h), 1 << log_h)
}

/// The weights of [`barycentric_weights`] for a polynomial that is given on the h rows of `coset`, a block of a
/// larger domain, and for the first `count` of the given points alone, which are any of that coset: the sums over
/// parts of it add up to the value at z.
pub fn block_weights<E: Element>(
    stream: &Stream,
    points: View<'_, E::Base>,
    inverses: &Matrix<E::Base>,
    z: E,
    coset: Block,
    count: usize,
) -> Result<Matrix<E::Base>> {
    const NAME: &str = "opening::barycentric_weights";
    check_domain::<E::Base>(NAME, coset.log_rows)?;
    check_slab::<E>(NAME, "inverses", inverses, count)?;
    if points.len() < count {
        return Err(Error::shape(
            NAME,
            format!("{} points for {count} weights; there must be at least {count}", points.len()),
        ));
    }
    let scale = weights_scale(z, coset);
    let mut out = Matrix::alloc(stream, count, E::DEGREE)?;
    let shape = Shape::cover(count.div_ceil(16 / size_of::<E::Base>()), THREADS)?;
    let stride = inverses.rows() as u64;
    let arguments = (out.values_mut(), points, inverses.values(), stride, count as u64, scale);
    Opening::<E>::kernels(stream.device(), ())?[WEIGHTS].launch(stream, shape, arguments)?;
    Ok(out)
}

/// `(z^h - s^h) / (h s^h)`, the factor that all weights of a coset of h points have in common, where s is the shift by
/// which it is a coset of a subgroup.
pub(super) fn weights_scale<E: Element>(z: E, coset: Block) -> E {
    let h = coset.rows() as u64;
    let shift = (E::Base::GENERATOR * coset.shift::<E::Base>()).pow(h);
    let unit = (shift * E::Base::from_u64(h)).inverse().expect("neither the generator nor 2^k is zero");
    (z.pow(h) - constant(shift)) * constant(unit)
}

/// Evaluates columns: `sum_i weights_k[i] matrix[i][c]` over the first h rows, for each slab of weights k and each
/// column c. Each slab has h elements, at most the number of rows. The results are stored element by element, all
/// columns of the first slab, then those of the next: coefficient d at `(k columns + c) D + d`.
///
/// The matrix is read once for every two slabs.
pub fn evaluate<E: Element>(
    stream: &Stream,
    matrix: Columns<'_, E::Base>,
    weights: &[&Matrix<E::Base>],
) -> Result<Buffer<E::Base>> {
    const NAME: &str = "opening::evaluate";
    let Some(first) = weights.first() else {
        return Err(Error::shape(NAME, "no weights given; there must be at least one slab"));
    };
    for slab in weights {
        if (slab.rows(), slab.columns()) != (first.rows(), E::DEGREE) {
            return Err(Error::shape(
                NAME,
                format!(
                    "weights of {} x {} together with weights of {} x {}; all must have the same shape",
                    slab.rows(),
                    slab.columns(),
                    first.rows(),
                    E::DEGREE
                ),
            ));
        }
    }
    evaluate_slabs::<E>(stream, matrix, &weights.iter().map(|slab| slab.values().view()).collect::<Vec<_>>())
}

/// Evaluates as [`evaluate`] does, with the slabs of weights as views, all of equal length.
pub fn evaluate_slabs<E: Element>(
    stream: &Stream,
    matrix: Columns<'_, E::Base>,
    weights: &[View<'_, E::Base>],
) -> Result<Buffer<E::Base>> {
    let mut out = stream.alloc(weights.len() * matrix.columns() * E::DEGREE)?;
    evaluate_slabs_into::<E>(stream, out.view_mut(), matrix, weights)?;
    Ok(out)
}

/// Evaluates as [`evaluate_slabs`] does, into `out`, which has room for exactly these results.
pub fn evaluate_slabs_into<E: Element>(
    stream: &Stream,
    mut out: ViewMut<'_, E::Base>,
    matrix: Columns<'_, E::Base>,
    weights: &[View<'_, E::Base>],
) -> Result<()> {
    const NAME: &str = "opening::evaluate";
    let (rows, columns) = (matrix.rows(), matrix.columns());
    let Some(&first) = weights.first() else {
        return Err(Error::shape(NAME, "no weights given; there must be at least one slab"));
    };
    let h = slab_length::<E>(NAME, first)?;
    if weights.iter().any(|slab| slab.len() != first.len()) {
        return Err(Error::shape(NAME, "slabs of weights of different lengths; all must have the same length"));
    }
    if columns == 0 || !(1..=rows).contains(&h) {
        return Err(Error::shape(
            NAME,
            format!(
                "{h} weights for {rows} rows of {columns} columns; there must be from 1 to the number of rows"
            ),
        ));
    }
    let results = columns * E::DEGREE;
    if out.len() != weights.len() * results {
        return Err(Error::shape(
            NAME,
            format!("room for {} coefficients of {} results", out.len(), weights.len() * columns),
        ));
    }
    for (i, slabs) in weights.chunks(reduce::MOST_SLABS).enumerate() {
        let start = i * reduce::MOST_SLABS * results;
        let out = out.reborrow().range(start..start + slabs.len() * results)?;
        reduce::dots_into::<E>(stream, out, matrix, slabs, Layout::Elements)?;
    }
    Ok(())
}

/// A claim that the random combination of a matrix's columns has this value at a point.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a, E: Element> {
    /// The factor of its quotient.
    pub scale: E,
    /// The value y: `sum_c alpha^c p_c(z)`.
    pub value: E,
    /// The slab of `1 / (z - x_i)`, with at least as many elements as there are rows.
    pub inverses: &'a Matrix<E::Base>,
}

/// The slab whose element r is the sum of `scale (value - m(r)) inverses[r]` over the claims, for every row r,
/// with `m(r) = sum_c alpha^c matrix[r][c]`. `powers` is the slab of the powers of alpha starting at 0, at least
/// one per column.
///
/// The matrix is read once for every two claims.
pub fn quotients<E: Element>(
    stream: &Stream,
    matrix: Columns<'_, E::Base>,
    powers: View<'_, E::Base>,
    claims: &[Claim<'_, E>],
) -> Result<Matrix<E::Base>> {
    if claims.is_empty() {
        return Matrix::zeros(stream, matrix.rows(), E::DEGREE);
    }
    let mut sums = Matrix::alloc(stream, matrix.rows(), E::DEGREE)?;
    write_quotients(stream, &mut sums, matrix, powers, claims, false)?;
    Ok(sums)
}

/// Adds [`quotients`] to `reduced`.
pub fn accumulate_quotients<E: Element>(
    stream: &Stream,
    reduced: &mut Matrix<E::Base>,
    matrix: Columns<'_, E::Base>,
    powers: View<'_, E::Base>,
    claims: &[Claim<'_, E>],
) -> Result<()> {
    write_quotients(stream, reduced, matrix, powers, claims, true)
}

/// Writes quotients, or adds them to what is there.
fn write_quotients<E: Element>(
    stream: &Stream,
    reduced: &mut Matrix<E::Base>,
    matrix: Columns<'_, E::Base>,
    powers: View<'_, E::Base>,
    claims: &[Claim<'_, E>],
    accumulate: bool,
) -> Result<()> {
    const NAME: &str = "opening::accumulate_quotients";
    let (rows, columns) = (matrix.rows(), matrix.columns());
    if (reduced.rows(), reduced.columns()) != (rows, E::DEGREE) {
        return Err(Error::shape(
            NAME,
            format!(
                "a result of {} x {} for {rows} rows; over {} it must be {rows} x {}",
                reduced.rows(),
                reduced.columns(),
                E::NAME,
                E::DEGREE
            ),
        ));
    }
    let powers_stride = slab_length::<E>(NAME, powers)?;
    if powers_stride < columns || u32::try_from(columns).is_err() {
        return Err(Error::shape(
            NAME,
            format!("{powers_stride} powers for {columns} columns; there must be at least one per column"),
        ));
    }
    for claim in claims {
        check_slab::<E>(NAME, "inverses", claim.inverses, rows)?;
    }
    let kernels = Opening::<E>::kernels(stream.device(), ())?;
    // A warp has at least eight columns of its own before a second warp shares its rows.
    let column_warps = 1usize << (columns / 8).clamp(1, WARPS).ilog2();
    let row_warps = WARPS / column_warps;
    let shape = Shape::cover(rows.div_ceil(32 * 16 / size_of::<E::Base>()).div_ceil(row_warps), 1)?;
    for (i, claims) in claims.chunks(MOST_CLAIMS).enumerate() {
        let (first, last) = (claims[0], claims[claims.len() - 1]);
        let quotients = Quotients {
            scales: [first.scale, last.scale],
            values: [first.value, last.value],
            strides: [first.inverses.rows() as u64, last.inverses.rows() as u64],
            rows: rows as u64,
            powers_stride: powers_stride as u64,
            columns: columns as u32,
            column_warps: column_warps as u32,
        };
        let (first, second) = (first.inverses.values(), claims.get(1).map(|claim| claim.inverses.values().view()));
        kernels[QUOTIENTS[claims.len() - 1]].launch(
            stream,
            shape.threads(THREADS),
            (
                reduced.values_mut(),
                matrix.values(),
                powers,
                first,
                second,
                quotients,
                u32::from(accumulate || i > 0),
            ),
        )?;
    }
    Ok(())
}

/// Checks that a slab has at least n elements.
pub(super) fn check_slab<E: Element>(
    operation: &'static str,
    what: &str,
    slab: &Matrix<E::Base>,
    n: usize,
) -> Result<()> {
    if slab.rows() < n || slab.columns() != E::DEGREE {
        return Err(Error::shape(
            operation,
            format!(
                "{what} of {} x {}; over {} there must be at least {n} x {}",
                slab.rows(),
                slab.columns(),
                E::NAME,
                E::DEGREE
            ),
        ));
    }
    Ok(())
}

/// Threads and warps per block, and claims per launch.
const THREADS: u32 = 256;
const WARPS: usize = 8;
const MOST_CLAIMS: usize = 2;

parameters! {
    /// Claims on one matrix, and how the work is split.
    struct Quotients<E: Element> = format!("Quotients<{}>", E::NAME) => {
        scales: [E; MOST_CLAIMS],
        values: [E; MOST_CLAIMS],
        strides: [u64; MOST_CLAIMS],
        rows: u64,
        powers_stride: u64,
        columns: u32,
        column_warps: u32,
    }
}

const FILE: KernelFile = KernelFile {
    path: "open/opening.cu",
    text: include_str!("opening.cu"),
    constants: &[
        ("BLOCK_THREADS", THREADS as u64),
        ("WARPS", WARPS as u64),
        ("MOST_CLAIMS", MOST_CLAIMS as u64),
        ("ROOT_ORDERS", ORDERS as u64),
    ],
};

/// Weights and quotients over one extension.
pub(crate) struct Opening<E>(PhantomData<E>);

/// The kernels, in the order in which they are compiled: weights, and quotients of one claim and of two.
const WEIGHTS: usize = 0;
const QUOTIENTS: [usize; MOST_CLAIMS] = [1, 2];

impl<E: Element> Operation for Opening<E> {
    type Variant = ();

    const FILE: KernelFile = FILE;

    fn instances((): ()) -> Instances {
        Instances::new([
            format!("barycentric_weights<{}>", E::NAME),
            format!("accumulate_quotients<{}, 1>", E::NAME),
            format!("accumulate_quotients<{}, 2>", E::NAME),
        ])
        .takes::<Quotients<E>>()
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}
