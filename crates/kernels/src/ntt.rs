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
    program.run(stream, job, out.values_mut().view_mut(), coefficients.values().view(), &[shift])?;
    Ok(out)
}

/// Coefficients of the columns' polynomials, given their evaluations on the coset `shift H`.
pub fn inverse<F: TwoAdic>(stream: &Stream, evaluations: &Matrix<F>, shift: F, order: Order) -> Result<Matrix<F>> {
    let log_rows = check("ntt::inverse", evaluations, 0)?;
    let undo = check_shift("ntt::inverse", shift)?;
    let mut out = Matrix::alloc(stream, evaluations.rows(), evaluations.columns())?;
    let program = Program::<F>::of(stream.device())?;
    let job = Job { log_rows, log_cosets: 0, inverse: true, input: order, output: Order::Natural };
    program.run(stream, job, out.values_mut().view_mut(), evaluations.values().view(), &[undo])?;
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
    let cosets: Vec<F> =
        (0..1usize << added_bits).map(|block| shift * root.pow(reverse_bits(block, added_bits))).collect();
    let batch = Program::<F>::batch(rows, columns);
    let mut coefficients = stream.alloc::<F>(rows * batch)?;
    for first in (0..columns).step_by(batch) {
        let count = batch.min(columns - first);
        let from = evaluations.column_range(first, first + count)?;
        let mut held = coefficients.range_mut(..rows * count)?;
        let mut to = out.reborrow().range((first * rows) << added_bits..((first + count) * rows) << added_bits)?;
        // The first pass of the interpolation may use the room of the result.
        program.run_through(stream, interpolate, held.reborrow(), to.reborrow(), from, &[F::ONE])?;
        program.run(stream, evaluate, to, held.view(), &cosets)?;
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
    polynomials: u32,
    log_size: u32,
    log_span: u32,
    log_cosets: u32,
    shifted: u32,
    reversed: u32,
    natural: u32,
    inverse: u32,
    unshifted: u32,
    scaled: u32,
}

// SAFETY: seventeen words of four or eight bytes, then ten of four bytes: no gaps, no invalid values.
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
        let tile = match (bits, wide, last, order) {
            (10, false, true, Order::BitReversed) => 4,
            (10, true, true, Order::Natural) => 8,
            (9..=10, true, _, _) => 4,
            (9, false, true, Order::BitReversed) | (8, true, _, _) => 8,
            (7..=10, ..) => 16,
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

    /// One block a tile and coset: of the runs of all polynomials in the last pass, of each polynomial before it.
    fn shape<F: Field>(self, pass: Pass<F>, last: bool) -> Result<Shape> {
        let log_runs = pass.log_size - self.bits();
        let polynomials = pass.polynomials as usize;
        let tiles = if last {
            (polynomials << log_runs).div_ceil(self.tile as usize)
        } else {
            (1usize << log_runs).div_ceil(self.tile as usize) * polynomials
        };
        Ok(Shape::cover(tiles << pass.log_cosets, 1)?.threads(self.threads()).shared(self.shared::<F>()))
    }

    /// Bytes of shared memory: TILE runs of 2^R points with their padding.
    fn shared<F: Field>(self) -> u32 {
        let run = (1 << self.bits()) + (1 << self.bits() >> 3) + 2;
        self.tile * run * size_of::<F>() as u32
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
    tables: Mutex<HashMap<TableKey, Arc<Vec<Tables<F>>>>>,
}

/// A size, a direction and the cosets' shifts.
type TableKey = (u32, bool, Vec<u64>);

/// The tables of one pass, as `ntt_pass` in `ntt.cu` reads them. Those of all passes are as large as one column of
/// the result.
struct Tables<F: Plain> {
    points: Buffer<F>,
    stages: Buffer<F>,
    twiddles: Buffer<F>,
}

/// `start, start ratio, start ratio^2, ..`
fn geometric<F: Field>(start: F, ratio: F, len: usize) -> impl Iterator<Item = F> {
    std::iter::successors(Some(start), move |&power| Some(power * ratio)).take(len)
}

/// The `bits` low bits of `x` in reverse order.
fn reverse_bits(x: usize, bits: u32) -> u64 {
    (x as u64).reverse_bits().checked_shr(64 - bits).unwrap_or(0)
}

impl<F: TwoAdic> Tables<F> {
    /// The tables of a pass that cuts `span` bits by `cut`; `shifts` are those of the cosets, or one.
    fn new(stream: &Stream, cut: Cut, span: u32, shifts: &[F]) -> Result<Self> {
        let [r1, r2, _] = cut.stages;
        let (bits, low) = (cut.bits(), cut.bits() - r1);
        let stride = 1u64 << (span - bits);
        let points = shifts.iter().flat_map(|shift| geometric(F::ONE, shift.pow(stride << low), 1 << r1));

        let rows = |bits: u32, taken: u32, shift: F| {
            let ratio = move |q| F::two_adic_generator(bits).pow(reverse_bits(q, taken)) * shift;
            (0..1 << taken).flat_map(move |q| geometric(F::ONE, ratio(q), 1 << (bits - taken)))
        };
        let second = rows(low, r2, F::ONE);
        let first = shifts.iter().flat_map(|shift| rows(bits, r1, shift.pow(stride)));

        let ratios = |shift: F| {
            (0..1usize << bits).map(move |p| F::two_adic_generator(span).pow(reverse_bits(p, bits)) * shift)
        };
        let twiddles = shifts
            .iter()
            .flat_map(|&shift| ratios(shift))
            .flat_map(|ratio| geometric(F::ONE, ratio, stride as usize));
        Ok(Self {
            points: stream.upload(&points.collect::<Vec<_>>())?,
            stages: stream.upload(&second.chain(first).collect::<Vec<_>>())?,
            twiddles: stream.upload(&twiddles.collect::<Vec<_>>())?,
        })
    }
}

impl<F: TwoAdic> Program<F> {
    fn of(device: &Device) -> Result<Arc<Self>> {
        device.program(|_| Ok(Self { kernels: Mutex::default(), tables: Mutex::default() }))
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

    /// The tables of each pass of a job on cosets with these shifts.
    fn tables(&self, stream: &Stream, job: Job, shifts: &[F]) -> Result<Arc<Vec<Tables<F>>>> {
        let key = (job.log_rows, job.inverse, shifts.iter().map(|shift| shift.to_u64()).collect());
        let mut known = self.tables.lock().expect("no panic while the lock is held");
        if let Some(tables) = known.get(&key) {
            return Ok(tables.clone());
        }
        let mut tables = Vec::new();
        if job.log_rows < 5 {
            let powers = shifts.iter().flat_map(|&shift| geometric(F::ONE, shift, 1 << job.log_rows));
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
                tables.push(Tables::new(stream, cut, span, shifts)?);
                span -= taken;
            }
            if job.inverse && shifts != [F::ONE] {
                let powers: Vec<F> = geometric(F::ONE, shifts[0], 1 << job.log_rows).collect();
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
            roots[k] = roots[k - 1] * F::two_adic_generator(5);
        }
        let plain = shifts == [F::ONE];
        let whole = Pass {
            roots,
            scale: F::from_u64(1 << job.log_rows).inverse().expect("a power of two is not zero"),
            polynomials: count(polynomials)?,
            log_size: job.log_rows,
            log_span: job.log_rows,
            log_cosets: job.log_cosets,
            shifted: u32::from(!plain && !job.inverse),
            reversed: u32::from(job.input == Order::BitReversed),
            natural: u32::from(job.output == Order::Natural),
            inverse: u32::from(job.inverse),
            unshifted: u32::from(!plain && job.inverse),
            scaled: u32::from(job.inverse),
        };
        let tables = self.tables(stream, job, shifts)?;
        if job.log_rows < 5 {
            let kernel = self.small(stream.device(), job.log_rows)?;
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
                shifted: if first { whole.shifted } else { 0 },
                reversed: if first { whole.reversed } else { 0 },
                unshifted: if last { whole.unshifted } else { 0 },
                scaled: if last { whole.scaled } else { 0 },
                ..whole
            };
            let cut = Cut::of::<F>(taken, last, job.output);
            let kernel = self.pass(stream.device(), cut, last)?;
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
