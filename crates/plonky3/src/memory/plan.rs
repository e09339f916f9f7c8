//! Plans device memory before a proof begins.

use std::fmt;

use p3_air::symbolic::{AirLayout, SymbolicExpressionExt};
use p3_field::Algebra;
use p3_uni_stark::QuotientAir;
use rigel_codegen::{Split, scratch_columns};
use rigel_gpu::{Bytes, Device};
use rigel_kernels::commit::rows::RowsInParts;
use rigel_kernels::domain::kept::is_kept;
use rigel_kernels::field::Element;
use rigel_kernels::hash::Sponge;
use rigel_kernels::transform::short;

use crate::air::constraints::Constraints;
use crate::air::provable::CpuBatchAir;
use crate::air::readings::{Kind, Readings};
use crate::base::error::{Error, Result};
use crate::base::report::{Fallback, Proven};
use crate::columns::batches::{Batches, SIXTEENTHS};
use crate::columns::commit::parts;
use crate::columns::parked::{AHEAD, block_rows, block_values, piece_columns};
use crate::keys::batch_key::{BatchKey, table_layout};
use crate::keys::check;
use crate::phases::lookup::Making;
use crate::prover::Prover;
use crate::prover::session::are_small;
use crate::several;
use crate::upstream::config::{Base, DeviceConfig, Digest, Ext};
use crate::upstream::hiding::Hiding;

/// The device memory that a proof takes, by phase.
///
/// Only the proof's own allocations count, not preprocessed columns or a trace that the caller keeps on the
/// device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// The phases, in order.
    pub phases: Vec<PlannedPhase>,
    /// The number of columns of each trace that are extended at a time, if the extended traces do not fit.
    pub batch: Option<usize>,
    /// The number of sixteenths of each trace's columns that are on the device. If there is no room for all, the others
    /// are in pinned memory of the host, and are uploaded wherever they are read.
    pub kept_sixteenths: usize,
    /// The bytes that were available for a proof when the plan was made.
    pub available: usize,
}

/// The device memory of one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedPhase {
    /// The phase's name.
    pub name: &'static str,
    /// The peak number of bytes in use.
    pub bytes: usize,
}

impl Plan {
    /// The largest phase.
    pub fn peak(&self) -> PlannedPhase {
        self.phases.iter().copied().max_by_key(|phase| phase.bytes).expect("a proof has phases")
    }

    pub(crate) fn batches(&self) -> Option<Batches> {
        self.batch.map(|columns| Batches { columns, kept: self.kept_sixteenths })
    }

    /// Whether the proof fits.
    pub fn fits(&self) -> bool {
        self.peak().bytes <= self.available
    }

    /// Whether it is worth planning more exactly: half of the memory that is there, or more, is planned.
    pub(crate) fn is_tight(&self) -> bool {
        self.batch.is_some() || self.peak().bytes > self.available / 2
    }

    /// Returns the plan, or an error if it does not fit.
    pub(crate) fn check(self) -> Result<Self> {
        if self.fits() {
            return Ok(self);
        }
        let PlannedPhase { name, bytes } = self.peak();
        Err(Error::DoesNotFit { needed: bytes, available: self.available, phase: name })
    }
}

/// The logarithm of the number of chunks of a quotient whose constraints are not known: constraints for which the
/// blowup suffices, hidden or not. Those of a higher degree need more memory than an estimate with it says.
pub(crate) fn usual_chunks<SC: DeviceConfig>(prover: &Prover<SC>) -> usize {
    // The hidden trace has twice the degree, and the quotient is masked.
    prover.fri.log_blowup + 2 * usize::from(SC::HIDING)
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for PlannedPhase { name, bytes } in &self.phases {
            writeln!(f, "  {name:<22}{:>12}", Bytes(*bytes).to_string())?;
        }
        if let Some(batch) = self.batch {
            writeln!(f, "  traces are extended {batch} columns at a time")?;
            if self.kept_sixteenths < SIXTEENTHS {
                writeln!(
                    f,
                    "  {}/{SIXTEENTHS} of their columns are on the host",
                    SIXTEENTHS - self.kept_sixteenths
                )?;
            }
        }
        write!(f, "  {} are free", Bytes(self.available))
    }
}

/// Plans the device memory of [`prove`](crate::prove) for a trace of 2^`log_rows` rows on the host. With several
/// devices, that of the one that needs most, and the least that is available on one of them.
pub fn plan<SC: DeviceConfig, A: QuotientAir<SC>>(prover: &Prover<SC>, air: &A, log_rows: usize) -> Result<Plan> {
    check::device_rows(prover, 0, log_rows)?;
    several::team::check_rows(prover, 1 << log_rows)?;
    let layout = AirLayout::from_air::<SC::Value>(air);
    let constraints = Constraints::<SC>::of_air(air, layout, 1 << log_rows);
    check::degree::<SC>(0, log_rows, constraints.log_chunks)?;
    several::quotient::check_domain(prover, 0, log_rows, constraints.log_chunks)?;
    let device = prover.device().ok_or(rigel_gpu::Error::Disabled)?;
    let table = TableSize { log_rows, width: air.width(), ..TableSize::default() };
    Sizes::<SC>::new(prover, vec![constraints.sized(table, prover, device)]).plan()
}

/// Plans the device memory of [`prove_batch`](crate::prove_batch) for traces on the host; see [`plan`].
pub fn plan_batch<SC, A>(prover: &Prover<SC>, airs: &[A], key: &BatchKey<SC>) -> Result<Plan>
where
    SC: DeviceConfig,
    A: CpuBatchAir<SC>,
    SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
{
    if airs.len() != key.log_rows.len() {
        return Err(Error::BatchLength { expected: key.log_rows.len(), found: airs.len() });
    }
    several::team::check_rows(prover, key.log_rows.iter().map(|&log_rows| 1 << log_rows).max().unwrap_or(0))?;
    let airs: Vec<&A> = airs.iter().collect();
    exact_sizes(prover, &airs, key)?.plan()
}

/// The memory of a batch, with the constraints of its AIRs.
pub(crate) fn exact_sizes<'p, SC, A>(
    prover: &'p Prover<SC>,
    airs: &[&A],
    key: &BatchKey<SC>,
) -> Result<Sizes<'p, SC>>
where
    SC: DeviceConfig,
    A: CpuBatchAir<SC>,
    SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
{
    let device = prover.device().ok_or(rigel_gpu::Error::Disabled)?;
    let size = |(table, air): (usize, &&A)| {
        let (log_rows, lookups) = (key.log_rows[table], key.lookups(table));
        check::device_rows(prover, table, log_rows)?;
        let layout = table_layout(*air, table, key);
        let kind = Kind::new(*air, &layout, 1 << log_rows, Some((key.number, table))).in_batches();
        let structure = Readings::<SC>::structure(*air, &layout);
        let read = || Constraints::of_air_and_lookups(*air, layout, 1 << log_rows, lookups);
        let constraints = prover.readings.of(&kind, structure, read);
        check::degree::<SC>(table, log_rows, constraints.log_chunks)?;
        several::quotient::check_domain(prover, table, log_rows, constraints.log_chunks)?;
        Ok(constraints.sized(TableSize::of(key, table, air.width()), prover, device))
    };
    Ok(Sizes::new(prover, airs.iter().enumerate().map(size).collect::<Result<_>>()?))
}

/// The sizes that determine a table's memory. What is not known is zero.
#[derive(Clone, Copy, Default)]
pub(crate) struct TableSize {
    pub(crate) log_rows: usize,
    pub(crate) width: usize,
    /// The number of preprocessed columns.
    pub(crate) preprocessed: usize,
    /// The number of columns over the extension, and of denominators per row.
    pub(crate) lookups: Option<(usize, usize)>,
    pub(crate) log_chunks: usize,
    /// The number of columns that constraint kernels pass to each other.
    pub(crate) scratch: usize,
    /// The most columns that constraints read together in the narrowest batch.
    pub(crate) widest: usize,
    /// The number of constraints.
    pub(crate) constraints: usize,
    /// The most columns of next rows on their way between devices, if there are several.
    pub(crate) next: usize,
}

impl<SC: DeviceConfig> Constraints<SC> {
    /// A table, with what they say of its memory.
    pub(crate) fn sized(&self, table: TableSize, prover: &Prover<SC>, device: &Device) -> TableSize {
        let table = TableSize { log_chunks: self.log_chunks, constraints: self.count(), ..table };
        let Some(parts) = self.next_parts(prover, &table) else {
            let of_all = || (scratch_columns(&self.graph, &self.outputs, Split::of(device)), 0);
            let &(scratch, next) = self.passed.get_or_init(of_all);
            return TableSize { scratch, next, widest: self.widest(narrowest::<SC>()), ..table };
        };
        let &(scratch, next) = self.passed.get_or_init(|| {
            let next: Vec<usize> = parts.iter().map(|part| part.columns.iter().map(Vec::len).sum()).collect();
            // While constraints are evaluated, the rows for those after them arrive.
            let arriving = next.windows(2).map(|two| two[0] + two[1]).chain(next.iter().copied());
            let scratch = parts.iter().map(|part| part.scratch(Split::of(device)));
            (scratch.max().unwrap_or(0), arriving.max().unwrap_or(0))
        });
        TableSize { scratch, next, ..table }
    }
}

impl TableSize {
    /// A table of a batch, of which the constraints are not known.
    pub(crate) fn of<SC: DeviceConfig>(key: &BatchKey<SC>, table: usize, width: usize) -> Self {
        Self {
            log_rows: key.log_rows[table],
            width,
            preprocessed: key.preprocessed_of(table).map_or(0, |meta| meta.width),
            lookups: key.lookup_columns(table),
            ..Self::default()
        }
    }

    /// The numbers that are read and made for a row's fractions: so many of its values, selectors, denominators, the
    /// lookups' columns and their sum.
    fn lookup_words<SC: DeviceConfig>(&self, values: usize) -> usize {
        let of_lookups = |(columns, terms)| (columns + terms + 1) * Ext::<SC>::DEGREE;
        values + self.preprocessed + 3 + self.lookups.map_or(0, of_lookups)
    }

    /// The batches in which fractions are made in a proof in batches of columns: a power of two of rows at a time,
    /// so that they take about as much memory as `columns` columns of the trace, but not so few that a launch is
    /// not worth its time.
    pub(crate) fn making<SC: DeviceConfig>(&self, columns: usize) -> Making {
        const LEAST: usize = 64;
        let rows = 1usize << self.log_rows;
        let at_once = |words: usize| {
            let most = (rows * columns / words).max(1);
            (1 << most.ilog2()).max(LEAST).min(rows)
        };
        Making {
            // A row as it arrives, and in columns.
            rows: at_once(self.lookup_words::<SC>(2 * self.width)),
            narrow_rows: at_once(self.lookup_words::<SC>(columns.min(self.width))),
            columns,
        }
    }
}

/// The narrowest batch: a block of the hash.
fn narrowest<SC: DeviceConfig>() -> usize {
    RowsInParts::<SC::Hash>::block::<Base<SC>>()
}

/// The memory of a proof of some tables.
pub(crate) struct Sizes<'a, SC: DeviceConfig> {
    pub(crate) prover: &'a Prover<SC>,
    pub(crate) tables: Vec<TableSize>,
}

/// Bytes of an element of the base field.
pub(crate) const fn word<SC: DeviceConfig>() -> usize {
    size_of::<Base<SC>>()
}
pub(crate) fn element<SC: DeviceConfig>() -> usize {
    word::<SC>() * Ext::<SC>::DEGREE
}

/// The largest number of coefficients that a low-degree extension processes at a time.
const COEFFICIENTS: usize = 256 << 20;

impl<'a, SC: DeviceConfig> Sizes<'a, SC> {
    pub(crate) fn new(prover: &'a Prover<SC>, tables: Vec<TableSize>) -> Self {
        Self { prover, tables }
    }

    /// Plans with the whole extended traces, or in column batches if necessary.
    pub(crate) fn plan(&self) -> Result<Plan> {
        let whole = self.planned(None)?;
        if whole.fits() || self.prover.devices().count() > 1 { Ok(whole) } else { self.in_batches() }
    }

    /// [`Self::plan`] for a proof of one device that begins now: where the memory that is idle in the pool is plenty,
    /// the driver is not asked for more.
    pub(crate) fn plan_now(&self) -> Result<Plan> {
        let available = self.prover.device().map_or(0, Device::idle_memory);
        let plan = Plan { phases: self.phases(None), batch: None, kept_sixteenths: SIXTEENTHS, available };
        if plan.is_tight() { self.plan() } else { Ok(plan) }
    }

    /// The peak with the whole extended traces.
    pub(crate) fn peak(&self) -> usize {
        self.phases(None).iter().map(|phase| phase.bytes).max().unwrap_or(0)
    }

    fn planned(&self, batches: Option<Batches>) -> Result<Plan> {
        let available = self.prover.devices().map(|device| device.available_among(self.prover.devices()));
        let available = available.collect::<rigel_gpu::Result<Vec<_>>>()?.into_iter().min();
        Ok(Plan {
            phases: if self.prover.devices().count() > 1 { self.phases_over() } else { self.phases(batches) },
            batch: batches.map(|batches| batches.columns),
            kept_sixteenths: batches.map_or(SIXTEENTHS, |batches| batches.kept),
            available: available.ok_or(rigel_gpu::Error::Disabled)?,
        })
    }

    /// Plans in column batches, as wide as fit, from traces on the device if they fit. Else in narrow ones, with as
    /// many columns on the device as fit: each column there saves an upload for every time that it is read.
    pub(crate) fn in_batches(&self) -> Result<Plan> {
        let block = narrowest::<SC>();
        let batches = Batches { columns: block, kept: SIXTEENTHS };
        let narrowest = self.planned(Some(batches))?;
        if !narrowest.fits() {
            let mut plan = narrowest;
            let fewer = if SC::HIDING { 0..0 } else { 0..SIXTEENTHS };
            for kept in fewer.rev() {
                plan = self.planned(Some(Batches { kept, ..batches }))?;
                if plan.fits() {
                    break;
                }
            }
            return Ok(plan);
        }
        // The most blocks of columns that fit: more take more memory.
        let widest = self.tables.iter().map(|table| table.width).max().unwrap_or(1).div_ceil(block);
        let (mut plan, mut fits, mut most) = (narrowest, 1, widest);
        while fits < most {
            let blocks = (fits + most).div_ceil(2);
            let wider = self.planned(Some(Batches { columns: blocks * block, ..batches }))?;
            if wider.fits() {
                (plan, fits) = (wider, blocks);
            } else {
                most = blocks - 1;
            }
        }
        Ok(plan)
    }

    /// Half as many columns, in whole blocks of the hash, then half as many that stay on the device; `None` if none
    /// does.
    pub(crate) fn narrower(&self, batches: Batches) -> Option<Batches> {
        let block = narrowest::<SC>();
        if batches.columns > block {
            return Some(Batches { columns: (batches.columns / 2).next_multiple_of(block), ..batches });
        }
        (batches.kept > 0 && !SC::HIDING).then_some(Batches { kept: batches.kept / 2, ..batches })
    }

    /// Makes a proof by a plan: with the whole extended traces if they fit, else in column batches, and in narrower
    /// ones if memory runs out in the middle: the plan does not know of other processes' memory and of fragmentation,
    /// which show only when allocating.
    pub(crate) fn prove<P>(
        &self,
        plan: Plan,
        make: impl Fn(Option<Batches>) -> Result<Proven<P>>,
    ) -> Result<Proven<P>> {
        let mut batches = plan.check()?.batches();
        let mut reason = batches.map(|_| "the extended traces do not fit".to_string());
        loop {
            let error = match make(batches) {
                Err(Error::Gpu(error @ rigel_gpu::Error::OutOfMemory { .. })) => error,
                made => return made.map(|proven| in_batches(proven, batches, reason)),
            };
            batches = match batches {
                None => self.in_batches()?.check()?.batches(),
                Some(batches) => Some(self.narrower(batches).ok_or_else(|| error.clone())?),
            };
            reason = Some(error.to_string());
        }
    }

    fn phases(&self, batches: Option<Batches>) -> Vec<PlannedPhase> {
        let cells = self.tables.iter().map(|table| table.width << table.log_rows).sum::<usize>();
        // What tables need at a time: that of one of them, or of all of them if that is little and memory is not short.
        let at_a_time = |bytes: usize, of_table: &dyn Fn(&TableSize) -> usize| {
            let each = self.tables.iter().map(of_table);
            if batches.is_none() && are_small(bytes) { each.sum() } else { each.max().unwrap_or(0) }
        };
        let blowup = 1usize << self.prover.fri.log_blowup;
        let sum = |bytes: &dyn Fn(&TableSize) -> usize| self.tables.iter().map(bytes).sum::<usize>();
        let most = |bytes: &dyn Fn(&TableSize) -> usize| self.tables.iter().map(bytes).max().unwrap_or(0);
        // What a hiding proof adds: as many random rows as the trace has, random columns, and salts.
        let hiding = usize::from(SC::HIDING);
        let random = self.prover.hiding_streams().map_or(0, Hiding::random_codewords);
        let width = |table: &TableSize| table.width + random;
        let rows = |table: &TableSize| 1usize << (table.log_rows + hiding);
        let salts = |rows: usize| rows * 2 * SC::SALTS * word::<SC>();
        let highest = most(&|table| rows(table) * blowup);
        let tree = 64 * highest;
        let coefficients = |bytes: usize| bytes.min(COEFFICIENTS);

        // The main trace, extended as a whole or in batches.
        let lde =
            |table: &TableSize| width(table) * rows(table) * blowup * word::<SC>() + salts(rows(table) * blowup);
        let trace = |table: &TableSize| width(table) * rows(table) * word::<SC>();
        let states = highest * SC::Hash::STATE_BYTES;
        // What is kept of the traces, and what some columns of them take besides.
        let (main, piece_working, commit) = match batches {
            None => {
                // One table: two parts in flight and one transposed to columns. Several tables: all in flight.
                let part = |table: &TableSize| match self.tables.len() {
                    // The trace and its masks, the latter also by rows, and some columns of both.
                    _ if SC::HIDING => 2 * trace(table) + 2 * coefficients(trace(table)),
                    1 => {
                        let columns = parts::<SC>(rows(table), table.width).largest();
                        let part = columns * rows(table) * word::<SC>();
                        (if columns < table.width { 3 } else { 2 }) * part + coefficients(part)
                    }
                    _ => trace(table) + coefficients(trace(table)),
                };
                let several = self.tables.len() > 1;
                let held = sum(&|table| {
                    let kept = if table.lookups.is_some() { trace(table) } else { 0 };
                    kept + if several { trace(table) } else { 0 }
                });
                let main = sum(&lde);
                let working = at_a_time(cells * word::<SC>(), &part);
                (main, 0, main + working + held + tree + if several { 0 } else { states })
            }
            Some(batches) => {
                // Some columns with their extension and coefficients, where they are hashed and where they are read.
                let of_lookups = sum(&|table| table.lookups.map_or(0, |(columns, _)| columns) * Ext::<SC>::DEGREE);
                let columns = batches.columns.min(sum(&width).max(of_lookups));
                let bytes = |table: &TableSize, columns: usize| columns * rows(table) * word::<SC>();
                let piece = |table: &TableSize| bytes(table, piece_columns::<SC::Value>(rows(table), columns));
                // Those that have arrived, and those that come next.
                let arriving =
                    |table: &TableSize| if batches.are_streamed() { (1 + AHEAD) * piece(table) } else { 0 };
                let working = most(&|table| {
                    let part = bytes(table, columns);
                    let uploading = if batches.are_streamed() { 0 } else { 2 * part };
                    (part * blowup + coefficients(piece(table)) + arriving(table)).max(uploading)
                });
                let pieces = most(&|table| piece(table) * blowup + coefficients(piece(table)) + arriving(table));
                let salts = sum(&|table| salts(rows(table) * blowup));
                let kept = |table: &TableSize| match batches.are_streamed() {
                    true => batches.kept_columns(table.width) * rows(table) * word::<SC>(),
                    false => trace(table),
                };
                let main = salts + sum(&kept);
                // The masks by rows and by columns; tables with lookups are kept without masks, too.
                let masks = if SC::HIDING { most(&|table| 2 * trace(table)) + sum(&trace) / 2 } else { 0 };
                // Two blocks of rows on their way, and one by columns, while rows that are there are hashed.
                let values = block_values::<SC::Value>(most(&rows), batches.columns);
                let parking =
                    most(&|table| 3 * block_rows(rows(table), table.width, values) * table.width * word::<SC>());
                let parking = if batches.are_streamed() { parking } else { 0 };
                let hashing = working.max(masks) + tree + tree / 2 + states;
                (main, pieces, main + hashing + parking)
            }
        };
        let mut held = main + tree;
        let mut phases = vec![PlannedPhase { name: "commit to the trace", bytes: commit }];

        if self.tables.iter().any(|table| table.lookups.is_some()) {
            let traces = match batches {
                None => sum(&|table| if table.lookups.is_some() { trace(table) } else { 0 }),
                Some(_) if SC::HIDING => sum(&trace) / 2,
                Some(_) => 0,
            };
            let columns = |table: &TableSize| table.lookups.map_or(0, |(columns, _)| columns) * element::<SC>();
            let made = sum(&|table| columns(table) * rows(table));
            let terms = most(&|table| match (table.lookups, batches) {
                (None, _) => 0,
                (Some((_, terms)), None) => ((terms + 3) * element::<SC>() + 3 * word::<SC>()) * rows(table),
                // The sums, their running sum and the selectors of all rows, and the rest of some.
                (Some(_), Some(batches)) => {
                    let making = table.making::<SC>(batches.columns);
                    let words = |rows: usize, values: usize| (rows + 1) * table.lookup_words::<SC>(values);
                    let some = match batches.are_streamed() {
                        true => words(making.rows, 2 * table.width).max(words(making.narrow_rows, making.columns)),
                        false => words(making.rows, 2 * table.width),
                    };
                    let all = (3 * element::<SC>() + 3 * word::<SC>()) * rows(table);
                    // The columns that lookups read, as they arrive and as a matrix.
                    let read = match batches.are_streamed() {
                        true => 2 * batches.columns.min(table.width) * rows(table) * word::<SC>(),
                        false => 0,
                    };
                    all + read + some * word::<SC>()
                }
            });
            // Hidden, the columns have random rows, random columns beside them, and salts.
            let hidden = sum(&|table| match table.lookups {
                Some(_) => random * rows(table) * word::<SC>() * blowup + salts(rows(table) * blowup),
                None => 0,
            });
            let (kept, working) = match batches {
                None => (made * blowup + hidden, made * blowup + hidden + coefficients(made) + tree),
                Some(batches) => {
                    // Some columns extended, and the coefficients of a piece of them.
                    let part = |table: &TableSize, columns: usize| columns * rows(table) * word::<SC>();
                    let hashed = most(&|table| {
                        let piece = piece_columns::<SC::Value>(rows(table), batches.columns);
                        part(table, batches.columns) * blowup + coefficients(part(table, piece))
                    });
                    (made + hidden, hashed + hidden + states + tree + tree / 2)
                }
            };
            phases.push(PlannedPhase { name: "lookups", bytes: held + traces + made + terms.max(working) });
            held += kept + tree;
        }

        let chunks = |table: &TableSize| rows(table) << table.log_chunks >> hiding;
        // A hidden chunk has twice the rows.
        let chunk_element = element::<SC>() + (random + SC::SALTS) * word::<SC>();
        let quotients = sum(&|table| (chunks(table) << hiding) * blowup * chunk_element);
        let evaluating = at_a_time(sum(&|table| chunks(table) * element::<SC>()), &|table| {
            let size = chunks(table);
            let values = size * element::<SC>();
            let reading = size * (5 + table.scratch) * word::<SC>();
            // Columns are extrapolated to a quotient's domain that is larger than the extended trace's.
            let lookups = table.lookups.map_or(0, |(columns, _)| columns) * element::<SC>();
            // In batches, the columns that some constraints read.
            let is_beyond = size > rows(table) * blowup;
            let preprocessed = if is_beyond { table.preprocessed * word::<SC>() } else { 0 };
            let beyond = preprocessed * (size + 2 * rows(table))
                + match batches {
                    None if !is_beyond => 0,
                    None => (width(table) * word::<SC>() + lookups) * (size + 2 * rows(table)),
                    Some(batches) => {
                        let all = width(table) * word::<SC>() + lookups;
                        // Columns of the next constraints arrive while these are evaluated.
                        let next = if batches.are_streamed() { rows(table) } else { 0 };
                        (batches.columns.max(table.widest) * word::<SC>()).min(all)
                            * (size + 2 * rows(table) + next)
                    }
                };
            let masks = if SC::HIDING { 2 * size * chunk_element } else { 0 };
            values + (reading + beyond).max(coefficients(values) + masks)
        });
        let polynomials = match SC::HIDING {
            true => sum(&|table| rows(table) * blowup * chunk_element) + tree,
            false => 0,
        };
        let quotient = quotients + evaluating.max(tree + most(&|table| salts(rows(table) * blowup)));
        phases.push(PlannedPhase { name: "quotient", bytes: held + quotient });
        held += quotients + tree + polynomials;

        // The coset, denominators and weights for two points, and the reduced openings of each height.
        let sums = sum(&|table| rows(table) * blowup * element::<SC>()).min(2 * highest * element::<SC>());
        let domain = highest * (word::<SC>() + 2 * element::<SC>());
        let weights = 2 * highest / blowup * element::<SC>();
        let opening = domain + sums.max(weights);
        phases.push(PlannedPhase { name: "open", bytes: held + piece_working + opening });
        // Each fold at least halves the size; its input is kept for the queries. The rows that these read, and the
        // digests beside them.
        let row = |table: &TableSize| {
            let lookups = table.lookups.map_or(0, |(columns, _)| columns);
            (width(table) + table.preprocessed) * word::<SC>()
                + (lookups + (1 << table.log_chunks)) * element::<SC>()
        };
        let digests = 4 * highest.ilog2() as usize * size_of::<Digest<SC>>();
        let queried = self.prover.fri.num_queries * (sum(&row) + digests);
        let folds = sums + highest * element::<SC>() + tree + queried;
        phases.push(PlannedPhase { name: "fold and query", bytes: held + piece_working + folds });
        // Buffers begin at multiples of 256 bytes, and each table has some dozens of them.
        let rounding = (self.tables.len() + 1) * (4 << 10);
        // The device keeps the points and the selectors of short domains.
        let kept = |rows: usize, columns: usize| match self.prover.device() {
            Some(device) if is_kept(device, rows) => columns * rows * word::<SC>(),
            _ => 0,
        };
        let kept = kept(highest, 1)
            + sum(&|table| {
                let of_trace = if table.lookups.is_some() { kept(1 << table.log_rows, 3) } else { 0 };
                of_trace + kept(chunks(table), 4)
            });
        // And the roots with which short tables are extended.
        let roots = short::kept_bytes::<Base<SC>>(self.prover.fri.log_blowup as u32);
        let more = rounding + kept + if SC::HIDING { 0 } else { roots };
        phases.into_iter().map(|phase| PlannedPhase { bytes: phase.bytes + more, ..phase }).collect()
    }
}

/// Notes why traces were extended in batches, if they were.
fn in_batches<P>(mut proven: Proven<P>, batches: Option<Batches>, reason: Option<String>) -> Proven<P> {
    let ran_on = match batches {
        Some(batches) if batches.are_streamed() => "device in batches of columns, from the host",
        _ => "device in batches of columns",
    };
    let fallback = reason.map(|reason| Fallback { part: "the trace", ran_on, reason });
    proven.report.fallbacks.extend(fallback);
    proven
}
