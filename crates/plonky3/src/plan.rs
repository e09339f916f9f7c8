//! Plans device memory before a proof begins.

use std::fmt;

use p3_air::symbolic::{AirLayout, SymbolicExpressionExt};
use p3_field::Algebra;
use p3_uni_stark::QuotientAir;
use rigel_codegen::{Split, scratch_columns};
use rigel_gpu::{Bytes, Device};
use rigel_kernels::commit::rows::RowsInParts;
use rigel_kernels::field::Element;
use rigel_kernels::hash::Sponge;

use crate::batch_key::{BatchKey, table_layout};
use crate::check;
use crate::commit::part_columns;
use crate::config::{Base, DeviceConfig, Ext};
use crate::constraints::Constraints;
use crate::error::{Error, Result};
use crate::fallback::CpuBatchAir;
use crate::prover::Prover;

/// The device memory that a proof takes, by phase.
///
/// Only the proof's own allocations count, not preprocessed columns or a trace that the caller keeps on the
/// device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The phases, in order.
    pub phases: Vec<PlannedPhase>,
    /// The number of trace columns that are extended at a time, if the whole extended trace does not fit.
    pub batch: Option<usize>,
    /// The bytes that were available for a proof when the plan was made.
    pub available: usize,
}

/// The device memory of one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    /// Whether the proof fits.
    pub fn fits(&self) -> bool {
        self.peak().bytes <= self.available
    }

    /// Whether it is worth to plan more exactly: half of the memory that is there, or more, is planned.
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

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for PlannedPhase { name, bytes } in &self.phases {
            writeln!(f, "  {name:<22}{:>12}", Bytes(*bytes).to_string())?;
        }
        if let Some(batch) = self.batch {
            writeln!(f, "  the trace is extended {batch} columns at a time")?;
        }
        write!(f, "  {} are free", Bytes(self.available))
    }
}

/// Plans the device memory of [`prove`](crate::prove) for a trace of 2^`log_rows` rows on the host.
pub fn plan<SC: DeviceConfig, A: QuotientAir<SC>>(prover: &Prover<SC>, air: &A, log_rows: usize) -> Result<Plan> {
    check::device_rows(prover, 0, log_rows)?;
    let layout = AirLayout::from_air::<SC::Value>(air);
    let constraints = Constraints::<SC>::of_air(air, layout, 1 << log_rows);
    check::degree(prover, 0, constraints.log_chunks)?;
    let device = prover.device().ok_or(rigel_gpu::Error::Disabled)?;
    let table = TableSize {
        log_rows,
        width: air.width(),
        lookups: None,
        log_chunks: constraints.log_chunks,
        scratch: scratch_columns(&constraints.graph, &constraints.outputs, Split::of(device)),
    };
    Sizes::<SC>::new(prover, vec![table]).plan(true)
}

/// Plans the device memory of [`prove_batch`](crate::prove_batch) for traces on the host.
pub fn plan_batch<SC, A>(prover: &Prover<SC>, airs: &[A], key: &BatchKey<SC>) -> Result<Plan>
where
    SC: DeviceConfig,
    A: CpuBatchAir<SC>,
    SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
{
    if airs.len() != key.log_rows.len() {
        return Err(Error::BatchLength { expected: key.log_rows.len(), found: airs.len() });
    }
    let device = prover.device().ok_or(rigel_gpu::Error::Disabled)?;
    let size = |(table, air): (usize, &A)| {
        let (log_rows, lookups) = (key.log_rows[table], key.lookups(table));
        let layout = table_layout(air, table, key);
        let constraints = Constraints::<SC>::of_air_and_lookups(air, layout, 1 << log_rows, lookups);
        check::degree(prover, table, constraints.log_chunks)?;
        Ok(TableSize {
            log_rows,
            width: air.width(),
            lookups: key.lookup_columns(table),
            log_chunks: constraints.log_chunks,
            scratch: scratch_columns(&constraints.graph, &constraints.outputs, Split::of(device)),
        })
    };
    let tables = airs.iter().enumerate().map(size).collect::<Result<_>>()?;
    Sizes::<SC>::new(prover, tables).plan(false)
}

/// The sizes that determine a table's memory.
pub(crate) struct TableSize {
    pub(crate) log_rows: usize,
    pub(crate) width: usize,
    /// The number of columns over the extension, and of denominators per row.
    pub(crate) lookups: Option<(usize, usize)>,
    pub(crate) log_chunks: usize,
    /// The number of columns that constraint kernels pass to each other.
    pub(crate) scratch: usize,
}

/// The memory of a proof of some tables.
pub(crate) struct Sizes<'a, SC: DeviceConfig> {
    prover: &'a Prover<SC>,
    tables: Vec<TableSize>,
}

/// Bytes of an element of the base field.
const fn word<SC: DeviceConfig>() -> usize {
    size_of::<Base<SC>>()
}
fn element<SC: DeviceConfig>() -> usize {
    word::<SC>() * Ext::<SC>::DEGREE
}

/// The largest number of coefficients that a low-degree extension processes at a time.
const COEFFICIENTS: usize = 256 << 20;

impl<'a, SC: DeviceConfig> Sizes<'a, SC> {
    pub(crate) fn new(prover: &'a Prover<SC>, tables: Vec<TableSize>) -> Self {
        Self { prover, tables }
    }

    /// Plans with the whole extended trace, or in column batches if necessary and possible. `alone`: the proof is
    /// of a single trace, which can be extended in batches.
    pub(crate) fn plan(&self, alone: bool) -> Result<Plan> {
        let device = self.prover.device().ok_or(rigel_gpu::Error::Disabled)?;
        let available = available(device)?;
        let whole = Plan { phases: self.phases(None), batch: None, available };
        if whole.fits() || !alone { Ok(whole) } else { self.in_batches() }
    }

    /// The peak with the whole extended trace.
    pub(crate) fn peak(&self) -> usize {
        self.phases(None).iter().map(|phase| phase.bytes).max().unwrap_or(0)
    }

    /// Plans in column batches, as wide as fit.
    pub(crate) fn in_batches(&self) -> Result<Plan> {
        let device = self.prover.device().ok_or(rigel_gpu::Error::Disabled)?;
        let available = available(device)?;
        let block = RowsInParts::<SC::Hash>::block::<Base<SC>>();
        let narrowest = Plan { phases: self.phases(Some(block)), batch: Some(block), available };
        if !narrowest.fits() {
            return Ok(narrowest);
        }
        // Memory grows linearly with the number of blocks.
        let next = self.phases(Some(2 * block)).iter().map(|phase| phase.bytes).max().unwrap_or(0);
        let step = (next - narrowest.peak().bytes.min(next)).max(1);
        let blocks = 1 + (available - narrowest.peak().bytes) / step;
        let batch = (blocks * block).min(self.tables[0].width.next_multiple_of(block));
        Ok(Plan { phases: self.phases(Some(batch)), batch: Some(batch), available })
    }

    /// Half as many columns, in whole blocks of the hash; `None` if there is but one block.
    pub(crate) fn narrower(&self, batch: usize) -> Option<usize> {
        let block = RowsInParts::<SC::Hash>::block::<Base<SC>>();
        (batch > block).then(|| (batch / 2).next_multiple_of(block))
    }

    fn phases(&self, batch: Option<usize>) -> Vec<PlannedPhase> {
        let blowup = 1usize << self.prover.fri.log_blowup;
        let sum = |bytes: &dyn Fn(&TableSize) -> usize| self.tables.iter().map(bytes).sum::<usize>();
        let most = |bytes: &dyn Fn(&TableSize) -> usize| self.tables.iter().map(bytes).max().unwrap_or(0);
        let rows = |table: &TableSize| 1usize << table.log_rows;
        let highest = most(&|table| rows(table) * blowup);
        let tree = 64 * highest;
        let coefficients = |bytes: usize| bytes.min(COEFFICIENTS);

        // The main trace, extended as a whole or in batches.
        let lde = |table: &TableSize| table.width * rows(table) * blowup * word::<SC>();
        let trace = |table: &TableSize| table.width * rows(table) * word::<SC>();
        let (main, working) = match batch {
            None => {
                // One table: two parts in flight and one transposed to columns. Several tables: all in flight.
                let part = |table: &TableSize| match self.tables.len() {
                    1 => {
                        let columns = part_columns::<SC>(rows(table), table.width).min(table.width);
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
                (sum(&lde), most(&part) + held)
            }
            Some(batch) => {
                let columns = |table: &TableSize| {
                    let columns = batch.min(table.width) * rows(table) * word::<SC>();
                    columns * blowup + columns + coefficients(columns)
                };
                (sum(&trace), most(&columns))
            }
        };
        let states = highest * SC::Hash::STATE_BYTES;
        let commit = main + working + tree + if self.tables.len() == 1 { states } else { 0 };
        let mut held = main + tree;
        let mut phases = vec![PlannedPhase { name: "commit to the trace", bytes: commit }];
        let batch_working = if batch.is_some() { working } else { 0 };

        if self.tables.iter().any(|table| table.lookups.is_some()) {
            let traces = sum(&|table| if table.lookups.is_some() { trace(table) } else { 0 });
            let columns = |table: &TableSize| table.lookups.map_or(0, |(columns, _)| columns) * element::<SC>();
            let made = sum(&|table| columns(table) * rows(table));
            let terms = most(&|table| {
                let terms = table.lookups.map_or(0, |(_, terms)| terms + 3) * element::<SC>();
                (terms + 3 * word::<SC>()) * rows(table)
            });
            let lookup_ldes = made * blowup;
            let working = terms.max(lookup_ldes + coefficients(made) + tree);
            phases.push(PlannedPhase { name: "lookups", bytes: held + traces + made + working });
            held += lookup_ldes + tree;
        }

        let chunks = |table: &TableSize| rows(table) << table.log_chunks;
        let quotients = sum(&|table| chunks(table) * blowup * element::<SC>());
        let evaluating = most(&|table| {
            let rows = chunks(table);
            let values = rows * element::<SC>();
            let reading = rows * (5 + table.scratch) * word::<SC>();
            values + reading.max(coefficients(values))
        });
        let quotient = quotients + evaluating.max(tree);
        phases.push(PlannedPhase { name: "quotient", bytes: held + batch_working + quotient });
        held += quotients + tree;

        // The coset, denominators and weights for two points, and the reduced openings of each height.
        let sums = sum(&|table| rows(table) * blowup * element::<SC>()).min(2 * highest * element::<SC>());
        let domain = highest * (word::<SC>() + 2 * element::<SC>());
        let weights = 2 * highest / blowup * element::<SC>();
        let opening = domain + sums.max(weights);
        phases.push(PlannedPhase { name: "open", bytes: held + batch_working + opening });
        // Each fold at least halves the size; its input is kept for the queries.
        let folds = sums + highest * element::<SC>() + tree;
        phases.push(PlannedPhase { name: "fold and query", bytes: held + batch_working + folds });
        phases
    }
}

/// The bytes available to a proof: free on the device or in the pool, and within the limit.
pub(crate) fn available(device: &Device) -> Result<usize> {
    let (info, pool) = (device.memory()?, device.memory_stats());
    let free = info.free + (pool.held - pool.in_use.min(pool.held));
    Ok(device.memory_limit().map_or(free, |limit| free.min(limit.saturating_sub(pool.in_use))))
}
