//! Two-adic number-theoretic transforms and low-degree extension, over all columns of a matrix.
//!
//! With w the root of unity of order n = 2^k that Plonky3 uses and a coset shift s,
//!
//! - forward: coefficients c to evaluations `e[j] = sum_i c[i] (s w^j)^i`
//! - inverse: evaluations to coefficients
//! - extension: evaluations on the subgroup of order n to evaluations on the coset `s H'`, `|H'| = n 2^added_bits`
//!
//! Evaluations come and go in natural or in bit-reversed order; coefficients are in natural order.
//!
//! A transform of up to 2^10 rows is one pass over memory, up to 2^20 two, up to 2^24 three. An extension is one
//! inverse transform and, for each of its 2^added_bits cosets of the original size, one forward transform that
//! reads the coefficients. Cost per point and pass: one read, one write, about 5 products and 10 additions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rigel_gpu::{Device, Error, Kernel, Result, Shape, Stream, View, ViewMut};

use crate::code::source;
use crate::field::Field;
use crate::layout::columns::Columns;
use crate::layout::matrix::{Matrix, log2_rows};

mod plan;

use plan::{Cut, Pass, Tables, geometric, passes, reverse_bits, root};

/// The order of evaluations along a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Row j holds the evaluation at `s w^j`.
    Natural,
    /// Row j holds the evaluation at `s w^rev(j)`, rev reversing the bits of the index.
    BitReversed,
}

/// The most rows a transform may have, as a logarithm.
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
    let program = Program::<F>::of(stream.device())?;
    let job = Job { log_rows, log_cosets: 0, inverse: false, input: Order::Natural, output: order };
    program.run(stream, job, out.values_mut().view_mut(), coefficients.values(), &[shift])?;
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
    let program = Program::<F>::of(stream.device())?;
    let job = Job { log_rows, log_cosets: 0, inverse: true, input: order, output: Order::Natural };
    program.run(stream, job, out.values_mut().view_mut(), evaluations.values(), &[undo])?;
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

/// As [`extend`] in bit-reversed order, into memory that is already there: `rows << added_bits` values a column.
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
            format!("room for {} values, the result has {}", out.len(), (rows << added_bits) * columns),
        ));
    }
    let program = Program::<F>::of(stream.device())?;
    let interpolate = Job { log_rows, log_cosets: 0, inverse: true, input, output: Order::Natural };
    // In bit-reversed order the result is one block after another of `rows` points, block b on the coset
    // `shift w^rev(b)` of H, w the root of unity of the large domain.
    let evaluate = Job {
        log_rows,
        log_cosets: added_bits,
        inverse: false,
        input: Order::Natural,
        output: Order::BitReversed,
    };
    let root = F::two_adic_generator(log_rows + added_bits);
    // The interpolation multiplies coefficient k by shift^k, so that the first coset needs no shift of its own.
    let cosets: Vec<F> =
        (0..1usize << added_bits).map(|block| root.pow(reverse_bits(block, added_bits))).collect();
    let batch = Program::<F>::batch(rows, columns);
    let mut coefficients = stream.alloc::<F>(rows * batch)?;
    for first in (0..columns).step_by(batch) {
        let count = batch.min(columns - first);
        let from = evaluations.values().range(first * rows..(first + count) * rows)?;
        let mut held = coefficients.range_mut(..rows * count)?;
        let mut to = out.reborrow().range((first * rows) << added_bits..((first + count) * rows) << added_bits)?;
        // The first pass of the interpolation may use the room of the result.
        program.run_through(stream, interpolate, held.reborrow(), to.reborrow(), from, &[shift])?;
        program.run(stream, evaluate, to, held.view(), &cosets)?;
    }
    Ok(())
}

fn check<F: TwoAdic>(operation: &'static str, rows: usize, added_bits: u32) -> Result<u32> {
    let log_rows = log2_rows(operation, rows)?;
    let most = MAX_LOG_ROWS.min(F::TWO_ADICITY);
    if log_rows > most {
        return Err(Error::shape(operation, format!("2^{log_rows} rows; {} has at most 2^{most}", F::NAME)));
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
    shift.inverse().ok_or_else(|| Error::shape(operation, "the coset shift is zero"))
}

/// One transform of all columns.
#[derive(Clone, Copy)]
struct Job {
    log_rows: u32,
    log_cosets: u32,
    inverse: bool,
    input: Order,
    output: Order,
}

/// Kernels and tables for one field on one device.
struct Program<F: TwoAdic> {
    kernels: Mutex<HashMap<String, Kernel>>,
    tables: Mutex<HashMap<TableKey, Arc<Vec<Tables<F>>>>>,
}

/// A size, a direction and the cosets' shifts.
type TableKey = (u32, bool, Vec<u64>);

impl<F: TwoAdic> Program<F> {
    fn of(device: &Device) -> Result<Arc<Self>> {
        device.program(|_| Ok(Self { kernels: Mutex::default(), tables: Mutex::default() }))
    }

    fn kernel(&self, device: &Device, expression: String) -> Result<Kernel> {
        if let Some(kernel) = self.kernels.lock().expect("no panic while the lock is held").get(&expression) {
            return Ok(kernel.clone());
        }
        // One module a kernel, so that a program compiles only the sizes it uses.
        let module = device.compile(&source("ntt.cu", include_str!("ntt.cu")).kernel(expression.clone()))?;
        let kernel = module.kernel(&expression)?;
        self.kernels.lock().expect("no panic while the lock is held").insert(expression, kernel.clone());
        Ok(kernel)
    }

    /// The kernel of a pass.
    fn pass(&self, device: &Device, cut: Cut, last: bool, inverse: bool) -> Result<Kernel> {
        let Cut { stages: [r1, r2, r3], tile } = cut;
        let inverse = inverse && F::ROOTS_ARE_SHIFTS;
        self.kernel(device, format!("ntt_pass<{}, Plan<{r1}, {r2}, {r3}, {tile}, {last}, {inverse}> >", F::NAME))
    }

    /// The kernel of a whole transform of less than 2^5 points.
    fn small(&self, device: &Device, log_rows: u32, inverse: bool) -> Result<Kernel> {
        let inverse = inverse && F::ROOTS_ARE_SHIFTS;
        self.kernel(device, format!("ntt_small<{}, {log_rows}, {inverse}>", F::NAME))
    }

    /// The tables of each pass of a job on cosets with these shifts.
    fn tables(&self, stream: &Stream, job: Job, shifts: &[F]) -> Result<Arc<Vec<Tables<F>>>> {
        let key = (job.log_rows, job.inverse, shifts.iter().map(|shift| shift.to_u64()).collect());
        let mut known = self.tables.lock().expect("no panic while the lock is held");
        if let Some(tables) = known.get(&key) {
            return Ok(tables.clone());
        }
        let mut tables = Vec::new();
        if job.log_rows < 5 {
            let start = if job.inverse { scale(job.log_rows) } else { F::ONE };
            let powers = shifts.iter().flat_map(|&shift| geometric(start, shift, 1 << job.log_rows));
            let twiddles = stream.upload(&powers.collect::<Vec<_>>())?;
            tables.push(Tables { points: stream.alloc(0)?, stages: stream.alloc(0)?, twiddles });
        } else {
            let bits = passes(job.log_rows);
            let mut span = job.log_rows;
            for (i, &taken) in bits.iter().enumerate() {
                let (first, last) = (i == 0, i + 1 == bits.len());
                // The shift of an inverse transform is for its results, not its points.
                let shifts = if first && !job.inverse { shifts } else { &[F::ONE] };
                let cut = Cut::of::<F>(taken, last, job.output);
                tables.push(Tables::new(stream, cut, span, job.inverse, shifts)?);
                span -= taken;
            }
            if job.inverse && shifts != [F::ONE] {
                let powers: Vec<F> = geometric(scale(job.log_rows), shifts[0], 1 << job.log_rows).collect();
                tables.last_mut().expect("at least one pass").twiddles = stream.upload(&powers)?;
            }
        }
        // Other streams may ask for them next.
        stream.synchronize()?;
        let tables = Arc::new(tables);
        known.insert(key, tables.clone());
        Ok(tables)
    }

    /// Columns to extend at a time: enough to keep the device busy, and few enough for their coefficients to be
    /// small beside the result.
    fn batch(rows: usize, columns: usize) -> usize {
        const COEFFICIENT_BYTES: usize = 256 << 20;
        (COEFFICIENT_BYTES / (rows * size_of::<F>())).clamp(1, columns.max(1))
    }

    /// Transforms `from` into `to`, through memory of its own where it takes more than one pass.
    fn run(&self, stream: &Stream, job: Job, to: ViewMut<'_, F>, from: View<'_, F>, shifts: &[F]) -> Result<()> {
        if passes(job.log_rows).len() > 1 && job.output == Order::Natural {
            let mut room = stream.alloc::<F>(to.len())?;
            return self.run_through(stream, job, to, room.view_mut(), from, shifts);
        }
        self.launch_passes(stream, job, to, None, from, shifts)
    }

    /// As `run`, with the first values of `room` to work in.
    fn run_through(
        &self,
        stream: &Stream,
        job: Job,
        to: ViewMut<'_, F>,
        room: ViewMut<'_, F>,
        from: View<'_, F>,
        shifts: &[F],
    ) -> Result<()> {
        let len = to.len();
        let room = if passes(job.log_rows).len() > 1 { Some(room.range(..len)?) } else { None };
        self.launch_passes(stream, job, to, room, from, shifts)
    }

    /// All passes. The last pass to natural order moves points between runs, so it can't be in place: the passes
    /// before it work in `room`. In bit-reversed order all passes after the first are in place in `to`.
    fn launch_passes(
        &self,
        stream: &Stream,
        job: Job,
        to: ViewMut<'_, F>,
        room: Option<ViewMut<'_, F>>,
        from: View<'_, F>,
        shifts: &[F],
    ) -> Result<()> {
        if from.is_empty() {
            return Ok(());
        }
        let polynomials = from.len() >> job.log_rows;
        let count = |n: usize| {
            u32::try_from(n)
                .map_err(|_| Error::shape("ntt", format!("{n} columns and cosets are too many at once")))
        };
        let mut roots = [F::ONE; 16];
        for k in 1..16 {
            roots[k] = roots[k - 1] * root(5, job.inverse);
        }
        let first_shifted =
            shifts.iter().position(|&shift| shift != F::ONE).map_or(u32::MAX, |coset| coset as u32);
        let unshifted = job.inverse && first_shifted == 0;
        let whole = Pass {
            roots,
            scale: scale(job.log_rows),
            polynomials: count(polynomials)?,
            log_size: job.log_rows,
            log_span: job.log_rows,
            log_cosets: job.log_cosets,
            shifted_from: if job.inverse { u32::MAX } else { first_shifted },
            reversed: u32::from(job.input == Order::BitReversed),
            natural: u32::from(job.output == Order::Natural),
            unshifted: u32::from(unshifted),
            // The table of an unshifted result holds the scale.
            scaled: u32::from(job.inverse && !unshifted),
            padding: 0,
        };
        let tables = self.tables(stream, job, shifts)?;
        if job.log_rows < 5 {
            let kernel = self.small(stream.device(), job.log_rows, job.inverse)?;
            let shape = Shape::cover(polynomials << job.log_cosets, 128)?;
            return kernel.launch(stream, shape, (to, from, &tables[0].twiddles, whole));
        }
        let bits = passes(job.log_rows);
        for (i, &taken) in bits.iter().enumerate() {
            let (first, last) = (i == 0, i + 1 == bits.len());
            let log_cosets = if first { job.log_cosets } else { 0 };
            let pass = Pass {
                // After the first pass each coset is a polynomial of its own.
                polynomials: count(polynomials << (job.log_cosets - log_cosets))?,
                log_span: job.log_rows - bits[..i].iter().sum::<u32>(),
                log_cosets,
                shifted_from: if first { whole.shifted_from } else { u32::MAX },
                reversed: if first { whole.reversed } else { 0 },
                unshifted: if last { whole.unshifted } else { 0 },
                scaled: if last { whole.scaled } else { 0 },
                ..whole
            };
            let cut = Cut::of::<F>(taken, last, job.output);
            let kernel = self.pass(stream.device(), cut, last, job.inverse)?;
            let shape = cut.shape::<F>(pass, last)?;
            let (target, source) = match (&room, first, last) {
                (Some(room), true, _) => (room.view(), from),
                (Some(room), false, false) => (room.view(), room.view()),
                (Some(room), false, true) => (to.view(), room.view()),
                (None, true, _) => (to.view(), from),
                (None, false, _) => (to.view(), to.view()),
            };
            let Tables { points, stages, twiddles } = &tables[i];
            kernel.launch(stream, shape, (target, source, points, stages, twiddles, pass))?;
        }
        Ok(())
    }
}

/// 1 / 2^`log_rows`.
fn scale<F: TwoAdic>(log_rows: u32) -> F {
    F::from_u64(1 << log_rows).inverse().expect("a power of two is not zero")
}

/// Compiles the passes of `bits` bits, or the transforms of so many where they are single small ones.
pub(crate) fn warm<F: TwoAdic>(device: &Device, bits: u32) -> Result<()> {
    let program = Program::<F>::of(device)?;
    for inverse in [false, true] {
        if bits < 5 {
            program.small(device, bits, inverse)?;
            continue;
        }
        // A pass before the last one, one to natural order and, forward only, one to bit-reversed order.
        program.pass(device, Cut::of::<F>(bits, false, Order::Natural), false, inverse)?;
        program.pass(device, Cut::of::<F>(bits, true, Order::Natural), true, inverse)?;
        if !inverse {
            program.pass(device, Cut::of::<F>(bits, true, Order::BitReversed), true, inverse)?;
        }
    }
    Ok(())
}
