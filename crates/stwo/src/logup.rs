//! LogUp columns on the device.
//!
//! A component's lookups are fractions, summed in batches. Each batch has a column of sums; only the last one runs
//! over all rows. With v_k the fraction of batch k in a row,
//!
//! ```text
//! column k = column k-1 + v_k                                  within a row
//! last column = prefix sums, in the order of the coset, of (column so far - claimed sum / rows)
//! ```
//!
//! - [`interaction_trace`] computes them from the component itself, which defines its fractions.
//! - [`LogupTraceGenerator`] computes them from columns of fractions.
//!
//! A batch costs the inversion of its denominators and a few passes over its columns. All denominators of a
//! component are inverted together.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::sync::{Arc, OnceLock, Weak};

use rigel_codegen::{Bindings, ExpressionGraph, GraphProgram, Output, Rows, Target};
use rigel_gpu::{Buffer, Device, Error, Result, View};
use rigel_kernels::Matrix;
use rigel_kernels::domain::circle_order;
use rigel_kernels::field::{Element, Mersenne31, QM31, Ring};
use rigel_kernels::layout::gather;
use rigel_kernels::vector::{fractions, inverse};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::poly::circle::CanonicCoset;
use stwo::prover::backend::Column;
use stwo::prover::poly::BitReversedOrder;
use stwo::prover::poly::circle::CircleEvaluation;
use stwo_constraint_framework::{FrameworkEval, InfoEvaluator, ORIGINAL_TRACE_IDX, PREPROCESSED_TRACE_IDX};

use crate::CudaBackend;
use crate::blocks::{self, bring, homes, shared_out, spread, words_on};
use crate::column::{BaseColumn, SecureColumn};
use crate::device::{stream, team};
use crate::field::{Twin, secure};
use crate::inputs::{DeviceParameters, TreeInput, bindings};
use crate::joined::{Joined, into_joined, split};
use crate::reading::Reading;
use crate::recorded::{Expressions, Recorded};
use crate::recorder::Source;
use crate::report::{gathered, phase};

type Evaluation = CircleEvaluation<CudaBackend, BaseField, BitReversedOrder>;

/// LogUp columns, and the claimed sum over all rows.
pub type Interaction = (Vec<Evaluation>, SecureField);

thread_local! {
    /// Whether denominators are checked on this thread.
    static CHECKED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, in which a lookup whose denominator is zero is an error of the function that computes its column, if
/// this thread calls it.
///
/// Otherwise such a fraction counts as zero. An honest prover meets one with a probability of about rows over 2^124,
/// but a fault in a component may make one in every proof. The check copies all inverted denominators to the host: 16
/// bytes per row and batch of lookups.
pub fn check_denominators<R>(work: impl FnOnce() -> R) -> R {
    // Restores the outer state even if `work` panics.
    struct Outer(bool);
    impl Drop for Outer {
        fn drop(&mut self) {
            CHECKED.set(self.0);
        }
    }
    let _outer = Outer(CHECKED.replace(true));
    work()
}

/// Refuses zeros among inverted denominators, four columns for each batch, if that was asked for: the inverse of zero
/// is zero, and no other. `first` is the number of the matrix's first row.
fn refuse_zeros(inverses: &Matrix<Mersenne31>, first: usize) -> Result<()> {
    if !CHECKED.get() {
        return Ok(());
    }
    let (rows, device) = (inverses.rows(), inverses.values().device());
    let stream = stream(&device);
    for batch in 0..inverses.columns() / 4 {
        let values = inverses.column_range(4 * batch, 4 * batch + 4)?.to_vec(&stream)?;
        let is_zero = |row: &usize| (0..4).all(|part| values[part * rows + row] == Mersenne31::ZERO);
        if let Some(row) = (0..rows).find(is_zero) {
            return Err(Error::shape(
                "LogUp",
                format!(
                    "the denominator of batch {batch} of lookups is zero in row {} (in bit-reversed order); check \
                     the lookup elements and the tuples",
                    first + row
                ),
            ));
        }
    }
    Ok(())
}

/// LogUp columns that the device is still computing.
///
/// Columns of many components are started one after another and finished together: the device computes the first while
/// the host prepares the next, and the first one that is finished copies the sums of all to the host.
#[must_use]
pub struct PendingInteraction {
    columns: Vec<Evaluation>,
    total: Arc<Total>,
}

/// The sum of a component's fractions.
struct Total {
    words: Buffer<Mersenne31>,
    /// The sum, once its coordinates were copied.
    read: OnceLock<SecureField>,
}

thread_local! {
    /// The sums that were started on this thread.
    static STARTED: RefCell<Vec<Weak<Total>>> = const { RefCell::new(Vec::new()) };
}

impl Total {
    /// The sum of columns that this thread started.
    fn new(words: Buffer<Mersenne31>) -> Arc<Self> {
        let total = Arc::new(Self { words, read: OnceLock::new() });
        STARTED.with_borrow_mut(|started| {
            started.retain(|total| total.strong_count() > 0);
            started.push(Arc::downgrade(&total));
        });
        total
    }

    /// Copies it to the host, with all others that this thread started on the device and that were not read yet.
    fn read(self: &Arc<Self>) -> Result<SecureField> {
        if let Some(&read) = self.read.get() {
            return Ok(read);
        }
        let device = self.words.device();
        let also = |total: &Arc<Self>| {
            !Arc::ptr_eq(total, self) && total.read.get().is_none() && total.words.device().is(&device)
        };
        let started: Vec<Arc<Self>> = STARTED.take().iter().filter_map(Weak::upgrade).collect();
        let (mut totals, others): (Vec<_>, Vec<_>) = started.into_iter().partition(also);
        STARTED.set(others.iter().map(Arc::downgrade).collect());
        totals.push(self.clone());
        let stream = stream(&device);
        let words = match &totals[..] {
            [total] => total.words.to_vec(&stream)?,
            totals => {
                let views: Vec<_> = totals.iter().map(|total| total.words.view()).collect();
                let picks = (0..totals.len() as u32).flat_map(|total| (0..4).map(move |part| [total, part]));
                let words = gather::words(&stream, &views, &picks.collect::<Vec<_>>(), 1)?;
                words.cast::<Mersenne31>()?.to_vec(&stream)?
            }
        };
        for (total, words) in totals.iter().zip(words.chunks_exact(4)) {
            let sum = QM31::from_parts(words).expect("four coordinates");
            total.read.get_or_init(|| secure(sum));
        }
        Ok(*self.read.get().expect("read above"))
    }
}

impl PendingInteraction {
    /// The columns before the last one of the secure field, and that one, four times 2^`log_size` values, which is
    /// replaced by its prefix sums.
    fn new(before: Vec<BaseColumn>, mut last: Buffer<Mersenne31>, log_size: u32) -> Result<Self> {
        let rows = 1 << log_size;
        let stream = stream(&last.device());
        let total = circle_order::centred_prefix_sums(&stream, last.view_mut(), rows)?;
        let domain = CanonicCoset::new(log_size).circle_domain();
        let columns = before.into_iter().chain(split(last, rows));
        let columns = columns.map(|column| Evaluation::new(domain, column)).collect();
        Ok(Self { columns, total: Total::new(total) })
    }

    /// The columns and the claimed sum. Waits for the device.
    pub fn finish(self) -> Result<Interaction> {
        let total = self.total.read()?;
        Ok((self.columns, total))
    }
}

/// Computes a component's LogUp columns from its own constraints. `eval` is the component with the drawn lookup
/// elements, `preprocessed` the preprocessed columns in the order in which it reads them, and `trace` its columns
/// of the original trace, all on the trace's domain (as before the commitment). A preprocessed column that the
/// component reads twice is passed twice. A fraction with a zero denominator counts as zero, unless
/// [`check_denominators`] makes it an error.
///
/// # Errors
/// A component without lookups, the wrong number or length of columns, and device errors.
pub fn interaction_trace<E: FrameworkEval>(
    eval: &E,
    preprocessed: &[&BaseColumn],
    trace: &[&BaseColumn],
) -> Result<Interaction> {
    start_interaction_trace(eval, preprocessed, trace)?.finish()
}

/// Starts the columns of [`interaction_trace`], without waiting for the device.
///
/// # Errors
/// As [`interaction_trace`]; what fails on the device later is an error of [`PendingInteraction::finish`].
pub fn start_interaction_trace<E: FrameworkEval>(
    eval: &E,
    preprocessed: &[&BaseColumn],
    trace: &[&BaseColumn],
) -> Result<PendingInteraction> {
    start_from(&Source::own(eval), preprocessed, trace)
}

/// The function that errors name.
const NAME: &str = "rigel_stwo::interaction_trace";

/// Starts the LogUp columns of a component whose fractions are recorded from `source`.
pub(crate) fn start_from<E: FrameworkEval>(
    source: &Source<'_, E>,
    preprocessed: &[&BaseColumn],
    trace: &[&BaseColumn],
) -> Result<PendingInteraction> {
    let _phase = phase("lookups");
    let log_size = source.log_size;
    if let Some(column) = preprocessed.iter().chain(trace).find(|column| column.len() != 1 << log_size) {
        return Err(Error::shape(
            NAME,
            format!("a column of {} rows, the component has 2^{log_size}", column.len()),
        ));
    }
    let reading = source.read(&(0..preprocessed.len()).collect::<Vec<_>>(), SecureField::default());
    let asked = [PREPROCESSED_TRACE_IDX, ORIGINAL_TRACE_IDX].map(|tree| reading.columns(tree));
    if asked != [preprocessed.len(), trace.len()] {
        let [fixed, columns] = asked;
        return Err(Error::shape(
            NAME,
            format!(
                "{} preprocessed columns and {} trace columns; the component expects {fixed} (a column that it \
                 reads twice counts twice) and {columns}",
                preprocessed.len(),
                trace.len()
            ),
        ));
    }
    if preprocessed.len() + trace.len() == 0 {
        return Err(Error::shape(NAME, "a component without columns has no rows"));
    }
    if let Some(devices) = shared_out(1 << log_size)?
        && let Some(started) = start_in_blocks(source, &reading, [preprocessed, trace], &devices)?
    {
        return Ok(started);
    }
    let (fixed, own) = (here(preprocessed)?, here(trace)?);
    let [fixed, own] = [&fixed, &own].map(|columns| columns.iter().map(Cow::as_ref).collect::<Vec<_>>());
    let (preprocessed, trace) = (&fixed[..], &own[..]);
    // All columns, or of those in host memory the ones that the fractions read.
    let deferred = preprocessed.iter().chain(trace).any(|column| column.place().is_some());
    let device = preprocessed.iter().chain(trace).next().expect("counted above").device().clone();
    let mut recorded = source.recorded(&device, reading)?;
    let inputs = if deferred {
        let part = recorded.only_fractions(2);
        recorded = part.recorded;
        [TreeInput::chosen(preprocessed, &part.columns[0]), TreeInput::chosen(trace, &part.columns[1])]
    } else {
        [preprocessed, trace].map(|columns| TreeInput::new(columns.to_vec(), std::iter::empty()))
    };
    check_batches(&recorded, &inputs)?;
    let rows = 1 << log_size;
    let order = Rows::Circle { log_rows: log_size, log_trace: log_size };
    let sums = running_sums(&device, &recorded, &inputs, (0, order))?.into_values();
    let at = sums.len() - 4 * rows;
    let (before, last) = sums.split_at(at)?;
    PendingInteraction::new(split(before, rows), last, log_size)
}

/// Refuses a component without lookups.
fn check_batches(recorded: &Recorded, inputs: &[TreeInput<'_>]) -> Result<()> {
    let batches = recorded.expressions.fractions.len();
    if batches > 0 && inputs.iter().any(|tree| tree.device().is_some()) {
        return Ok(());
    }
    Err(Error::shape(
        NAME,
        format!("{batches} batches of lookups in a component; it needs at least one, and at least one column"),
    ))
}

/// The sums of fractions along each row, in so many rows from the given one on.
fn running_sums(
    device: &Device,
    recorded: &Recorded,
    inputs: &[TreeInput<'_>],
    (first, rows): (usize, Rows),
) -> Result<Matrix<Mersenne31>> {
    let (program, stream) = (program(device, recorded)?, stream(device));
    let columns = 4 * recorded.expressions.fractions.len();
    let mut numerators = Matrix::alloc(&stream, rows.count(), columns)?;
    let mut denominators = Matrix::alloc(&stream, rows.count(), columns)?;
    let parameters = DeviceParameters::upload(device, recorded, &[], &[])?;
    let mut bindings = bindings(inputs).output(&mut numerators).output(&mut denominators);
    parameters.bind(&mut bindings)?;
    program.run(&stream, rows, &mut bindings)?;

    inverse::invert_assign::<QM31>(&stream, &mut denominators)?;
    refuse_zeros(&denominators, first)?;
    fractions::running_sums::<QM31>(&stream, &mut numerators, &denominators)?;
    Ok(numerators)
}

/// Starts the LogUp columns over several devices: each computes the sums along its block of the rows. Then each gets a
/// share of the columns, and the last one also the last column, for its prefix sums. `None` if fractions read
/// neighbouring rows.
fn start_in_blocks<E: FrameworkEval>(
    source: &Source<'_, E>,
    reading: &Reading,
    [preprocessed, trace]: [&[&BaseColumn]; 2],
    devices: &[Device],
) -> Result<Option<PendingInteraction>> {
    let recorded = devices.iter().map(|device| source.recorded(device, reading.clone()));
    let recorded = recorded.collect::<Result<Vec<_>>>()?;
    if preprocessed.iter().chain(trace).any(|column| column.place().is_some())
        || recorded[0].fractions_read_neighbours()
    {
        return Ok(None);
    }
    let trees = [spread(preprocessed, devices)?, spread(trace, devices)?];
    let block_rows = (1usize << source.log_size) / devices.len();
    let mut sums = Vec::with_capacity(devices.len());
    for (k, (device, recorded)) in devices.iter().zip(&recorded).enumerate() {
        let inputs = trees.each_ref().map(|columns| {
            let part = |column| BaseColumn::blocks(column).map(|blocks| &blocks.parts()[k]);
            TreeInput::new(columns.iter().filter_map(part).collect(), std::iter::empty())
        });
        check_batches(recorded, &inputs)?;
        let rows = Rows::Natural { rows: block_rows };
        sums.push(running_sums(device, recorded, &inputs, (k * block_rows, rows))?.into_values());
    }
    drop(trees);
    let columns = blocks::columns(sums, block_rows, devices);
    let before = columns.len() - 4;
    let mut to = homes(before, 1 << source.log_size)?;
    to.extend(vec![devices[devices.len() - 1].clone(); 4]);
    let mut columns = bring(columns, &to)?;
    let last = into_joined(columns.split_off(before))?;
    PendingInteraction::new(columns, last, source.log_size).map(Some)
}

/// Columns on the current device. A column that is elsewhere, because the work is shared out, is copied; unless it is
/// short, the report says so.
fn here<'a>(columns: &[&'a BaseColumn]) -> Result<Vec<Cow<'a, BaseColumn>>> {
    if team()?.len() == 1 && columns.iter().all(|column| column.blocks().is_none()) {
        return Ok(columns.iter().map(|&column| Cow::Borrowed(column)).collect());
    }
    let columns: Vec<BaseColumn> = columns.iter().map(|&column| column.clone()).collect();
    let to = vec![crate::current()?; columns.len()];
    if let (Some(device), Some(column)) = (to.first(), columns.first())
        && shared_out(column.len())?.is_some()
    {
        gathered(device, "lookups", "their fractions read neighbouring rows, or the host keeps their columns");
    }
    Ok(bring(columns, &to)?.into_iter().map(Cow::Owned).collect())
}

/// The kernels that write the numerators and denominators of a component's fractions.
fn program(device: &Device, recorded: &Recorded) -> Result<Arc<GraphProgram<QM31>>> {
    let Expressions { graph, fractions, fraction_program, .. } = &*recorded.expressions;
    fraction_program.get_or_make(|| {
        let mut outputs = Vec::with_capacity(2 * fractions.len());
        for (batch, &(numerator, denominator)) in fractions.iter().enumerate() {
            for (output, value) in [numerator, denominator].into_iter().enumerate() {
                outputs.push(Output::StoreExtension { value, output, column: 4 * batch });
            }
        }
        rigel_codegen::program(device, "fractions", graph, &outputs)
    })
}

/// Compiles the kernels of a component's lookups, if it has any, and returns their number.
pub(crate) fn compile<E: FrameworkEval>(device: &Device, source: &Source<'_, E>) -> Result<usize> {
    let reads = source.eval.evaluate(InfoEvaluator::empty()).preprocessed_columns.len();
    let recorded = source.record(&(0..reads).collect::<Vec<_>>(), SecureField::default());
    if recorded.expressions.fractions.is_empty() {
        return Ok(0);
    }
    Ok(program(device, &recorded)?.compiled(device)?.kernels())
}

/// The numerators of fractions.
#[derive(Clone, Copy, Debug)]
pub enum Numerators<'a> {
    /// A column of the secure field.
    Secure(&'a SecureColumn),
    /// A column of the base field, such as multiplicities.
    Base(&'a BaseColumn),
    /// One value in every row.
    Constant(SecureField),
}

/// Computes a component's LogUp columns from columns of fractions, with the API of upstream's generator for the
/// SIMD backend.
///
/// ```
/// use rigel_gpu::{Device, Selector};
/// use rigel_stwo::{LogupTraceGenerator, Numerators, SecureColumn};
/// use stwo::core::fields::qm31::SecureField;
///
/// # fn main() -> rigel_gpu::Result<()> {
/// let device = Device::open(Selector::Emulated(0))?; // or Device::from_env()
/// let (columns, claimed_sum) = rigel_stwo::on(&device, || -> rigel_gpu::Result<_> {
///     let four = SecureField::from_u32_unchecked(4, 0, 0, 0);
///     let denominators: SecureColumn = std::iter::repeat_n(four, 16).collect();
///     let mut generator = LogupTraceGenerator::new(4)?;
///     generator.new_col().write_fracs(Numerators::Constant(four), &denominators)?;
///     generator.finalize_last()
/// })?;
/// assert_eq!((columns.len(), claimed_sum), (4, SecureField::from_u32_unchecked(16, 0, 0, 0)));
/// # Ok(())
/// # }
/// ```
pub struct LogupTraceGenerator {
    device: Device,
    log_size: u32,
    /// The columns so far, each a slab.
    slabs: Vec<Buffer<Mersenne31>>,
}

impl LogupTraceGenerator {
    /// A generator of columns of 2^`log_size` rows on the [current](crate::current) device.
    pub fn new(log_size: u32) -> Result<Self> {
        Ok(Self { device: crate::current()?, log_size, slabs: Vec::new() })
    }

    /// The next column.
    pub fn new_col(&mut self) -> LogupColGenerator<'_> {
        LogupColGenerator { generator: self }
    }

    /// Adds a column: the previous column plus these fractions, given as a slab.
    fn push(&mut self, mut fractions: Buffer<Mersenne31>) -> Result<()> {
        let stream = stream(&self.device);
        if let Some(last) = self.slabs.last() {
            rigel_kernels::fri::circle_fold::lift_add(&stream, fractions.view_mut(), last.view())?;
        }
        self.slabs.push(fractions);
        Ok(())
    }

    /// Returns all columns, with prefix sums in the last one, and the sum of all fractions.
    pub fn finalize_last(self) -> Result<Interaction> {
        let _phase = phase("lookups");
        let mut slabs = self.slabs;
        let Some(last) = slabs.pop() else {
            return Err(Error::shape("LogupTraceGenerator::finalize_last", "there are no columns of fractions"));
        };
        let before = slabs.into_iter().flat_map(|slab| split(slab, 1 << self.log_size)).collect();
        PendingInteraction::new(before, last, self.log_size)?.finish()
    }
}

/// One column of a [`LogupTraceGenerator`].
pub struct LogupColGenerator<'a> {
    generator: &'a mut LogupTraceGenerator,
}

impl LogupColGenerator<'_> {
    /// Adds the fractions of all rows. Columns on other devices are copied to the generator's. Denominators must be
    /// nonzero; a fraction with a zero denominator counts as zero, unless [`check_denominators`] makes it an error.
    pub fn write_fracs(self, numerators: Numerators<'_>, denominators: &SecureColumn) -> Result<()> {
        let _phase = phase("lookups");
        let LogupTraceGenerator { device, log_size, .. } = self.generator;
        let rows = 1usize << *log_size;
        let length = match numerators {
            Numerators::Secure(column) => column.len(),
            Numerators::Base(column) => column.len(),
            Numerators::Constant(_) => rows,
        };
        if (length, denominators.len()) != (rows, rows) {
            let detail = format!("{length} numerators and {} denominators for {rows} rows", denominators.len());
            return Err(Error::shape("LogupColGenerator::write_fracs", detail));
        }
        let stream = stream(device);
        let mut inverses = Matrix::alloc(&stream, rows, 4)?;
        stream.copy(inverses.values_mut(), words_on(denominators, device)?.view())?;
        inverse::invert_assign::<QM31>(&stream, &mut inverses)?;
        refuse_zeros(&inverses, 0)?;
        let mut graph = ExpressionGraph::<QM31>::new();
        let inverse = graph.extension_column(0, 0, 0);
        let (numerator, given, parameter) = match numerators {
            Numerators::Secure(column) => (graph.extension_column(1, 0, 0), Some(words_on(column, device)?), None),
            Numerators::Base(column) => (graph.column(1, 0, 0), Some(words_on(column, device)?), None),
            Numerators::Constant(value) => (graph.extension_parameter(0), None, Some(value)),
        };
        let product = graph.mul(numerator, inverse);
        let inputs = [Some(inverses.values().view()), given.as_ref().map(Joined::view)];
        let fractions = row_by_row(device, &graph, product, rows, &inputs, parameter)?;
        self.generator.push(fractions)
    }
}

/// The slab of a value in each row.
fn row_by_row(
    device: &Device,
    graph: &ExpressionGraph<QM31>,
    value: rigel_codegen::Value,
    rows: usize,
    inputs: &[Option<View<'_, Mersenne31>>],
    parameter: Option<SecureField>,
) -> Result<Buffer<Mersenne31>> {
    let program = rigel_codegen::program(
        device,
        "fraction",
        graph,
        &[Output::StoreExtension { value, output: 0, column: 0 }],
    )?;
    let stream = stream(device);
    let mut out = stream.alloc(4 * rows)?;
    let parameter = parameter.map(|value| stream.upload(&[value.twin()])).transpose()?;
    let mut bindings = Bindings::new().output(Target { values: out.view_mut(), stride: rows });
    for values in inputs.iter().flatten() {
        let map = rigel_codegen::RowMap::Same;
        bindings = bindings.input(rigel_codegen::Input { values: *values, stride: rows, map });
    }
    bindings.extension_parameters = parameter.as_ref().map(View::from);
    program.run(&stream, Rows::Natural { rows }, &mut bindings)?;
    Ok(out)
}
