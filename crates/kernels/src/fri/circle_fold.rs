//! FRI folding on circle and line domains, as in Stwo; values are slabs of [`QM31`] (see [`crate::layout::slab`]) in
//! bit-reversed order.
//!
//! - [`circle_to_line`]: `v'[i] = (v[2i] + v[2i + 1]) + alpha (v[2i] - v[2i + 1]) / y_i`, from a circle domain of
//!   2n points to a line domain of n; [`base_circle_to_line`] for values over the base field
//! - [`line()`]: `v'[i] = (v[2i] + v[2i + 1]) + alpha (v[2i] - v[2i + 1]) / x_i` with alpha, alpha^2, alpha^4, ..
//! - [`decompose`]: separates the component outside the space of the transform of half the size
//! - [`lift_add`]: the sum of a column on a domain and one on the same domain doubled several times
//!
//! As upstream, nothing is divided by two. `1 / x_i` and `1 / y_i` come from a tower of inverse twiddles (see
//! [`twiddles_and_inverses`](crate::domain::circle_domain::twiddles_and_inverses)) of the domain's coset or one that
//! doubles to it: the m / 2 twiddles of a line domain of m points start m words before its end.
//!
//! Each value is read once and each result written once; up to four halvings of a line take one launch and stay in
//! registers. A halving costs one product of [`QM31`] per pair.

use rigel_gpu::{Error, Result, Shape, Stream, View, ViewMut};

use crate::code::{Instances, KernelFile, Operation, parameters};
use crate::field::{Element, Field, Mersenne31 as M31, QM31, Ring};
use crate::layout::columns::Columns;
use crate::layout::matrix::{Matrix, log2_rows};
use crate::layout::slab::slab_length;
use crate::vector::reduce;

/// Folds the slab of 2n values on a circle domain to one of n on a line: Stwo's `fold_circle_into_line`.
///
/// The tower has at least n words. Domains of 2 and 4 points do not read it; they use `initial`, the first point of the
/// domain, whose y must not be zero.
pub fn circle_to_line(
    stream: &Stream,
    values: View<'_, M31>,
    alpha: QM31,
    inverse_twiddles: View<'_, M31>,
    initial: [M31; 2],
) -> Result<Matrix<M31>> {
    const NAME: &str = "circle_fold::circle_to_line";
    fold_circle::<QM31>(NAME, stream, values, alpha, inverse_twiddles, initial)
}

/// Folds as [`circle_to_line`] does, for 2n values over the base field.
pub fn base_circle_to_line(
    stream: &Stream,
    values: View<'_, M31>,
    alpha: QM31,
    inverse_twiddles: View<'_, M31>,
    initial: [M31; 2],
) -> Result<Matrix<M31>> {
    const NAME: &str = "circle_fold::base_circle_to_line";
    fold_circle::<M31>(NAME, stream, values, alpha, inverse_twiddles, initial)
}

fn fold_circle<V: Element<Base = M31>>(
    name: &'static str,
    stream: &Stream,
    values: View<'_, M31>,
    alpha: QM31,
    inverse_twiddles: View<'_, M31>,
    initial: [M31; 2],
) -> Result<Matrix<M31>> {
    let size = slab_length::<V>(name, values)?;
    log2_rows(name, size)?;
    let n = size / 2;
    if n == 0 {
        return Err(Error::shape(name, "a domain of one point; there must be at least two"));
    }
    let (twiddles, inverse_y) = if n >= 4 {
        let start = tower_start(name, inverse_twiddles, n)?;
        (Some(inverse_twiddles.range(start..start + n / 2)?), M31::ZERO)
    } else {
        let inverse = initial[1].inverse();
        let inverse = inverse.ok_or_else(|| {
            Error::shape(name, format!("the first point {initial:?} has y = 0, which cannot be inverted"))
        })?;
        (None, inverse)
    };
    let mut out = Matrix::alloc(stream, n, 4)?;
    let kernel = if V::DEGREE == 1 { BASE_CIRCLE } else { CIRCLE };
    let shape = Shape::cover(n.div_ceil(4), THREADS)?;
    let arguments = (out.values_mut(), values, twiddles, n as u64, alpha, inverse_y);
    CircleFold::kernels(stream.device(), ())?[kernel].launch(stream, shape, arguments)?;
    Ok(out)
}

/// Folds the slab of n values on a line domain `steps` times, from 1 to log2 n times: Stwo's `fold_line`. The tower has
/// at least n words.
pub fn line(
    stream: &Stream,
    values: View<'_, M31>,
    alpha: QM31,
    inverse_twiddles: View<'_, M31>,
    steps: u32,
) -> Result<Matrix<M31>> {
    const NAME: &str = "circle_fold::line";
    let n = slab_length::<QM31>(NAME, values)?;
    let log_n = log2_rows(NAME, n)?;
    if !(1..=log_n).contains(&steps) {
        return Err(Error::shape(
            NAME,
            format!("{steps} halvings of {n} values; there must be from 1 to {log_n}"),
        ));
    }
    tower_start(NAME, inverse_twiddles, n)?;
    let kernels = CircleFold::kernels(stream.device(), ())?;
    let (mut folded, mut alpha) = (None, alpha);
    for done in (0..steps).step_by(MOST_AT_ONCE) {
        let count = (steps - done).min(MOST_AT_ONCE as u32);
        let alphas = Alphas { alphas: std::array::from_fn(|step| alpha.pow(1 << step)) };
        let from = folded.as_ref().map_or(values, |matrix: &Matrix<M31>| matrix.values().view());
        let rows = n >> (done + count);
        let mut out = Matrix::alloc(stream, rows, 4)?;
        let shape = Shape::cover(if count == 1 { rows.div_ceil(2) } else { rows }, THREADS)?;
        let length = inverse_twiddles.len() as u64;
        let arguments = (out.values_mut(), from, inverse_twiddles, length, rows as u64, alphas);
        kernels[LINE + count as usize - 1].launch(stream, shape, arguments)?;
        alpha = alpha.pow(1 << count);
        folded = Some(out);
    }
    Ok(folded.expect("at least one halving"))
}

/// The offset of the twiddles of a line domain of n points in a tower.
fn tower_start(name: &'static str, tower: View<'_, M31>, n: usize) -> Result<usize> {
    if !tower.len().is_power_of_two() || tower.len() < n {
        return Err(Error::shape(
            name,
            format!("{} twiddles for {n} points; there must be a power of two of them, at least {n}", tower.len()),
        ));
    }
    Ok(tower.len() - n)
}

/// Returns lambda, the sum of the first half of the slab minus that of the second, divided by the number of values, and
/// the slab with lambda subtracted from its first half and added to its second: Stwo's `FriOps::decompose`. Waits for
/// the stream.
pub fn decompose(stream: &Stream, values: View<'_, M31>) -> Result<(Matrix<M31>, QM31)> {
    const NAME: &str = "circle_fold::decompose";
    let n = slab_length::<QM31>(NAME, values)?;
    if log2_rows(NAME, n)? == 0 {
        return Err(Error::shape(NAME, "a slab of one value; there must be at least two"));
    }
    let sums = reduce::sums(stream, Columns::new(values, n / 2)?)?.to_vec(stream)?;
    let scale = M31::from_u64(n as u64).inverse().expect("a power of two is not zero");
    let lambda = QM31(std::array::from_fn(|d| (sums[2 * d] - sums[2 * d + 1]) * scale));
    let mut out = Matrix::alloc(stream, n, 4)?;
    let shape = Shape::cover(n.div_ceil(4), THREADS)?;
    let kernels = CircleFold::kernels(stream.device(), ())?;
    kernels[SPLIT_OFF].launch(stream, shape, (out.values_mut(), values, n as u64, lambda))?;
    Ok((out, lambda))
}

/// Adds `shorter[(i >> (r + 1) << 1) + (i & 1)]` to `to[i]`, for a slab of n values and one that is 2^r times shorter
/// and has at least two: a step of Stwo's `lift_and_accumulate`.
pub fn lift_add(stream: &Stream, to: ViewMut<'_, M31>, shorter: View<'_, M31>) -> Result<()> {
    const NAME: &str = "circle_fold::lift_add";
    let (n, short) = (slab_length::<QM31>(NAME, to.view())?, slab_length::<QM31>(NAME, shorter)?);
    let (log_n, log_short) = (log2_rows(NAME, n)?, log2_rows(NAME, short)?);
    if log_short > log_n || (log_short == 0 && log_n > 0) {
        return Err(Error::shape(NAME, format!("cannot add {short} values to {n}; there must be from 2 to {n}")));
    }
    let shape = Shape::cover(n.div_ceil(4), THREADS)?;
    let kernels = CircleFold::kernels(stream.device(), ())?;
    kernels[ADD_LIFTED].launch(stream, shape, (to, shorter, n as u64, log_n - log_short))
}

/// Threads per block, and the maximum number of halvings in one launch.
const THREADS: u32 = 256;
const MOST_AT_ONCE: usize = 4;

parameters! {
    /// The challenges of the halvings in one launch.
    struct Alphas = "Alphas" => {
        alphas: [QM31; MOST_AT_ONCE],
    }
}

pub(crate) struct CircleFold;

/// The kernels, in the order in which they are compiled; those of a line by the number of halvings, starting at one.
const CIRCLE: usize = 0;
const BASE_CIRCLE: usize = 1;
const SPLIT_OFF: usize = 2;
const ADD_LIFTED: usize = 3;
const LINE: usize = 4;

impl Operation for CircleFold {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "fri/circle_fold.cu",
        text: include_str!("circle_fold.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64), ("MOST_AT_ONCE", MOST_AT_ONCE as u64)],
    };

    fn instances((): ()) -> Instances {
        let mut kernels = vec![format!("fold_circle<{}>", QM31::NAME), format!("fold_circle<{}>", M31::NAME)];
        kernels.extend(["split_off", "add_lifted"].map(String::from));
        kernels.extend((1..=MOST_AT_ONCE).map(|steps| format!("fold_line<{steps}>")));
        Instances::new(kernels).takes::<Alphas>()
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}
