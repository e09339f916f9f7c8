//! Two-adic number-theoretic transforms and low-degree extension, over all columns of a matrix.
//!
//! With w the root of unity of order n = 2^k that Plonky3 uses and a coset shift s,
//!
//! - forward: coefficients c to evaluations `e[j] = sum_i c[i] (s w^j)^i`
//! - inverse: evaluations to coefficients
//! - extension: evaluations on the subgroup of order n to evaluations on the coset `s H'`, `|H'| = n 2^added_bits`
//!
//! Evaluations are read and written in natural or in bit-reversed order; coefficients are in natural order.
//!
//! A transform of up to 2^10 rows is one pass over memory, up to 2^20 two, up to 2^24 three. An extension is one
//! inverse transform and, for each of its 2^added_bits cosets of the original size, one forward transform that
//! reads the coefficients. Cost per point and pass: one read, one write, about 5 products and 10 additions.

use std::collections::HashSet;
use std::marker::PhantomData;
use std::sync::Arc;

use rigel_gpu::{Error, Result, Shape, Stream, View, ViewMut};

use crate::code::{Instances, KernelFile, Operation};
use crate::field::Field;
use crate::layout::columns::Columns;
use crate::layout::matrix::{Matrix, log2_rows};

mod plan;

use plan::{Cut, Pass, ROOTS, Tables, geometric, passes, reverse_bits, root};

/// The order of evaluations along a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Row j holds the evaluation at `s w^j`.
    Natural,
    /// Row j holds the evaluation at `s w^rev(j)`, rev reversing the bits of the index.
    BitReversed,
}

/// The maximum number of rows of a transform, as a logarithm.
pub const MAX_LOG_ROWS: u32 = 24;

/// A field with roots of unity of order up to 2^24.
pub trait TwoAdic: Field {
    /// Whether kernels multiply by roots of order up to 2^5 with shifts, so that the direction is compiled in.
    const ROOTS_ARE_SHIFTS: bool = false;
}

impl TwoAdic for crate::field::BabyBear {}
impl TwoAdic for crate::field::KoalaBear {}
impl TwoAdic for crate::field::Goldilocks {
    const ROOTS_ARE_SHIFTS: bool = true;
}

/// Evaluations of the columns' polynomials on the coset `shift H`, given their coefficients.
pub fn forward<'a, F: TwoAdic>(
    stream: &Stream,
    coefficients: impl Into<Columns<'a, F>>,
    shift: F,
    order: Order,
) -> Result<Matrix<F>> {
    let coefficients = coefficients.into();
    let log_rows = check::<F>("ntt::forward", coefficients.rows(), 0)?;
    check_shift("ntt::forward", shift)?;
    let mut out = Matrix::alloc(stream, coefficients.rows(), coefficients.columns())?;
    let transform = Transform { log_rows, log_cosets: 0, inverse: false, input: Order::Natural, output: order };
    run(stream, transform, out.values_mut().view_mut(), coefficients.values(), &[shift])?;
    Ok(out)
}

/// Coefficients of the columns' polynomials, given their evaluations on the coset `shift H`.
pub fn inverse<'a, F: TwoAdic>(
    stream: &Stream,
    evaluations: impl Into<Columns<'a, F>>,
    shift: F,
    order: Order,
) -> Result<Matrix<F>> {
    let evaluations = evaluations.into();
    let log_rows = check::<F>("ntt::inverse", evaluations.rows(), 0)?;
    let undo = check_shift("ntt::inverse", shift)?;
    let mut out = Matrix::alloc(stream, evaluations.rows(), evaluations.columns())?;
    let transform = Transform { log_rows, log_cosets: 0, inverse: true, input: order, output: Order::Natural };
    run(stream, transform, out.values_mut().view_mut(), evaluations.values(), &[undo])?;
    Ok(out)
}

/// Evaluations on the coset `shift H'` of 2^`added_bits` times as many points, given evaluations on H.
pub fn extend<'a, F: TwoAdic>(
    stream: &Stream,
    evaluations: impl Into<Columns<'a, F>>,
    added_bits: u32,
    shift: F,
    input: Order,
    output: Order,
) -> Result<Matrix<F>> {
    let evaluations = evaluations.into();
    check::<F>("ntt::extend", evaluations.rows(), added_bits)?;
    let mut out = Matrix::alloc(stream, evaluations.rows() << added_bits, evaluations.columns())?;
    extend_into(stream, out.values_mut().view_mut(), evaluations, added_bits, shift, input)?;
    match output {
        Order::BitReversed => Ok(out),
        Order::Natural => crate::layout::permute::bit_reverse(stream, &out),
    }
}

/// As [`extend`] in bit-reversed order, into an existing buffer of `rows << added_bits` values per column.
pub fn extend_into<'a, F: TwoAdic>(
    stream: &Stream,
    mut out: ViewMut<'_, F>,
    evaluations: impl Into<Columns<'a, F>>,
    added_bits: u32,
    shift: F,
    input: Order,
) -> Result<()> {
    let evaluations = evaluations.into();
    let log_rows = check::<F>("ntt::extend", evaluations.rows(), added_bits)?;
    check_shift("ntt::extend", shift)?;
    let (rows, columns) = (evaluations.rows(), evaluations.columns());
    if out.len() != (rows << added_bits) * columns {
        return Err(Error::shape(
            "ntt::extend",
            format!("the output has {} values; the result needs {}", out.len(), (rows << added_bits) * columns),
        ));
    }
    let interpolate = Transform { log_rows, log_cosets: 0, inverse: true, input, output: Order::Natural };
    // In bit-reversed order the result is one block after another of `rows` points, block b on the coset
    // `shift w^rev(b)` of H, w the root of unity of the large domain.
    let evaluate = Transform {
        log_rows,
        log_cosets: added_bits,
        inverse: false,
        input: Order::Natural,
        output: Order::BitReversed,
    };
    let root = F::two_adic_generator(log_rows + added_bits);
    // The interpolation multiplies coefficient k by shift^k, so the first coset needs no further shift.
    let cosets: Vec<F> =
        (0..1usize << added_bits).map(|block| root.pow(reverse_bits(block, added_bits))).collect();
    let batch = column_batch::<F>(rows, columns);
    let mut coefficients = stream.alloc::<F>(rows * batch)?;
    for first in (0..columns).step_by(batch) {
        let count = batch.min(columns - first);
        let from = evaluations.values().range(first * rows..(first + count) * rows)?;
        let mut held = coefficients.range_mut(..rows * count)?;
        let mut to = out.reborrow().range((first * rows) << added_bits..((first + count) * rows) << added_bits)?;
        // The first pass of the interpolation may use the memory of the result.
        run_through(stream, interpolate, held.reborrow(), to.reborrow(), from, &[shift])?;
        run(stream, evaluate, to, held.view(), &cosets)?;
    }
    Ok(())
}

fn check<F: TwoAdic>(operation: &'static str, rows: usize, added_bits: u32) -> Result<u32> {
    let log_rows = log2_rows(operation, rows)?;
    let most = MAX_LOG_ROWS.min(F::TWO_ADICITY);
    if log_rows > most {
        return Err(Error::shape(operation, format!("2^{log_rows} rows; {} supports at most 2^{most}", F::NAME)));
    }
    if log_rows + added_bits > F::TWO_ADICITY {
        return Err(Error::shape(
            operation,
            format!(
                "2^{log_rows} rows extended by {added_bits} bits; {} has no root of unity of that order (2^{} at most)",
                F::NAME,
                F::TWO_ADICITY
            ),
        ));
    }
    Ok(log_rows)
}

/// The inverse of a shift, which must not be zero.
fn check_shift<F: TwoAdic>(operation: &'static str, shift: F) -> Result<F> {
    shift.inverse().ok_or_else(|| Error::shape(operation, "the coset shift is zero; it must be invertible"))
}

/// A transform of all columns.
#[derive(Clone, Copy)]
struct Transform {
    log_rows: u32,
    log_cosets: u32,
    inverse: bool,
    input: Order,
    output: Order,
}

impl Transform {
    /// Whether the last pass writes across runs: in natural order, adjacent points are of adjacent runs. A transform in
    /// one pass is a single run.
    fn across(self) -> bool {
        self.output == Order::Natural && passes(self.log_rows).len() > 1
    }
}

/// The kernels of transforms over one field, one module each.
pub(crate) struct Ntt<F>(PhantomData<F>);

/// A kernel. The direction is compiled in only where [roots are shifts](TwoAdic::ROOTS_ARE_SHIFTS).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum NttKernel {
    /// A pass.
    Pass { cut: Cut, last: bool, inverse: bool },
    /// A whole transform of fewer than 2^5 points.
    Small { log_rows: u32, inverse: bool },
}

/// Transforms of fewer than 2^this points are computed by a single thread each.
const LOG_SMALL: u32 = 5;

/// Threads per block for small transforms.
const SMALL_THREADS: u32 = 128;

impl<F: TwoAdic> Ntt<F> {
    fn pass(cut: Cut, last: bool, inverse: bool) -> NttKernel {
        NttKernel::Pass { cut, last, inverse: inverse && F::ROOTS_ARE_SHIFTS }
    }

    fn small(log_rows: u32, inverse: bool) -> NttKernel {
        NttKernel::Small { log_rows, inverse: inverse && F::ROOTS_ARE_SHIFTS }
    }
}

impl<F: TwoAdic> Operation for Ntt<F> {
    type Variant = NttKernel;

    const FILE: KernelFile = KernelFile {
        path: "transform/ntt.cu",
        text: include_str!("ntt.cu"),
        constants: &[("ROOTS", ROOTS as u64)],
    };

    fn instances(kernel: NttKernel) -> Instances {
        let instances = match kernel {
            NttKernel::Pass { cut, last, inverse } => {
                let Cut { stages: [r1, r2, r3], tile } = cut;
                let plan = format!("Plan<{r1}, {r2}, {r3}, {tile}, {last}, {inverse}>");
                Instances::one(format!("ntt_pass<{}, {plan} >", F::NAME))
                    .assert(format!("{plan}::THREADS == {}", cut.threads()))
                    .assert(format!("{plan}::TILE * {plan}::RUN * sizeof({}) == {}", F::NAME, cut.shared::<F>()))
            }
            NttKernel::Small { log_rows, inverse } => {
                Instances::one(format!("ntt_small<{}, {log_rows}, {inverse}>", F::NAME))
            }
        };
        instances.takes::<Pass<F>>()
    }

    /// The widest first, since they take longest to compile.
    fn warmed() -> Vec<NttKernel> {
        let mut kernels = Vec::new();
        for bits in (0..=plan::MOST_BITS).rev() {
            for inverse in [false, true] {
                if bits < LOG_SMALL {
                    kernels.push(Self::small(bits, inverse));
                    continue;
                }
                // A pass before the last one, a last one across runs and one within each run.
                for (last, across) in [(false, false), (true, true), (true, false)] {
                    kernels.push(Self::pass(Cut::of::<F>(bits, last, across), last, inverse));
                }
            }
        }
        let mut seen = HashSet::new();
        kernels.retain(|&kernel| seen.insert(kernel));
        kernels
    }
}

/// The tables of each pass of a transform on cosets with these shifts, kept by the device for reuse.
fn tables<F: TwoAdic>(stream: &Stream, transform: Transform, shifts: &[F]) -> Result<Arc<Vec<Tables<F>>>> {
    let shift_words: Vec<u64> = shifts.iter().map(|shift| shift.to_u64()).collect();
    let key = (transform.log_rows, transform.inverse, shift_words);
    stream.device().kept(&key, |_| {
        let tables = make_tables(stream, transform, shifts)?;
        let bytes = tables.iter().map(Tables::bytes).sum();
        Ok((tables, bytes))
    })
}

fn make_tables<F: TwoAdic>(stream: &Stream, transform: Transform, shifts: &[F]) -> Result<Vec<Tables<F>>> {
    let mut tables = Vec::new();
    if transform.log_rows < LOG_SMALL {
        let start = if transform.inverse { scale(transform.log_rows) } else { F::ONE };
        let powers = shifts.iter().flat_map(|&shift| geometric(start, shift, 1 << transform.log_rows));
        let twiddles = stream.upload(&powers.collect::<Vec<_>>())?;
        tables.push(Tables { points: stream.alloc(0)?, stages: stream.alloc(0)?, twiddles });
    } else {
        let bits = passes(transform.log_rows);
        let mut span = transform.log_rows;
        for (i, &taken) in bits.iter().enumerate() {
            let (first, last) = (i == 0, i + 1 == bits.len());
            // The shift of an inverse transform is for its results, not its points.
            let shifts = if first && !transform.inverse { shifts } else { &[F::ONE] };
            let cut = Cut::of::<F>(taken, last, transform.across());
            tables.push(Tables::new(stream, cut, span, transform.inverse, shifts)?);
            span -= taken;
        }
        if transform.inverse && shifts != [F::ONE] {
            let powers: Vec<F> =
                geometric(scale(transform.log_rows), shifts[0], 1 << transform.log_rows).collect();
            tables.last_mut().expect("at least one pass").twiddles = stream.upload(&powers)?;
        }
    }
    // Other streams may use them next.
    stream.synchronize()?;
    Ok(tables)
}

/// The number of columns to extend at a time: enough to keep the device busy, and few enough for their coefficients to
/// be small compared with the result.
fn column_batch<F: TwoAdic>(rows: usize, columns: usize) -> usize {
    const COEFFICIENT_BYTES: usize = 256 << 20;
    (COEFFICIENT_BYTES / (rows * size_of::<F>())).clamp(1, columns.max(1))
}

/// Transforms `from` into `to`, through temporary memory if it takes more than one pass.
fn run<F: TwoAdic>(
    stream: &Stream,
    transform: Transform,
    to: ViewMut<'_, F>,
    from: View<'_, F>,
    shifts: &[F],
) -> Result<()> {
    if transform.across() {
        let mut room = stream.alloc::<F>(to.len())?;
        return run_through(stream, transform, to, room.view_mut(), from, shifts);
    }
    launch_passes(stream, transform, to, None, from, shifts)
}

/// As `run`, with the first values of `room` as temporary memory.
fn run_through<F: TwoAdic>(
    stream: &Stream,
    transform: Transform,
    to: ViewMut<'_, F>,
    room: ViewMut<'_, F>,
    from: View<'_, F>,
    shifts: &[F],
) -> Result<()> {
    let len = to.len();
    let room = if passes(transform.log_rows).len() > 1 { Some(room.range(..len)?) } else { None };
    launch_passes(stream, transform, to, room, from, shifts)
}

/// All passes. The last pass to natural order moves points between runs, so it can't be in place: the passes before it
/// work in `room`. In bit-reversed order all passes after the first are in place in `to`.
fn launch_passes<F: TwoAdic>(
    stream: &Stream,
    transform: Transform,
    mut to: ViewMut<'_, F>,
    mut room: Option<ViewMut<'_, F>>,
    from: View<'_, F>,
    shifts: &[F],
) -> Result<()> {
    if from.is_empty() {
        return Ok(());
    }
    let polynomials = from.len() >> transform.log_rows;
    let count = |n: usize| {
        u32::try_from(n).map_err(|_| {
            Error::shape("ntt", format!("{n} columns and cosets exceed the limit of a launch; split them"))
        })
    };
    let mut roots = [F::ONE; ROOTS];
    for k in 1..ROOTS {
        roots[k] = roots[k - 1] * root(5, transform.inverse);
    }
    let first_shifted = shifts.iter().position(|&shift| shift != F::ONE).map_or(u32::MAX, |coset| coset as u32);
    let unshifted = transform.inverse && first_shifted == 0;
    let whole = Pass {
        roots,
        scale: scale(transform.log_rows),
        polynomials: count(polynomials)?,
        log_size: transform.log_rows,
        log_span: transform.log_rows,
        log_cosets: transform.log_cosets,
        shifted_from: if transform.inverse { u32::MAX } else { first_shifted },
        reversed: u32::from(transform.input == Order::BitReversed),
        natural: u32::from(transform.output == Order::Natural),
        unshifted: u32::from(unshifted),
        // The table of an unshifted result includes the scale.
        scaled: u32::from(transform.inverse && !unshifted),
        across: u32::from(transform.across()),
    };
    let tables = tables(stream, transform, shifts)?;
    if transform.log_rows < LOG_SMALL {
        let small = Ntt::<F>::small(transform.log_rows, transform.inverse);
        let kernel = Ntt::<F>::kernel(stream.device(), small)?;
        let shape = Shape::cover(polynomials << transform.log_cosets, SMALL_THREADS)?;
        return kernel.launch(stream, shape, (to, from, &tables[0].twiddles, whole));
    }
    let bits = passes(transform.log_rows);
    for (i, &taken) in bits.iter().enumerate() {
        let (first, last) = (i == 0, i + 1 == bits.len());
        let log_cosets = if first { transform.log_cosets } else { 0 };
        let pass = Pass {
            // After the first pass each coset is a separate polynomial.
            polynomials: count(polynomials << (transform.log_cosets - log_cosets))?,
            log_span: transform.log_rows - bits[..i].iter().sum::<u32>(),
            log_cosets,
            shifted_from: if first { whole.shifted_from } else { u32::MAX },
            reversed: if first { whole.reversed } else { 0 },
            unshifted: if last { whole.unshifted } else { 0 },
            scaled: if last { whole.scaled } else { 0 },
            ..whole
        };
        let cut = Cut::of::<F>(taken, last, transform.across());
        let kernel = Ntt::<F>::kernel(stream.device(), Ntt::<F>::pass(cut, last, transform.inverse))?;
        let shape = cut.shape::<F>(pass, last)?;
        // A source of `None` means in place.
        let (target, source) = match &mut room {
            Some(room) if !last => (room.reborrow(), first.then_some(from)),
            Some(room) => (to.reborrow(), Some(if first { from } else { room.view() })),
            None => (to.reborrow(), first.then_some(from)),
        };
        let Tables { points, stages, twiddles } = &tables[i];
        kernel.launch(stream, shape, (target, source, points, stages, twiddles, pass))?;
    }
    Ok(())
}

/// 1 / 2^`log_rows`.
fn scale<F: TwoAdic>(log_rows: u32) -> F {
    F::from_u64(1 << log_rows).inverse().expect("a power of two is not zero")
}
