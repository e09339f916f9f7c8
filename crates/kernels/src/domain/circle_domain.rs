//! Cosets and domains of the circle group over Mersenne-31, their points, and the twiddles of the transforms on them.
//!
//! The group consists of the 2^31 points with `x^2 + y^2 = 1`, under `(x, y) + (x', y') = (x x' - y y', x y' + y x')`:
//! complex numbers of norm 1 under multiplication.
//!
//! - [`points`]: the points of a domain, in bit-reversed order
//! - [`twiddles`], [`twiddles_and_inverses`]: Stwo's twiddle tower for a coset of n points. Layer d has n / 2^(d + 1)
//!   words starting at `n - n / 2^d`, the x coordinates of the first half of the coset doubled d times, in bit-reversed
//!   order. The last word is 1.
//!
//! Points need no table: the lanes of a warp compute the high part of their points' indices together, in five products
//! (see `circle_domain.cuh`). One launch each, which writes each word once; about 25 instructions per word.

use rigel_gpu::{Buffer, Error, Result, Shape, Stream};

use crate::code::{Instances, KernelFile, Operation, parameters};
use crate::field::{CM31, Mersenne31 as M31, Ring};
use crate::layout::matrix::Matrix;
use crate::vector::inverse;

/// The logarithm of the order of the group.
pub const LOG_ORDER: u32 = 31;

/// The generator of the group that Stwo uses.
const GENERATOR: CM31 = CM31([M31::new(2), M31::new(1_268_011_823)]);

/// The 2^`log_size` points `initial + i step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coset {
    /// The first point, x and y.
    pub initial: [M31; 2],
    /// The difference between consecutive points, a point of order 2^`log_size`.
    pub step: [M31; 2],
    /// The logarithm of the number of points.
    pub log_size: u32,
}

impl Coset {
    /// `g + <4 g>` with g the group's standard element of order 2^(`log_size` + 2): Stwo's `Coset::half_odds`. The
    /// size is at most 2^29.
    pub fn half_odds(log_size: u32) -> Result<Self> {
        if log_size + 2 > LOG_ORDER {
            return Err(Error::shape(
                "Coset::half_odds",
                format!("2^{log_size} points; at most 2^{} are supported", LOG_ORDER - 2),
            ));
        }
        let initial = double(GENERATOR, LOG_ORDER - log_size - 2);
        Ok(Self { initial: initial.0, step: double(initial, 2).0, log_size })
    }

    /// Checks that the points are on the circle, and that the step has the order that the size asks for.
    pub(crate) fn check(&self, operation: &'static str) -> Result<()> {
        let on_circle = |[x, y]: [M31; 2]| x * x + y * y == M31::ONE;
        if self.log_size > LOG_ORDER - 1 {
            return Err(Error::shape(
                operation,
                format!("a coset of 2^{} points; at most 2^{} are supported", self.log_size, LOG_ORDER - 1),
            ));
        }
        if !on_circle(self.initial) || !on_circle(self.step) {
            return Err(Error::shape(
                operation,
                format!("{:?} or {:?} is not a point of the circle", self.initial, self.step),
            ));
        }
        let half = self.log_size.checked_sub(1).map(|doublings| double(CM31(self.step), doublings));
        if half.unwrap_or(-CM31(self.step)) != -CM31::ONE {
            return Err(Error::shape(
                operation,
                format!("the step {:?} does not have order 2^{}", self.step, self.log_size),
            ));
        }
        Ok(())
    }
}

/// Stwo's circle domain of 2^(`half.log_size` + 1) points: those of `half`, then their conjugates `(x, -y)`.
///
/// In bit-reversed order, an even index i is the point of `half` with the reversed index i / 2, and its conjugate
/// follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Domain {
    /// The first half of the points.
    pub half: Coset,
}

impl Domain {
    /// Stwo's `CanonicCoset::new(log_size).circle_domain()`, of 2 to 2^30 points.
    pub fn canonic(log_size: u32) -> Result<Self> {
        let Some(half) = log_size.checked_sub(1) else {
            return Err(Error::shape("Domain::canonic", "a domain of one point; there must be at least two"));
        };
        Ok(Self { half: Coset::half_odds(half)? })
    }

    /// The logarithm of the number of points.
    pub fn log_size(&self) -> u32 {
        self.half.log_size + 1
    }
}

/// `2^doublings` times a point.
pub(crate) fn double(point: CM31, doublings: u32) -> CM31 {
    (0..doublings).fold(point, |point, _| point * point)
}

/// The 2^`log_size` words of Stwo's `precompute_twiddles(coset).twiddles`.
pub fn twiddles(stream: &Stream, coset: Coset) -> Result<Buffer<M31>> {
    coset.check("circle_domain::twiddles")?;
    let mut out = stream.alloc(1usize << coset.log_size)?;
    let mut initials = [CM31::ONE; DOUBLINGS];
    initials[0] = CM31(coset.initial);
    for i in 1..initials.len() {
        initials[i] = double(initials[i - 1], 1);
    }
    let shape = shape(stream, out.len());
    let arguments = (&mut out, coset.log_size, ReversedCoset::new(coset), Doublings { initials });
    CircleDomain::kernels(stream.device(), ())?[TWIDDLES].launch(stream, shape, arguments)?;
    Ok(out)
}

/// [`twiddles`], and the inverse of each of them. A coset whose doublings include a point of the y axis has a zero
/// twiddle, whose inverse is also zero; half cosets of domains have none.
pub fn twiddles_and_inverses(stream: &Stream, coset: Coset) -> Result<(Buffer<M31>, Buffer<M31>)> {
    let twiddles = twiddles(stream, coset)?;
    let n = twiddles.len();
    let twiddles = Matrix::new(twiddles, n, 1)?;
    let inverses = inverse::invert::<M31>(stream, &twiddles)?;
    Ok((twiddles.into_values(), inverses.into_values()))
}

/// The points of a domain in bit-reversed order, as a column of x and one of y coordinates.
pub fn points(stream: &Stream, domain: Domain) -> Result<Matrix<M31>> {
    domain.half.check("circle_domain::points")?;
    let n = 1usize << domain.log_size();
    let mut out = Matrix::alloc(stream, n, 2)?;
    let arguments = (out.values_mut(), n as u64, ReversedCoset::new(domain.half));
    CircleDomain::kernels(stream.device(), ())?[POINTS].launch(stream, shape(stream, n), arguments)?;
    Ok(out)
}

/// Threads per block.
const THREADS: u32 = 256;

/// The number of cosets: a coset and its repeated doublings.
const DOUBLINGS: usize = 32;

/// A warp for every 128 values, up to a grid that fills the device, whose warps then loop.
fn shape(stream: &Stream, n: usize) -> Shape {
    let most = stream.device().properties().multiprocessors as usize * 8;
    Shape::new(n.div_ceil(4 * THREADS as usize).clamp(1, most) as u32, THREADS)
}

parameters! {
    /// The summand for each bit of a bit-reversed index, to add to a coset's first point.
    pub(crate) struct ReversedCoset = "ReversedCoset" => {
        initial: CM31,
        steps: [CM31; 31],
    }
}

impl ReversedCoset {
    /// The summands of a coset that has been checked. Bits beyond its size add nothing.
    pub(crate) fn new(coset: Coset) -> Self {
        let mut steps = [CM31::ONE; 31];
        let mut step = CM31(coset.step);
        for k in (0..coset.log_size as usize).rev() {
            steps[k] = step;
            step = double(step, 1);
        }
        Self { initial: CM31(coset.initial), steps }
    }
}

parameters! {
    /// The first points of a coset and of the cosets obtained by repeatedly doubling its points.
    struct Doublings = "Doublings" => {
        initials: [CM31; DOUBLINGS],
    }
}

pub(crate) struct CircleDomain;

/// The kernels, in the order in which they are compiled.
const TWIDDLES: usize = 0;
const POINTS: usize = 1;

impl Operation for CircleDomain {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "domain/circle_domain.cu",
        text: include_str!("circle_domain.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64), ("DOUBLINGS", DOUBLINGS as u64)],
    };

    fn instances((): ()) -> Instances {
        Instances::new(["circle_twiddles", "circle_points"]).takes::<ReversedCoset>().takes::<Doublings>()
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}
