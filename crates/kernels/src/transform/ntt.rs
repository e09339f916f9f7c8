//! Two-adic number-theoretic transforms and low-degree extension, over all columns of a matrix.
//!
//! With w the root of unity of order n = 2^k that Plonky3 uses and a coset shift s,
//!
//! - forward: coefficients c to evaluations `e[j] = sum_i c[i] (s w^j)^i`
//! - inverse: evaluations to coefficients
//! - extension: evaluations on the subgroup of order n to evaluations on the coset `s H'`, `|H'| = n 2^added_bits`
//!
//! Evaluations are read and written in natural or in bit-reversed order; coefficients are in natural order.
//! [`inverse_assign`] and [`evaluate_into`] take any other generator of the roots of unity.
//!
//! A transform of up to 2^10 rows is one pass over memory, up to 2^20 two, up to 2^24 three. An extension is one
//! inverse transform and, for each of its 2^added_bits cosets of the original size, one forward transform that
//! reads the coefficients. Cost per point and pass: one read, one write, about 5 products and 10 additions.

use std::collections::HashSet;
use std::marker::PhantomData;
use std::sync::Arc;

use rigel_gpu::{Error, Result, Shape, Stream, View, ViewMut};

use crate::code::{Instances, KernelFile, Operation};
use crate::domain::block::Block;
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
    let transform = Transform {
        log_rows,
        log_cosets: 0,
        inverse: false,
        input: Order::Natural,
        output: order,
        generator: generator(),
    };
    run(stream, transform, out.values_mut().view_mut(), Some(coefficients.values()), &[shift])?;
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
    let transform = Transform {
        log_rows,
        log_cosets: 0,
        inverse: true,
        input: order,
        output: Order::Natural,
        generator: generator(),
    };
    run(stream, transform, out.values_mut().view_mut(), Some(evaluations.values()), &[undo])?;
    Ok(out)
}

/// Coefficients of the columns' polynomials in place of their evaluations on the subgroup that the given root of unity
/// generates: `generator` has the order 2^`TWO_ADICITY`, and columns have `rows` values each.
pub fn inverse_assign<F: TwoAdic>(
    stream: &Stream,
    mut values: ViewMut<'_, F>,
    rows: usize,
    order: Order,
    generator: F,
) -> Result<()> {
    const NAME: &str = "ntt::inverse_assign";
    let log_rows = check::<F>(NAME, rows, 0)?;
    check_generator(NAME, generator)?;
    if !values.len().is_multiple_of(rows) {
        return Err(Error::shape(NAME, format!("{} values are no columns of {rows} rows", values.len())));
    }
    let transform =
        Transform { log_rows, log_cosets: 0, inverse: true, input: order, output: Order::Natural, generator };
    let columns = values.len() / rows;
    let batch = column_batch::<F>(rows, columns);
    for first in (0..columns).step_by(batch) {
        let end = columns.min(first + batch);
        run(stream, transform, values.reborrow().range(first * rows..end * rows)?, None, &[F::ONE])?;
    }
    Ok(())
}

/// Evaluations of the columns' polynomials, given by coefficients, on the subgroup of 2^`added_bits` times as many
/// points that the given root of unity generates, in bit-reversed order. `generator` has the order 2^`TWO_ADICITY`.
pub fn evaluate_into<F: TwoAdic>(
    stream: &Stream,
    out: ViewMut<'_, F>,
    coefficients: Columns<'_, F>,
    added_bits: u32,
    generator: F,
) -> Result<()> {
    const NAME: &str = "ntt::evaluate_into";
    let rows = coefficients.rows();
    let log_rows = check::<F>(NAME, rows, added_bits)?;
    check_generator(NAME, generator)?;
    check_evaluations(NAME, &out, coefficients, added_bits)?;
    let (transform, cosets) = on_cosets(log_rows, added_bits, generator);
    run(stream, transform, out, Some(coefficients.values()), &cosets)
}

/// Evaluates as [`evaluate_into`] does, on the coset `shift H'` of the subgroup H' that Plonky3's root of unity
/// generates.
pub fn evaluate_coset_into<F: TwoAdic>(
    stream: &Stream,
    out: ViewMut<'_, F>,
    coefficients: Columns<'_, F>,
    added_bits: u32,
    shift: F,
) -> Result<()> {
    const NAME: &str = "ntt::evaluate_coset_into";
    let log_rows = check::<F>(NAME, coefficients.rows(), added_bits)?;
    check_shift(NAME, shift)?;
    check_evaluations(NAME, &out, coefficients, added_bits)?;
    let (transform, cosets) = on_shifted_cosets(log_rows, added_bits, shift);
    run(stream, transform, out, Some(coefficients.values()), &cosets)
}

/// Evaluates as [`evaluate_coset_into`] does, but the rows of `block` of every column are in `room` afterwards,
/// column after column, and the values of `out` in their place are undefined.
pub fn evaluate_coset_apart<F: TwoAdic>(
    stream: &Stream,
    mut out: ViewMut<'_, F>,
    coefficients: Columns<'_, F>,
    added_bits: u32,
    shift: F,
    block: Block,
    room: ViewMut<'_, F>,
) -> Result<()> {
    const NAME: &str = "ntt::evaluate_coset_apart";
    let log_rows = check::<F>(NAME, coefficients.rows(), added_bits)?;
    check_shift(NAME, shift)?;
    check_evaluations(NAME, &out, coefficients, added_bits)?;
    let rows = coefficients.rows() << added_bits;
    if block.first() + block.rows() > rows || room.len() != block.rows() * coefficients.columns() {
        let columns = coefficients.columns();
        let detail = format!("{block:?} of {columns} columns of {rows} rows, into room for {} values", room.len());
        return Err(Error::shape(NAME, detail));
    }
    let (transform, cosets) = on_shifted_cosets(log_rows, added_bits, shift);
    // The last pass writes runs, so a block must have whole ones.
    if log_rows >= LOG_SMALL && passes(log_rows).last().is_some_and(|&bits| bits <= block.log_rows) {
        return launch_passes(
            stream,
            transform,
            out,
            None,
            Some(coefficients.values()),
            &cosets,
            Some((block, room)),
        );
    }
    run(stream, transform, out.reborrow(), Some(coefficients.values()), &cosets)?;
    stream.copy(room, out.view().runs(rows, block.first()..block.first() + block.rows())?)
}

fn check_evaluations<F: TwoAdic>(
    operation: &'static str,
    out: &ViewMut<'_, F>,
    coefficients: Columns<'_, F>,
    added_bits: u32,
) -> Result<()> {
    if out.len() == coefficients.values().len() << added_bits {
        return Ok(());
    }
    Err(Error::shape(
        operation,
        format!(
            "{} coefficients evaluated at 2^{added_bits} times as many points, into room for {}",
            coefficients.values().len(),
            out.len()
        ),
    ))
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

/// Extends as [`extend`] does in bit-reversed order, into an existing buffer of `rows << added_bits` values per
/// column.
pub fn extend_into<'a, F: TwoAdic>(
    stream: &Stream,
    mut out: ViewMut<'_, F>,
    evaluations: impl Into<Columns<'a, F>>,
    added_bits: u32,
    shift: F,
    input: Order,
) -> Result<()> {
    let evaluations = evaluations.into();
    check_extension("ntt::extend", evaluations.rows(), added_bits, shift)?;
    let log_rows = evaluations.rows().trailing_zeros();
    let (rows, columns) = (evaluations.rows(), evaluations.columns());
    if out.len() != (rows << added_bits) * columns {
        return Err(Error::shape(
            "ntt::extend",
            format!("the output has {} values; the result needs {}", out.len(), (rows << added_bits) * columns),
        ));
    }
    let interpolate = Transform {
        log_rows,
        log_cosets: 0,
        inverse: true,
        input,
        output: Order::Natural,
        generator: generator(),
    };
    // The interpolation multiplies coefficient k by shift^k, so the first coset needs no further shift.
    let (evaluate, cosets) = on_cosets(log_rows, added_bits, generator());
    let batch = column_batch::<F>(rows, columns);
    let mut coefficients = stream.alloc::<F>(rows * batch)?;
    for first in (0..columns).step_by(batch) {
        let count = batch.min(columns - first);
        let from = evaluations.values().range(first * rows..(first + count) * rows)?;
        let mut held = coefficients.range_mut(..rows * count)?;
        let mut to = out.reborrow().range((first * rows) << added_bits..((first + count) * rows) << added_bits)?;
        // The first pass of the interpolation may use the memory of the result.
        run_through(stream, interpolate, held.reborrow(), to.reborrow(), Some(from), &[shift])?;
        run(stream, evaluate, to, Some(held.view()), &cosets)?;
    }
    Ok(())
}

/// Checks that columns of so many rows can be extended to a coset with this shift.
pub(super) fn check_extension<F: TwoAdic>(
    operation: &'static str,
    rows: usize,
    added_bits: u32,
    shift: F,
) -> Result<()> {
    check::<F>(operation, rows, added_bits)?;
    check_shift(operation, shift).map(drop)
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

/// Plonky3's generator of the roots of unity.
fn generator<F: TwoAdic>() -> F {
    F::two_adic_generator(F::TWO_ADICITY)
}

/// Checks the order of a generator, and whether the kernels can use it.
fn check_generator<F: TwoAdic>(operation: &'static str, given: F) -> Result<()> {
    if given.pow(1 << (F::TWO_ADICITY - 1)) != -F::ONE {
        let detail = format!("{given:?} does not have the order 2^{}", F::TWO_ADICITY);
        return Err(Error::shape(operation, detail));
    }
    if F::ROOTS_ARE_SHIFTS && given != generator() {
        return Err(Error::shape(operation, format!("{} supports no other generator than Plonky3's", F::NAME)));
    }
    Ok(())
}

/// The transform from coefficients to evaluations on 2^`added_bits` times as many points, and the shifts of its cosets.
///
/// In bit-reversed order the result is one block after another of 2^`log_rows` points, block b on the coset
/// `w^rev(b)` of H, w the root of unity of the large domain.
fn on_cosets<F: TwoAdic>(log_rows: u32, added_bits: u32, generator: F) -> (Transform<F>, Vec<F>) {
    let transform = Transform {
        log_rows,
        log_cosets: added_bits,
        inverse: false,
        input: Order::Natural,
        output: Order::BitReversed,
        generator,
    };
    let root = root(generator, log_rows + added_bits, false);
    let cosets = (0..1usize << added_bits).map(|block| root.pow(reverse_bits(block, added_bits))).collect();
    (transform, cosets)
}

/// The transform and shifts of `on_cosets`, for the coset `shift H'`.
fn on_shifted_cosets<F: TwoAdic>(log_rows: u32, added_bits: u32, shift: F) -> (Transform<F>, Vec<F>) {
    let (transform, mut cosets) = on_cosets(log_rows, added_bits, generator());
    cosets.iter_mut().for_each(|coset| *coset *= shift);
    (transform, cosets)
}

/// The inverse of a shift, which must not be zero.
fn check_shift<F: TwoAdic>(operation: &'static str, shift: F) -> Result<F> {
    shift.inverse().ok_or_else(|| Error::shape(operation, "the coset shift is zero; it must be invertible"))
}

/// A transform of all columns.
#[derive(Clone, Copy)]
struct Transform<F> {
    log_rows: u32,
    log_cosets: u32,
    inverse: bool,
    input: Order,
    output: Order,
    /// The root of unity of order 2^`TWO_ADICITY` whose powers are all others.
    generator: F,
}

impl<F> Transform<F> {
    /// Whether the last pass writes across runs: in natural order, adjacent points are of adjacent runs. A transform in
    /// one pass is a single run.
    fn across(&self) -> bool {
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

/// The constants of a transform on cosets with some shifts: everything that it reads besides points.
struct Constants<F: Field> {
    /// The tables of each pass.
    passes: Vec<Tables<F>>,
    /// The powers of the root of unity of order 32.
    roots: [F; ROOTS],
    /// One over the number of rows.
    scale: F,
}

/// The constants of a transform on cosets with these shifts, kept by the device for reuse.
fn constants<F: TwoAdic>(stream: &Stream, transform: Transform<F>, shifts: &[F]) -> Result<Arc<Constants<F>>> {
    let shift_words: Vec<u64> = shifts.iter().map(|shift| shift.to_u64()).collect();
    let key = (transform.log_rows, transform.inverse, transform.generator.to_u64(), shift_words);
    stream.device().kept(&key, |_| {
        let passes = make_tables(stream, transform, shifts)?;
        let bytes = passes.iter().map(Tables::bytes).sum();
        let mut powers = geometric(F::ONE, root(transform.generator, 5, transform.inverse), ROOTS);
        let roots = std::array::from_fn(|_| powers.next().expect("as many powers as roots"));
        Ok((Constants { passes, roots, scale: scale(transform.log_rows) }, bytes))
    })
}

fn make_tables<F: TwoAdic>(stream: &Stream, transform: Transform<F>, shifts: &[F]) -> Result<Vec<Tables<F>>> {
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
            tables.push(Tables::new(stream, cut, span, transform.generator, transform.inverse, shifts)?);
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

/// Transforms `from`, or without it `to` itself, into `to`, through temporary memory if it takes more than one pass.
fn run<F: TwoAdic>(
    stream: &Stream,
    transform: Transform<F>,
    to: ViewMut<'_, F>,
    from: Option<View<'_, F>>,
    shifts: &[F],
) -> Result<()> {
    if transform.across() {
        let mut room = stream.alloc::<F>(to.len())?;
        return run_through(stream, transform, to, room.view_mut(), from, shifts);
    }
    launch_passes(stream, transform, to, None, from, shifts, None)
}

/// Transforms as `run` does, with the first values of `room` as temporary memory.
fn run_through<F: TwoAdic>(
    stream: &Stream,
    transform: Transform<F>,
    to: ViewMut<'_, F>,
    room: ViewMut<'_, F>,
    from: Option<View<'_, F>>,
    shifts: &[F],
) -> Result<()> {
    let len = to.len();
    let room = if passes(transform.log_rows).len() > 1 { Some(room.range(..len)?) } else { None };
    launch_passes(stream, transform, to, room, from, shifts, None)
}

/// All passes. The last pass to natural order moves points between runs, so it can't be in place: the passes before it
/// work in `room`. In bit-reversed order all passes after the first are in place in `to`; if there is an `apart`, the
/// last one writes a block of the rows of every column to its room.
fn launch_passes<F: TwoAdic>(
    stream: &Stream,
    transform: Transform<F>,
    mut to: ViewMut<'_, F>,
    mut room: Option<ViewMut<'_, F>>,
    from: Option<View<'_, F>>,
    shifts: &[F],
    mut apart: Option<(Block, ViewMut<'_, F>)>,
) -> Result<()> {
    if to.is_empty() {
        return Ok(());
    }
    let polynomials = to.len() >> (transform.log_rows + transform.log_cosets);
    let count = |n: usize| {
        u32::try_from(n).map_err(|_| {
            Error::shape("ntt", format!("{n} columns and cosets exceed the limit of a launch; split them"))
        })
    };
    let constants = constants(stream, transform, shifts)?;
    let first_shifted = shifts.iter().position(|&shift| shift != F::ONE).map_or(u32::MAX, |coset| coset as u32);
    let unshifted = transform.inverse && first_shifted == 0;
    let whole = Pass {
        roots: constants.roots,
        scale: constants.scale,
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
        parts: u32::from(apart.is_some()),
        log_column: transform.log_rows + transform.log_cosets,
        log_block: apart.as_ref().map_or(0, |(block, _)| block.log_rows),
        block: apart.as_ref().map_or(0, |(block, _)| block.index as u32),
    };
    if transform.log_rows < LOG_SMALL {
        let small = Ntt::<F>::small(transform.log_rows, transform.inverse);
        let kernel = Ntt::<F>::kernel(stream.device(), small)?;
        let shape = Shape::cover(polynomials << transform.log_cosets, SMALL_THREADS)?;
        return kernel.launch(stream, shape, (to, from, &constants.passes[0].twiddles, whole));
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
            Some(room) if !last => (room.reborrow(), first.then(|| from.unwrap_or(to.view()))),
            Some(room) => (to.reborrow(), if first { from } else { Some(room.view()) }),
            None => (to.reborrow(), if first { from } else { None }),
        };
        let Tables { points, stages, twiddles } = &constants.passes[i];
        let apart = apart.as_mut().filter(|_| last).map(|(_, room)| room.reborrow());
        kernel.launch(stream, shape, (target, source, apart, points, stages, twiddles, pass))?;
    }
    Ok(())
}

/// 1 / 2^`log_rows`.
pub(super) fn scale<F: TwoAdic>(log_rows: u32) -> F {
    F::from_u64(1 << log_rows).inverse().expect("a power of two is not zero")
}
