//! Opening columns on circle domains at a point p outside them, a point of the circle over [`QM31`].
//!
//! - [`barycentric_weights`]: the w_i with `f(p) = sum_i w_i f(P_i)` over the points P_i of a domain in bit-reversed
//!   order, for f in the space of the transform on it: with `p - P_i = (x', y')`, `w_i = +-c (1 + x') / y'`, + for even
//!   i, and a constant c. A polynomial with fewer coefficients than a domain has points is determined by its values on
//!   a block of them that is a domain itself, so that the sum may be over that block alone
//! - [`basis`]: the transform's basis at p, `b_k = prod_j m_j^(bit j of k)` with `m = (y, x, pi(x), pi(pi(x)),
//!   ..)` and `pi(x) = 2 x^2 - 1`, with which `f(p) = sum_k b_k f_k` for coefficients f_k as Stwo orders them
//!
//! Both are slabs (see [`crate::layout::slab`]) that [`evaluate`](crate::open::opening::evaluate) takes as weights. One
//! launch each, which writes each element once. A weight costs a quarter of an inversion and about three products of
//! [`QM31`], an element of the basis one product.

use rigel_gpu::{Error, Result, Shape, Stream};

use crate::code::{Instances, KernelFile, Operation, parameters};
use crate::domain::circle_domain::{Domain, LOG_ORDER, ReversedCoset};
use crate::field::{Mersenne31 as M31, QM31, Ring};
use crate::layout::matrix::Matrix;
use crate::layout::slab::constant;

/// The slab of the weights that evaluate at p a polynomial given on a domain: for a canonic one, Stwo's
/// `barycentric_weights`. If p or its antipode is in the domain, all weights are zero.
pub fn barycentric_weights(stream: &Stream, domain: Domain, p: [QM31; 2]) -> Result<Matrix<M31>> {
    weights_of(stream, domain, domain, p)
}

/// The weights of [`barycentric_weights`] of the canonic domain of 2^`log_size` points that belong to the points
/// of `part`, a block of them in bit-reversed order that is a domain itself.
pub fn barycentric_weights_of(stream: &Stream, log_size: u32, part: Domain, p: [QM31; 2]) -> Result<Matrix<M31>> {
    if part.log_size() > log_size {
        let detail = format!("weights for 2^{} points of 2^{log_size}; they must be a part", part.log_size());
        return Err(Error::shape("circle_opening::barycentric_weights_of", detail));
    }
    weights_of(stream, Domain::canonic(log_size)?, part, p)
}

/// The weights of a domain that belong to the points of a part of it.
fn weights_of(stream: &Stream, domain: Domain, part: Domain, p: [QM31; 2]) -> Result<Matrix<M31>> {
    const NAME: &str = "circle_opening::barycentric_weights";
    domain.half.check(NAME)?;
    part.half.check(NAME)?;
    let n = 1usize << part.log_size();
    let mut out = Matrix::alloc(stream, n, 4)?;
    // The polynomial that vanishes on the domain is x doubled log_size - 1 times, less its value at the first point.
    // The weights are divided by its derivative there, times -2 y, which is the same for all points except for the
    // sign of y.
    let [x, y] = domain.half.initial;
    let (mut vanishing, mut doubled, mut derivative) = (p[0], x, -(y + y));
    for _ in 1..domain.log_size() {
        derivative *= doubled * M31::new(4);
        doubled = double_x(doubled);
        vanishing = double_x(vanishing);
    }
    let Some(inverse) = derivative.inverse() else {
        let detail = format!("the domain of {:?} has points on an axis, and so has points twice", domain.half);
        return Err(Error::shape(NAME, detail));
    };
    let scale = (vanishing - constant(doubled)) * inverse;
    let most = stream.device().properties().multiprocessors as usize * 6;
    let shape = Shape::new(n.div_ceil(4 * THREADS as usize).clamp(1, most) as u32, THREADS);
    let arguments = (out.values_mut(), n as u64, ReversedCoset::new(part.half), p[0], p[1], scale);
    CircleOpening::kernels(stream.device(), ())?[WEIGHTS].launch(stream, shape, arguments)?;
    Ok(out)
}

/// The slab of the 2^`log_size` elements of the transform's basis at p: the dot product with the coefficients of a
/// polynomial is Stwo's `eval_at_point`.
pub fn basis(stream: &Stream, log_size: u32, p: [QM31; 2]) -> Result<Matrix<M31>> {
    if log_size >= LOG_ORDER {
        return Err(Error::shape(
            "circle_opening::basis",
            format!("2^{log_size} elements; at most 2^{} are supported", LOG_ORDER - 1),
        ));
    }
    let n = 1usize << log_size;
    let mut out = Matrix::alloc(stream, n, 4)?;
    let shape = Shape::cover(n.div_ceil(WARP_ELEMENTS) * 32, THREADS)?;
    let kernels = CircleOpening::kernels(stream.device(), ())?;
    kernels[BASIS].launch(stream, shape, (out.values_mut(), n as u64, Factors::new(p)))?;
    Ok(out)
}

/// The x coordinate of twice a point: `2 x^2 - 1`.
fn double_x<E: Ring>(x: E) -> E {
    x * x + x * x - E::ONE
}

/// Threads per block, and elements of the basis per warp.
const THREADS: u32 = 256;
const WARP_ELEMENTS: usize = 1_024;

parameters! {
    /// The factors of the basis by the bits of an index, split as a warp uses them.
    struct Factors = "Factors" => {
        combined: [QM31; 32],
        lanes: [QM31; 5],
        groups: [QM31; 32],
    }
}

impl Factors {
    fn new([x, y]: [QM31; 2]) -> Self {
        let mut doubled = x;
        let factors: [QM31; 31] = std::array::from_fn(|j| {
            if j == 0 {
                return y;
            }
            let factor = doubled;
            doubled = double_x(doubled);
            factor
        });
        let product = |bits: usize| {
            let set = [0, 1, 7, 8, 9].into_iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1);
            set.fold(QM31::ONE, |product, (_, j)| product * factors[j])
        };
        Self {
            combined: std::array::from_fn(product),
            lanes: std::array::from_fn(|k| factors[2 + k]),
            groups: std::array::from_fn(|k| factors.get(10 + k).copied().unwrap_or(QM31::ONE)),
        }
    }
}

pub(crate) struct CircleOpening;

/// The kernels, in the order in which they are compiled.
const WEIGHTS: usize = 0;
const BASIS: usize = 1;

impl Operation for CircleOpening {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "open/circle_opening.cu",
        text: include_str!("circle_opening.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64), ("WARP_ELEMENTS", WARP_ELEMENTS as u64)],
    };

    fn instances((): ()) -> Instances {
        Instances::new(["circle_weights", "circle_basis"]).takes::<ReversedCoset>().takes::<Factors>()
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}
