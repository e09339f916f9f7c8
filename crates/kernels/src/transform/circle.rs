//! Stwo's circle transforms over Mersenne-31, over many columns at once.
//!
//! On a circle domain of 2^n points, with `t(i, h)` the twiddles of its layers (`y` for layer 0, `x` for layer 1, then
//! `2 x^2 - 1` repeatedly) and h = index >> (i + 1), layer i combines the points whose index differs in bit i:
//!
//! - evaluation, from the top layer down: `(a, b) -> (a + t b, a - t b)`
//! - interpolation, from layer 0 up: `(a, b) -> (a + b, (a - b) / t)`, and 1 / 2^n at the end
//!
//! Evaluations are in bit-reversed order, coefficients in the natural order of the basis, as in Stwo's
//! `CpuBackend`.
//!
//! | rows | passes over memory |
//! |---|---|
//! | up to 2^13 | one; smaller columns share a tile of 2^12 words |
//! | up to 2^23 | two: 12 or 13 layers on adjacent points, then up to 10 on points a stride apart |
//! | up to 2^28 | three |
//!
//! A pass reads and writes each word once. An evaluation on a domain 2^e times larger reads the coefficients 2^e times
//! in its first pass, all but the first time from the cache, and computes nothing for the zero padding. Each point
//! costs half a product, a sum and a difference per layer, about 3 instructions: 66 for 2^22 points. Twiddles are read
//! once per tile and column group: 2^(12 - 1) for tiles of 2^12 points and up to four columns, 2^10 at most for a
//! strided tile of 2^14.

use std::collections::HashSet;

use rigel_gpu::{Error, Result, Shape, Stream, View, ViewMut};

use crate::code::{Instances, KernelFile, Operation};
use crate::field::{Field, Mersenne31, Ring};
use crate::layout::columns::Columns;
use crate::layout::grid::column_batches;
use crate::layout::matrix::log2_rows;

mod plan;

use plan::{CONTIGUOUS_THREADS, Cut, Pass, PassPlan, Tiny};

/// The maximum number of rows of a domain, as a logarithm.
pub const MAX_LOG_ROWS: u32 = 28;

/// The twiddles and first point that the transforms of a circle domain of 2^n points need.
#[derive(Clone, Copy, Debug)]
pub struct Twiddles<'a> {
    /// The line twiddles of the domain's half coset, or of a coset that doubles to it, in Stwo's layout: layer after
    /// layer from the largest, each in bit-reversed order, padded with one value to a power of two. The last 2^(n-1)
    /// values are the domain's.
    pub tower: View<'a, Mersenne31>,
    /// The half coset's first point (x, y), needed for domains of 2 and 4 points only.
    pub initial: [Mersenne31; 2],
}

/// Evaluations to coefficients, in place, in columns of `rows`. The tower holds the inverse twiddles 1 / x,
/// `initial` the point itself.
pub fn interpolate(
    stream: &Stream,
    values: ViewMut<'_, Mersenne31>,
    rows: usize,
    twiddles: Twiddles<'_>,
) -> Result<()> {
    let transform = Transform::new("circle::interpolate", true, &values, values.view(), rows, None, twiddles)?;
    transform.run(stream, values, None)
}

/// Interpolates as [`interpolate`] does, out of place; both views have the same shape.
pub fn interpolate_into(
    stream: &Stream,
    to: ViewMut<'_, Mersenne31>,
    from: Columns<'_, Mersenne31>,
    twiddles: Twiddles<'_>,
) -> Result<()> {
    let transform =
        Transform::new("circle::interpolate_into", true, &to, from.values(), from.rows(), None, twiddles)?;
    transform.run(stream, to, Some(from.values()))
}

/// Coefficients to evaluations on a domain of 2^`log_domain` points, at least as many as there are coefficients: column
/// c of the result starts at `c << log_domain`. The tower holds the twiddles x themselves.
pub fn evaluate_into(
    stream: &Stream,
    to: ViewMut<'_, Mersenne31>,
    log_domain: u32,
    coefficients: Columns<'_, Mersenne31>,
    twiddles: Twiddles<'_>,
) -> Result<()> {
    let (from, rows) = (coefficients.values(), coefficients.rows());
    let transform = Transform::new("circle::evaluate_into", false, &to, from, rows, Some(log_domain), twiddles)?;
    transform.run(stream, to, Some(from))
}

/// A transform of all columns, after its shapes have been checked.
struct Transform<'a> {
    operation: &'static str,
    inverse: bool,
    columns: usize,
    log_rows: u32,
    log_domain: u32,
    twiddles: Twiddles<'a>,
    cut: Cut,
}

impl<'a> Transform<'a> {
    fn new(
        operation: &'static str,
        inverse: bool,
        to: &ViewMut<'_, Mersenne31>,
        from: View<'_, Mersenne31>,
        rows: usize,
        log_domain: Option<u32>,
        twiddles: Twiddles<'a>,
    ) -> Result<Self> {
        let refuse = |detail: String| Err(Error::shape(operation, detail));
        let log_rows = log2_rows(operation, rows)?;
        let log_domain = log_domain.unwrap_or(log_rows);
        if log_rows == 0 || log_domain > MAX_LOG_ROWS {
            return refuse(format!(
                "2^{log_rows} rows on a domain of 2^{log_domain} points; there must be from 2^1 to 2^{MAX_LOG_ROWS}"
            ));
        }
        if log_domain < log_rows {
            return refuse(format!(
                "2^{log_rows} coefficients on a domain of 2^{log_domain} points; the domain must have at least as \
                 many points"
            ));
        }
        if !from.len().is_multiple_of(rows) {
            return refuse(format!(
                "{} values; the number must be a multiple of the {rows} rows of a column",
                from.len()
            ));
        }
        let columns = from.len() / rows;
        if (columns << log_domain) != to.len() {
            return refuse(format!(
                "the output has {} values; {columns} columns of 2^{log_domain} points need {}",
                to.len(),
                columns << log_domain
            ));
        }
        let tower = twiddles.tower.len();
        if tower < 1 << (log_domain - 1) {
            return refuse(format!(
                "a domain of 2^{log_domain} points needs 2^{} twiddles; the tower has {tower}",
                log_domain - 1
            ));
        }
        if !tower.is_power_of_two() || tower > 1 << (MAX_TOWER - 1) {
            return refuse(format!(
                "a tower of {tower} twiddles; the number must be a power of two up to 2^{}",
                MAX_TOWER - 1
            ));
        }
        Ok(Self { operation, inverse, columns, log_rows, log_domain, twiddles, cut: Cut::of(log_rows) })
    }

    /// Runs the transform; without a `from` in place.
    fn run(
        &self,
        stream: &Stream,
        mut to: ViewMut<'_, Mersenne31>,
        from: Option<View<'_, Mersenne31>>,
    ) -> Result<()> {
        if self.columns == 0 {
            return Ok(());
        }
        if self.log_domain <= 2 {
            return self.run_tiny(stream, to, from);
        }
        let mut passes = self.cut.passes();
        if !self.inverse {
            passes.reverse();
        }
        for (i, &(low, layers)) in passes.iter().enumerate() {
            let scaled = self.inverse && i + 1 == passes.len();
            // The first pass copies the values, and expands each column of coefficients to the size of the domain.
            let (log_from, source) = if i == 0 { (self.log_rows, from) } else { (self.log_domain, None) };
            self.launch(stream, PassPlan::of(low, layers), scaled, log_from, to.reborrow(), source)?;
        }
        Ok(())
    }

    fn launch(
        &self,
        stream: &Stream,
        plan: PassPlan,
        scaled: bool,
        log_from: u32,
        mut to: ViewMut<'_, Mersenne31>,
        from: Option<View<'_, Mersenne31>>,
    ) -> Result<()> {
        let kernel = CircleKernel::Pass { plan, inverse: self.inverse, scaled };
        let kernel = CircleTransform::kernel(stream.device(), kernel)?;
        let multiprocessors = stream.device().properties().multiprocessors;
        for batch in column_batches(self.columns) {
            let columns = batch.len();
            let mut pass = Pass {
                words: (columns as u64) << self.log_domain,
                tower: self.twiddles.tower.len() as u32,
                log_from,
                log_to: self.log_domain,
                scale: 1 << (32 - self.log_rows),
                tiles: 0,
                together: 0,
            };
            let shape = plan.shape(&mut pass, columns as u32, multiprocessors)?;
            let to = to.reborrow().range(batch.start << self.log_domain..batch.end << self.log_domain)?;
            let from = from.map(|from| from.range(batch.start << log_from..batch.end << log_from)).transpose()?;
            kernel.launch(stream, shape, (to, from, self.twiddles.tower, pass))?;
        }
        Ok(())
    }

    /// Domains of two and four points, whose twiddles are not in any tower.
    fn run_tiny(
        &self,
        stream: &Stream,
        to: ViewMut<'_, Mersenne31>,
        from: Option<View<'_, Mersenne31>>,
    ) -> Result<()> {
        let [x, y] = self.twiddles.initial;
        let coordinate = |value: Mersenne31| match value.inverse() {
            None => Err(Error::shape(
                self.operation,
                format!("the half coset's first point ({x:?}, {y:?}) is on an axis; it must not be"),
            )),
            Some(inverse) => Ok(if self.inverse { inverse } else { value }),
        };
        let scale = Mersenne31::from_u64(1 << self.log_domain).inverse().expect("a power of two is not zero");
        let columns = u32::try_from(self.columns).map_err(|_| {
            Error::shape(
                self.operation,
                format!("{} columns exceed the limit of a launch; split them", self.columns),
            )
        })?;
        let tiny = Tiny {
            columns,
            log_from: self.log_rows,
            log_to: self.log_domain,
            // Two points differ only in y.
            x: if self.log_domain == 1 { x } else { coordinate(x)? },
            y: coordinate(y)?,
            scale,
        };
        let kernel = CircleTransform::kernel(stream.device(), CircleKernel::Tiny { inverse: self.inverse })?;
        kernel.launch(stream, Shape::cover(self.columns, TINY_THREADS)?, (to, from, tiny))
    }
}

/// The maximum number of twiddles of a tower, as a logarithm plus one: those of the largest half coset of the circle
/// group.
const MAX_TOWER: u32 = 31;

/// Threads per block for transforms of two and four points.
const TINY_THREADS: u32 = 128;

/// The kernels, one module each.
pub(crate) struct CircleTransform;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CircleKernel {
    /// A pass; `scaled` for the last pass of an interpolation.
    Pass { plan: PassPlan, inverse: bool, scaled: bool },
    /// A whole transform of two or four points.
    Tiny { inverse: bool },
}

impl Operation for CircleTransform {
    type Variant = CircleKernel;

    const FILE: KernelFile = KernelFile {
        path: "transform/circle.cu",
        text: include_str!("circle.cu"),
        constants: &[("CONTIGUOUS_THREADS", CONTIGUOUS_THREADS as u64), ("TINY_THREADS", TINY_THREADS as u64)],
    };

    fn instances(kernel: CircleKernel) -> Instances {
        match kernel {
            CircleKernel::Pass { plan, inverse, scaled } => plan.instances(inverse, scaled),
            CircleKernel::Tiny { inverse } => Instances::one(format!("circle_tiny<{inverse}>")).takes::<Tiny>(),
        }
    }

    /// The kernels of transforms of up to two passes.
    fn warmed() -> Vec<CircleKernel> {
        let mut kernels = Vec::new();
        for log_rows in (1..=MOST_WARMED).rev() {
            for inverse in [false, true] {
                if log_rows <= 2 {
                    kernels.push(CircleKernel::Tiny { inverse });
                }
                let passes = Cut::of(log_rows).passes();
                for (i, &(low, layers)) in passes.iter().enumerate() {
                    let (plan, scaled) = (PassPlan::of(low, layers), inverse && i + 1 == passes.len());
                    kernels.push(CircleKernel::Pass { plan, inverse, scaled });
                }
            }
        }
        let mut seen = HashSet::new();
        kernels.retain(|&kernel| seen.insert(kernel));
        kernels
    }
}

/// The largest transform, as a logarithm, whose kernels are compiled in advance.
const MOST_WARMED: u32 = 23;

#[cfg(test)]
mod tests {
    use rigel_gpu::testing::on_each_device;

    use super::*;

    /// Pseudo-random values; any will do, since the layers of a transform are the same however they are split.
    fn values(len: usize, seed: u32) -> Vec<Mersenne31> {
        (0..len as u32).map(|i| Mersenne31::new((i ^ seed).wrapping_mul(0x9e37_79b9) ^ (i << 7))).collect()
    }

    /// However the layers are split into passes, the result is the same.
    #[test]
    fn cuts_agree() {
        on_each_device(|stream| {
            let tower = stream.upload(&values(1 << 18, 1)).unwrap();
            let twiddles = Twiddles { tower: tower.view(), initial: [Mersenne31::ONE; 2] };
            for (contiguous, strided) in
                [(12, vec![1, 1]), (13, vec![1, 2]), (12, vec![2, 3]), (12, vec![5]), (12, vec![6]), (10, vec![7])]
            {
                let log_rows = contiguous + strided.iter().sum::<u32>();
                let cut = Cut { contiguous, strided };
                let from = stream.upload(&values(2 << log_rows, 2)).unwrap();
                for (inverse, blowup) in [(true, 0), (false, 0), (false, 1)] {
                    let log_domain = log_rows + blowup;
                    let run = |cut: Option<Cut>| {
                        let mut to = stream.alloc::<Mersenne31>(2 << log_domain).unwrap();
                        let (room, rows) = (to.view_mut(), 1 << log_rows);
                        let mut transform = Transform::new(
                            "cuts_agree",
                            inverse,
                            &room,
                            from.view(),
                            rows,
                            Some(log_domain),
                            twiddles,
                        )
                        .unwrap();
                        transform.cut = cut.unwrap_or(transform.cut);
                        transform.run(stream, room, Some(from.view())).unwrap();
                        to.to_vec(stream).unwrap()
                    };
                    assert!(run(Some(cut.clone())) == run(None), "{cut:?}, inverse {inverse}, blowup {blowup}");
                }
            }
        });
    }
}
