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

use rigel_gpu::{Buffer, Device, Error, Kernel, Plain, Result, Shape, Stream, View, ViewMut};

use crate::field::Field;
use crate::matrix::{Matrix, log2_rows};
use crate::source::source;

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
pub trait TwoAdic: Field {}

impl TwoAdic for crate::field::BabyBear {}
impl TwoAdic for crate::field::KoalaBear {}
impl TwoAdic for crate::field::Goldilocks {}

/// Evaluations of the columns' polynomials on the coset `shift H`, given their coefficients.
pub fn forward<F: TwoAdic>(
    stream: &Stream,
    coefficients: &Matrix<F>,
    shift: F,
    order: Order,
) -> Result<Matrix<F>> {
    let log_rows = check("ntt::forward", coefficients, 0)?;
    check_shift("ntt::forward", shift)?;
    let mut out = Matrix::alloc(stream, coefficients.rows(), coefficients.columns())?;
    let program = Program::<F>::of(stream.device())?;
    let job = Job { log_rows, log_cosets: 0, inverse: false, input: Order::Natural, output: order };
    let shifts = program.shifts(stream, &[shift])?;
    program.run(stream, job, out.values_mut().view_mut(), coefficients.values().view(), shifts.as_deref())?;
    Ok(out)
}

/// Coefficients of the columns' polynomials, given their evaluations on the coset `shift H`.
pub fn inverse<F: TwoAdic>(stream: &Stream, evaluations: &Matrix<F>, shift: F, order: Order) -> Result<Matrix<F>> {
    let log_rows = check("ntt::inverse", evaluations, 0)?;
    let undo = check_shift("ntt::inverse", shift)?;
    let mut out = Matrix::alloc(stream, evaluations.rows(), evaluations.columns())?;
    let program = Program::<F>::of(stream.device())?;
    let job = Job { log_rows, log_cosets: 0, inverse: true, input: order, output: Order::Natural };
    let shifts = program.shifts(stream, &[undo])?;
    program.run(stream, job, out.values_mut().view_mut(), evaluations.values().view(), shifts.as_deref())?;
    Ok(out)
}

/// Evaluations on the coset `shift H'` of 2^`added_bits` times as many points, given evaluations on H.
pub fn extend<F: TwoAdic>(
    stream: &Stream,
    evaluations: &Matrix<F>,
    added_bits: u32,
    shift: F,
    input: Order,
    output: Order,
) -> Result<Matrix<F>> {
    check("ntt::extend", evaluations, added_bits)?;
    let mut out = Matrix::alloc(stream, evaluations.rows() << added_bits, evaluations.columns())?;
    extend_into(stream, out.values_mut().view_mut(), evaluations, added_bits, shift, input)?;
    match output {
        Order::BitReversed => Ok(out),
        Order::Natural => crate::permute::bit_reverse(stream, &out),
    }
}

/// As [`extend`] in bit-reversed order, into memory that is already there: `rows << added_bits` values a column.
pub fn extend_into<F: TwoAdic>(
    stream: &Stream,
    mut out: ViewMut<'_, F>,
    evaluations: &Matrix<F>,
    added_bits: u32,
    shift: F,
    input: Order,
) -> Result<()> {
    let log_rows = check("ntt::extend", evaluations, added_bits)?;
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
    let cosets: Vec<F> = (0..1u64 << added_bits)
        .map(|block| shift * root.pow(block.reverse_bits().checked_shr(64 - added_bits).unwrap_or(0)))
        .collect();
    let shifts = program.shifts(stream, &cosets)?;
    // A few columns at a time, so that what one pass writes the next still finds in the cache.
    let batch = program.batch(stream.device(), rows, columns);
    let mut coefficients = stream.alloc::<F>(rows * batch)?;
    for first in (0..columns).step_by(batch) {
        let count = batch.min(columns - first);
        let from = evaluations.column_range(first, first + count)?;
        let mut held = coefficients.range_mut(..rows * count)?;
        let mut to = out.reborrow().range((first * rows) << added_bits..((first + count) * rows) << added_bits)?;
        // The first pass of the interpolation may use the room of the result.
        program.run_through(stream, interpolate, held.reborrow(), to.reborrow(), from, None)?;
        program.run(stream, evaluate, to, held.view(), shifts.as_deref())?;
    }
    Ok(())
}

fn check<F: TwoAdic>(operation: &'static str, matrix: &Matrix<F>, added_bits: u32) -> Result<u32> {
    let log_rows = log2_rows(operation, matrix.rows())?;
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

/// The parameters of one launch, as `struct Pass` in `ntt.cu`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Pass<F> {
    roots: [F; 16],
    scale: F,
    log_size: u32,
    log_span: u32,
    log_cosets: u32,
    reversed: u32,
    natural: u32,
    shifted: u32,
    unshifted: u32,
    scaled: u32,
}

// SAFETY: words of one or two times four bytes, eight of four bytes: no padding, no invalid values.
unsafe impl<F: Field> Plain for Pass<F> {}

/// How a pass cuts its R bits, as `struct Plan` in `ntt.cu`: in stages of R1, R2 and R3 bits, TILE runs a block.
#[derive(Clone, Copy)]
struct Cut {
    stages: [u32; 3],
    tile: u32,
}

impl Cut {
    fn of<F: Field>(bits: u32, last: bool, order: Order) -> Self {
        let wide = size_of::<F>() == 8;
        let stages = match (bits, wide) {
            (8, true) => [3, 3, 2],
            (9, true) => [3, 3, 3],
            (10, true) => [4, 3, 3],
            _ => [bits.div_ceil(2), bits / 2, 0],
        };
        // The threads of a block are 128 to 512. Runs that are neighbours in memory (before the last pass, or in
        // natural order after it) are read or written 32 bytes at a time or more.
        let tile = match (bits, wide, last && order == Order::BitReversed) {
            (9..=10, false, true) => 4,
            (9..=10, false, false) => {
                if last {
                    8
                } else {
                    16
                }
            }
            (9..=10, true, _) => 4,
            (8, true, _) => 8,
            (7..=8, ..) => 16,
            _ => 32,
        };
        Self { stages, tile }
    }

    fn bits(self) -> u32 {
        self.stages.iter().sum()
    }

    fn threads(self) -> u32 {
        self.tile << (self.bits() - self.stages[0])
    }

    /// Bytes of shared memory: TILE runs of 2^R points with their padding.
    fn shared<F: Field>(self) -> u32 {
        let run = (1 << self.bits()) + (1 << self.bits() >> 3) + 2;
        self.tile * run * size_of::<F>() as u32
    }

    /// The twiddles inside a run: `w_(2^R)^(a rev(q))` at [q][a] for the first stage's q and, behind that, the same
    /// for the second stage and the bits it leaves.
    fn table<F: Field>(self, root: impl Fn(u32) -> F) -> Vec<F> {
        let stage = |bits: u32, taken: u32| {
            let row = |q: u64| {
                let ratio = root(bits).pow(q.reverse_bits().checked_shr(64 - taken).unwrap_or(0));
                std::iter::successors(Some(F::ONE), move |&power| Some(power * ratio)).take(1 << (bits - taken))
            };
            (0..1u64 << taken).flat_map(row).collect::<Vec<F>>()
        };
        let [r1, r2, _] = self.stages;
        [stage(self.bits(), r1), stage(self.bits() - r1, r2)].concat()
    }
}

/// The bits each pass takes.
fn passes(log_rows: u32) -> Vec<u32> {
    let count = log_rows.div_ceil(10);
    (0..count).map(|i| (log_rows + count - 1 - i) / count).collect()
}

/// Kernels and tables for one field on one device.
struct Program<F: TwoAdic> {
    kernels: Mutex<HashMap<String, Kernel>>,
    /// Roots and twiddles, forward and inverse.
    directions: [Direction<F>; 2],
    /// Tables of powers of coset shifts, by the shifts.
    shifts: Mutex<HashMap<Vec<u64>, Arc<Buffer<F>>>>,
}

struct Direction<F: TwoAdic> {
    roots: [F; 16],
    /// Powers of the root of order 2^24, as `power_of` in `ntt.cu` reads them.
    twiddles: Buffer<F>,
    /// The twiddles inside a run of R bits, R = 5, 6, ..
    stages: Vec<Buffer<F>>,
}

/// `base^i` and `base^(4096 i)`, i < 4096.
fn power_table<F: Field>(base: F) -> Vec<F> {
    let powers = |base: F| std::iter::successors(Some(F::ONE), move |&power| Some(power * base)).take(4096);
    powers(base).chain(powers(base.pow(4096))).collect()
}

impl<F: TwoAdic> Direction<F> {
    fn new(stream: &Stream, inverse: bool) -> Result<Self> {
        let root = |bits| {
            let root = F::two_adic_generator(bits);
            if inverse { root.inverse().expect("a root of unity is not zero") } else { root }
        };
        let mut roots = [F::ONE; 16];
        for k in 1..16 {
            roots[k] = roots[k - 1] * root(5);
        }
        let stages = (5..=10)
            .map(|bits| stream.upload(&Cut::of::<F>(bits, true, Order::Natural).table(root)))
            .collect::<Result<_>>()?;
        Ok(Self { roots, twiddles: stream.upload(&power_table(root(MAX_LOG_ROWS)))?, stages })
    }
}

impl<F: TwoAdic> Program<F> {
    fn of(device: &Device) -> Result<Arc<Self>> {
        device.program(|device| {
            let stream = device.compute()?;
            let directions = [Direction::new(&stream, false)?, Direction::new(&stream, true)?];
            stream.synchronize()?;
            Ok(Self { kernels: Mutex::default(), directions, shifts: Mutex::default() })
        })
    }

    fn kernel(&self, device: &Device, expression: String) -> Result<Kernel> {
        if let Some(kernel) = self.kernels.lock().expect("no panic while the lock is held").get(&expression) {
            return Ok(kernel.clone());
        }
        // One module a kernel, so that a program compiles only the sizes it uses.
        let module =
            device.compile(&source("ntt.cu", include_str!("../cuda/ntt.cu")).kernel(expression.clone()))?;
        let kernel = module.kernel(&expression)?;
        self.kernels.lock().expect("no panic while the lock is held").insert(expression, kernel.clone());
        Ok(kernel)
    }

    /// The kernel of a pass.
    fn pass(&self, device: &Device, cut: Cut, last: bool) -> Result<Kernel> {
        let Cut { stages: [r1, r2, r3], tile } = cut;
        self.kernel(device, format!("ntt_pass<{}, Plan<{r1}, {r2}, {r3}, {tile}, {last}> >", F::NAME))
    }

    /// The kernel of a whole transform of less than 2^5 points.
    fn small(&self, device: &Device, log_rows: u32) -> Result<Kernel> {
        self.kernel(device, format!("ntt_small<{}, {log_rows}>", F::NAME))
    }

    /// Tables of powers of the shifts, or none if the only shift is 1.
    fn shifts(&self, stream: &Stream, shifts: &[F]) -> Result<Option<Arc<Buffer<F>>>> {
        if shifts == [F::ONE] {
            return Ok(None);
        }
        let key: Vec<u64> = shifts.iter().map(|shift| shift.to_u64()).collect();
        let mut known = self.shifts.lock().expect("no panic while the lock is held");
        if let Some(table) = known.get(&key) {
            return Ok(Some(table.clone()));
        }
        let values: Vec<F> = shifts.iter().flat_map(|&shift| power_table(shift)).collect();
        let table = Arc::new(stream.upload(&values)?);
        // Other streams may ask for it next.
        stream.synchronize()?;
        known.insert(key, table.clone());
        Ok(Some(table))
    }

    /// Columns to extend at a time: their coefficients take a quarter of the second-level cache, and their first
    /// pass fills the device.
    fn batch(&self, device: &Device, rows: usize, columns: usize) -> usize {
        let properties = device.properties();
        let cached = properties.l2_bytes / 4 / (rows * size_of::<F>()).max(1);
        let filling = (properties.multiprocessors as usize * 4 * (16 << 10)).div_ceil(rows.max(1));
        cached.max(filling).clamp(1, columns.max(1))
    }

    /// Transforms `from` into `to`, through memory of its own where it takes more than one pass.
    fn run(
        &self,
        stream: &Stream,
        job: Job,
        to: ViewMut<'_, F>,
        from: View<'_, F>,
        shifts: Option<&Buffer<F>>,
    ) -> Result<()> {
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
        shifts: Option<&Buffer<F>>,
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
        mut to: ViewMut<'_, F>,
        mut room: Option<ViewMut<'_, F>>,
        from: View<'_, F>,
        shifts: Option<&Buffer<F>>,
    ) -> Result<()> {
        if from.is_empty() {
            return Ok(());
        }
        let direction = &self.directions[usize::from(job.inverse)];
        let size = 1usize << job.log_rows;
        let scale = F::from_u64(size as u64).inverse().expect("a power of two is not zero");
        let template = Pass {
            roots: direction.roots,
            scale,
            log_size: job.log_rows,
            log_span: job.log_rows,
            log_cosets: job.log_cosets,
            reversed: u32::from(job.input == Order::BitReversed),
            natural: u32::from(job.output == Order::Natural),
            shifted: u32::from(shifts.is_some() && !job.inverse),
            unshifted: u32::from(shifts.is_some() && job.inverse),
            scaled: u32::from(job.inverse),
        };
        // Not read unless one of the flags says so.
        let shifts = shifts.unwrap_or(&direction.twiddles).view();
        if job.log_rows < 5 {
            return self.launch_small(stream, template, to, from, shifts);
        }
        let bits = passes(job.log_rows);
        let mut span = job.log_rows;
        for (i, &taken) in bits.iter().enumerate() {
            let (first, last) = (i == 0, i + 1 == bits.len());
            let cut = Cut::of::<F>(taken, last, job.output);
            let pass = Pass {
                log_span: span,
                log_cosets: if first { job.log_cosets } else { 0 },
                reversed: if first { template.reversed } else { 0 },
                shifted: if first { template.shifted } else { 0 },
                unshifted: if last { template.unshifted } else { 0 },
                scaled: if last { template.scaled } else { 0 },
                ..template
            };
            span -= taken;
            let tables = [direction.stages[taken as usize - 5].view(), direction.twiddles.view(), shifts];
            match (&mut room, first, last) {
                (Some(room), true, _) => self.launch(stream, cut, last, pass, room.reborrow(), from, tables)?,
                (Some(room), false, false) => {
                    let source = room.view();
                    self.launch_in_place(stream, cut, last, pass, source, tables)?;
                }
                (Some(room), false, true) => {
                    self.launch(stream, cut, last, pass, to.reborrow(), room.view(), tables)?;
                }
                (None, true, _) => self.launch(stream, cut, last, pass, to.reborrow(), from, tables)?,
                (None, false, _) => self.launch_in_place(stream, cut, last, pass, to.view(), tables)?,
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn launch(
        &self,
        stream: &Stream,
        cut: Cut,
        last: bool,
        pass: Pass<F>,
        mut to: ViewMut<'_, F>,
        from: View<'_, F>,
        tables: [View<'_, F>; 3],
    ) -> Result<()> {
        let size = 1usize << pass.log_size;
        self.grids(stream, cut, last, pass, from.len() / size, |kernel, shape, first, count| {
            let cosets = 1usize << pass.log_cosets;
            let to = to.reborrow().range(first * size * cosets..(first + count) * size * cosets)?;
            let from = from.range(first * size..(first + count) * size)?;
            kernel.launch(stream, shape, (to, from, tables[0], tables[1], tables[2], pass))
        })
    }

    fn launch_in_place(
        &self,
        stream: &Stream,
        cut: Cut,
        last: bool,
        pass: Pass<F>,
        values: View<'_, F>,
        tables: [View<'_, F>; 3],
    ) -> Result<()> {
        let size = 1usize << pass.log_size;
        self.grids(stream, cut, last, pass, values.len() / size, |kernel, shape, first, count| {
            let values = values.range(first * size..(first + count) * size)?;
            kernel.launch(stream, shape, (values, values, tables[0], tables[1], tables[2], pass))
        })
    }

    /// Calls `launch(kernel, shape, first, count)` for as many polynomials at a time as a grid has rows.
    fn grids(
        &self,
        stream: &Stream,
        cut: Cut,
        last: bool,
        pass: Pass<F>,
        polynomials: usize,
        mut launch: impl FnMut(&Kernel, Shape, usize, usize) -> Result<()>,
    ) -> Result<()> {
        const MOST: usize = 65_535;
        let kernel = self.pass(stream.device(), cut, last)?;
        let runs = 1u32 << (pass.log_size - cut.bits());
        let blocks = runs.div_ceil(cut.tile) << pass.log_cosets;
        for first in (0..polynomials).step_by(MOST) {
            let count = MOST.min(polynomials - first);
            let shape = Shape::new(blocks, cut.threads()).rows(count as u32).shared(cut.shared::<F>());
            launch(&kernel, shape, first, count)?;
        }
        Ok(())
    }

    fn launch_small(
        &self,
        stream: &Stream,
        pass: Pass<F>,
        to: ViewMut<'_, F>,
        from: View<'_, F>,
        shifts: View<'_, F>,
    ) -> Result<()> {
        let kernel = self.small(stream.device(), pass.log_size)?;
        let results = to.len() >> pass.log_size;
        kernel.launch(stream, Shape::cover(results, 128)?, (to, from, shifts, pass, results as u64))
    }
}

/// Compiles the passes of `bits` bits, or the transform of so many where it is a single small one.
pub(crate) fn warm<F: TwoAdic>(device: &Device, bits: u32) -> Result<()> {
    let program = Program::<F>::of(device)?;
    if bits < 5 {
        return program.small(device, bits).map(|_| ());
    }
    let cuts = [(false, Order::Natural), (true, Order::Natural), (true, Order::BitReversed)];
    cuts.iter()
        .try_for_each(|&(last, order)| program.pass(device, Cut::of::<F>(bits, last, order), last).map(|_| ()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{Goldilocks, KoalaBear};

    #[test]
    fn passes_cover_every_size_evenly() {
        for log_rows in 1..=24 {
            let bits = passes(log_rows);
            assert_eq!(bits.iter().sum::<u32>(), log_rows);
            assert!(bits.iter().all(|&b| b <= 10 && (b >= 5 || log_rows < 10)), "{log_rows}: {bits:?}");
        }
        assert_eq!(passes(20), [10, 10]);
        assert_eq!(passes(21), [7, 7, 7]);
    }

    #[test]
    fn tiles_fit_the_device_and_their_neighbours() {
        fn check<F: Field>(bits: u32, last: bool, order: Order) {
            let cut = Cut::of::<F>(bits, last, order);
            assert_eq!(cut.bits(), bits);
            assert!(cut.stages[0] <= 5 && cut.stages[0] >= cut.stages[1] && cut.stages[1] >= cut.stages[2]);
            assert!(cut.shared::<F>() <= 76 << 10);
            assert!((128..=512).contains(&cut.threads()), "{} threads for {bits} bits", cut.threads());
            // A pass before the last finds 2^5 neighbouring runs or more.
            assert!(cut.tile <= 32);
        }
        for bits in 5..=10 {
            for (last, order) in [(false, Order::Natural), (true, Order::Natural), (true, Order::BitReversed)] {
                check::<KoalaBear>(bits, last, order);
                check::<Goldilocks>(bits, last, order);
            }
        }
    }
}
