//! Plans device memory before a proof begins.
//!
//! Upstream's prover decides what is kept and for how long; a [`Plan`] adds it up. If the columns do not fit, the plan
//! is for columns in host memory ([`in_column_batches`](crate::in_column_batches)); if that does not fit either, the
//! proof is refused before it begins.

use std::collections::HashSet;
use std::fmt;

use rigel_codegen::{Output, Split, scratch_columns};
use rigel_gpu::{Bytes, Device, Error, Fallback, Report, Result};
use stwo::core::air::Component;
use stwo::core::circle::{CirclePoint, SECURE_FIELD_CIRCLE_GEN};
use stwo::core::fields::qm31::SecureField;
use stwo::core::pcs::PcsConfig;
use stwo_constraint_framework::{
    FrameworkComponent, FrameworkEval, INTERACTION_TRACE_IDX, ORIGINAL_TRACE_IDX, PREPROCESSED_TRACE_IDX,
};

use crate::deferred::in_column_batches;
use crate::failure::catch;
use crate::recorder::Source;
use crate::report::measure;
use crate::upload::{least_in_parts, parts};

/// Bytes of a base field element, of a secure field element, and of a Merkle tree for each of its leaves.
const WORD: usize = 4;
const ELEMENT: usize = 16;
const LEAF: usize = 64;

/// The columns of a block of Blake2s, which leaves absorb at once.
const BLOCK: usize = 16;

/// Lists of columns, parameters and other small buffers.
const SMALL: usize = 64 << 10;

/// The number of queries for which values are prefetched at least.
const LEAST_QUERIES: usize = 64;

/// The memory needs of a component while it is proved, apart from its columns.
pub struct ComponentSize {
    log_size: u32,
    log_degree_bound: u32,
    /// The logarithms of the lengths of its columns of the trace and of its LogUp columns.
    columns: [Vec<u32>; 2],
    /// The number of preprocessed columns that it reads.
    preprocessed: usize,
    /// Columns that constraint kernels, and those of fractions, pass to each other.
    scratch: [usize; 2],
    /// The columns that one constraint reads at most, and those that all fractions read.
    widest: [usize; 2],
    /// The points at which its columns are opened, with the logarithm of the columns' length.
    points: HashSet<(u32, CirclePoint<SecureField>)>,
}

impl ComponentSize {
    /// The needs of a component on this device. It may have any lookup elements and any claimed sum that are
    /// different and not in the base field, as random ones are.
    pub fn of<E: FrameworkEval>(device: &Device, component: &FrameworkComponent<E>) -> Self {
        Self::recorded(device, component, &Source::own(&**component), component.claimed_sum())
    }

    pub(crate) fn recorded<E: FrameworkEval>(
        device: &Device,
        component: &dyn Component,
        source: &Source<'_, E>,
        claimed_sum: SecureField,
    ) -> Self {
        let bounds = component.trace_log_degree_bounds();
        let of_tree = |tree: usize| bounds.get(tree).cloned().unwrap_or_default();
        let preprocessed = component.preprocessed_column_indices().len();
        let recorded = source.record(&(0..preprocessed).collect::<Vec<_>>(), claimed_sum);
        let trees = bounds.len().max(PREPROCESSED_TRACE_IDX + 1);
        let fold = |(weight, &value)| Output::Fold { value, weight };
        let constraints: Vec<Output> = recorded.expressions.constraints.iter().enumerate().map(fold).collect();
        let stores = recorded.expressions.fractions.iter().flat_map(|&(above, below)| [above, below]).enumerate();
        let fractions: Vec<Output> = stores
            .map(|(i, value)| Output::StoreExtension { value, output: i % 2, column: 4 * (i / 2) })
            .collect();
        let scratch = [&constraints, &fractions]
            .map(|outputs| scratch_columns(&recorded.expressions.graph, outputs, Split::of(device)));
        let fraction_columns = recorded.only_fractions(trees).columns.iter().map(Vec::len).sum();
        // The points depend on the transcript, their number does not.
        let log_size = source.log_size;
        let masks = component.mask_points(SECURE_FIELD_CIRCLE_GEN, log_size);
        let masks = masks.iter().skip(PREPROCESSED_TRACE_IDX + 1).flatten().flatten();
        let mut points: HashSet<_> = masks.map(|&point| (log_size, point)).collect();
        if preprocessed > 0 {
            points.insert((log_size, SECURE_FIELD_CIRCLE_GEN));
        }
        Self {
            log_size,
            log_degree_bound: component.max_constraint_log_degree_bound(),
            columns: [of_tree(ORIGINAL_TRACE_IDX), of_tree(INTERACTION_TRACE_IDX)],
            preprocessed,
            scratch,
            widest: [recorded.widest(trees), fraction_columns],
            points,
        }
    }

    /// The bytes of its columns of the trace (0) or of its LogUp columns (1).
    fn bytes(&self, tree: usize) -> usize {
        bytes(&self.columns[tree])
    }
}

/// The bytes of columns of these lengths, given as logarithms.
fn bytes(logs: &[u32]) -> usize {
    logs.iter().map(|&log| WORD << log).sum()
}

/// The facts that determine the memory of a proof.
pub struct ProofSize {
    /// The configuration of the commitment scheme.
    pub config: PcsConfig,
    /// The logarithms of the lengths of all preprocessed columns.
    pub preprocessed: Vec<u32>,
    /// The components.
    pub components: Vec<ComponentSize>,
    /// Whether upstream stores coefficients (`set_store_polynomials_coefficients`).
    pub store_coefficients: bool,
}

/// The device memory that a proof takes, by phase.
///
/// It is the memory of a proof whose columns are uploaded together and whose LogUp columns are made on the device from
/// clones of them, as [`interaction_trace`](crate::interaction_trace) does. Twiddles that were made before do not
/// count, nor does a preprocessed tree that is made once for many proofs, if `preprocessed` leaves it out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// The phases, in order.
    pub phases: Vec<PlannedPhase>,
    /// The bytes of columns that are on the device at a time, if the columns do not fit.
    pub batch_bytes: Option<usize>,
    /// The bytes that were available when the plan was made.
    pub available: usize,
    /// The least that a batch has.
    smallest_batch: usize,
    device: String,
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

/// Plans the device memory of a proof: with all columns on the device, or in batches from the host if they do not fit.
pub fn plan(device: &Device, proof: &ProofSize) -> Result<Plan> {
    let available = device.available_memory()?;
    let smallest_batch = proof.smallest_batch();
    let planned = |batch: Option<usize>, least_in_parts: usize| Plan {
        phases: proof.phases(batch, least_in_parts),
        batch_bytes: batch,
        available,
        smallest_batch,
        device: device.to_string(),
    };
    // Leaves are not begun while columns travel where there is no room for them.
    for least_in_parts in [least_in_parts(device), usize::MAX] {
        let whole = planned(None, least_in_parts);
        if whole.fits() {
            return Ok(whole);
        }
    }
    let narrowest = planned(Some(smallest_batch), usize::MAX);
    // What is left goes to larger batches. Not all of it: allocations of changing sizes leave gaps.
    let left = narrowest.available.saturating_sub(narrowest.peak().bytes) / 2;
    let wider = planned(Some(smallest_batch + left), usize::MAX);
    Ok(if wider.fits() { wider } else { narrowest })
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

    /// An error with the bytes that are needed and available, if the proof does not fit.
    pub fn check(&self) -> Result<()> {
        if self.fits() {
            return Ok(());
        }
        let PlannedPhase { name: phase, bytes: needed } = self.peak();
        Err(Error::DoesNotFit { device: self.device.clone(), phase, needed, available: self.available })
    }

    /// Makes a proof on the [current](crate::current) device as planned, and reports its cost: an error at once if it
    /// does not fit; columns in host memory if they do not fit; and smaller batches if memory runs out in the middle,
    /// which the plan does not foresee if other work takes memory meanwhile. The report's `fallbacks` say so.
    ///
    /// `work` makes the proof from the start, with columns of [`upload`](crate::upload) or
    /// [`upload_polynomials`](crate::upload_polynomials). It is called again if memory ran out.
    ///
    /// # Errors
    /// [`Error::DoesNotFit`], and the errors of [`catch`](crate::catch).
    pub fn run<R>(&self, work: impl Fn() -> R) -> Result<(R, Report)> {
        self.check()?;
        let mut batch = self.batch_bytes;
        let mut reason = batch.map(|_| "the columns do not fit on the device".to_string());
        loop {
            let made = catch(|| match batch {
                None => measure(&work),
                Some(bytes) => measure(|| in_column_batches(bytes, &work)),
            });
            match made.and_then(|made| made) {
                Err(error @ Error::OutOfMemory { .. }) => {
                    batch = match batch {
                        None => Some((self.available / 4).max(self.smallest_batch)),
                        Some(bytes) if bytes > self.smallest_batch => Some((bytes / 2).max(self.smallest_batch)),
                        Some(_) => return Err(error),
                    };
                    reason = Some(error.to_string());
                }
                made => {
                    let (result, mut report) = made?;
                    let ran_on = "device in batches of columns, from the host";
                    report.fallbacks.extend(reason.map(|reason| Fallback { part: "the columns", ran_on, reason }));
                    return Ok((result, report));
                }
            }
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for PlannedPhase { name, bytes } in &self.phases {
            writeln!(f, "  {name:<22}{:>12}", Bytes(*bytes).to_string())?;
        }
        if let Some(bytes) = self.batch_bytes {
            writeln!(f, "  columns stay on the host; about {} of them are on the device at a time", Bytes(bytes))?;
        }
        write!(f, "  {} are available", Bytes(self.available))
    }
}

impl ProofSize {
    fn log_blowup(&self) -> u32 {
        self.config.fri_config.log_blowup_factor
    }

    /// The lengths of the columns of the preprocessed tree, the trace and the interaction tree.
    fn trees(&self) -> [Vec<u32>; 3] {
        let of =
            |tree: usize| self.components.iter().flat_map(|size| size.columns[tree].iter().copied()).collect();
        [self.preprocessed.clone(), of(0), of(1)]
    }

    /// The logarithm of the length of the composition polynomial.
    fn log_composition(&self) -> u32 {
        self.components.iter().map(|size| size.log_degree_bound).max().unwrap_or(1)
    }

    /// The logarithm of a tree's number of leaves.
    fn log_leaves(&self, logs: &[u32]) -> u32 {
        let own = logs.iter().max().map_or(0, |&log| log + self.log_blowup());
        if logs.is_empty() { 0 } else { self.config.lifting_log_size.unwrap_or(own) }
    }

    /// The bytes of a block of the longest columns, with their coefficients; or of the columns of a constraint.
    fn smallest_batch(&self) -> usize {
        let longest = self.trees().iter().flatten().copied().max().unwrap_or(0).max(self.log_composition() - 1);
        let columns = (WORD << longest) + (WORD << (longest + self.log_blowup()));
        let constraint = |size: &ComponentSize| size.widest[0] * (WORD << size.log_degree_bound);
        (BLOCK * columns).max(self.components.iter().map(constraint).max().unwrap_or(0))
    }

    /// Whether constraints are evaluated on columns that are extended for them, not on the committed ones.
    fn extends_for_constraints(&self) -> bool {
        let of = |size: &ComponentSize| {
            size.log_degree_bound.saturating_sub(size.columns.iter().flatten().copied().max().unwrap_or(0))
        };
        let mut degrees = self.components.iter().map(of);
        let first = degrees.next().unwrap_or(0);
        first > self.log_blowup() || degrees.any(|degree| degree != first)
    }

    /// The phases of a proof on a device where columns of at least `least_in_parts` bytes are uploaded in parts.
    fn phases(&self, batch: Option<usize>, least_in_parts: usize) -> Vec<PlannedPhase> {
        let resident = batch.is_none();
        let batch = batch.unwrap_or(0);
        let log_blowup = self.log_blowup();
        let most = |of: &dyn Fn(&ComponentSize) -> usize| self.components.iter().map(of).max().unwrap_or(0);
        let trees = self.trees();
        let base = trees.each_ref().map(|logs| bytes(logs));
        let extended = base.map(|bytes| bytes << log_blowup);
        let tree = |logs: &[u32]| LEAF << self.log_leaves(logs);
        // While it is built there are hash states of shorter columns, three quarters of the leaves at most.
        let building = |logs: &[u32]| {
            let states = if logs.iter().any(|log| *log != logs[0]) { LEAF * 3 / 8 } else { 0 };
            (LEAF + states) << self.log_leaves(logs)
        };
        let stored = |bytes: usize| if self.store_coefficients { bytes } else { 0 };
        let lookups = base[2] > 0;
        let mut phases = Vec::new();
        let mut held = 0;

        // Preprocessed columns and the trace are uploaded together. For lookups they stay, and are copied.
        let mut uploaded = if resident { base[0] + base[1] } else { 0 };
        for (name, i) in [("commit to preprocessed", 0), ("commit to the trace", 1)] {
            if trees[i].is_empty() {
                continue;
            }
            if resident {
                let coefficients = if lookups { base[i] } else { 0 };
                // Leaves of columns of one length are begun while the columns travel.
                let (count, log) = (trees[i].len(), trees[i][0]);
                let begun = !lookups
                    && trees[i].iter().all(|other| *other == log)
                    && !parts(count, 1 << log, least_in_parts).is_one();
                let leaves = if begun { tree(&trees[i]) } else { 0 };
                let interpolated = held + uploaded + coefficients + extended[i] + leaves;
                uploaded -= if lookups { 0 } else { base[i] };
                held += extended[i] + stored(base[i]);
                phases.push(PlannedPhase { name, bytes: interpolated.max(held + uploaded + building(&trees[i])) });
            } else {
                phases.push(PlannedPhase { name, bytes: held + building(&trees[i]) + batch });
            }
            held += tree(&trees[i]);
        }

        if lookups {
            // All LogUp columns; denominators, what kernels pass on and copies of columns of one component at a time.
            let working = most(&|size| {
                let read = if resident { size.preprocessed } else { size.widest[1] };
                size.bytes(1) + (size.scratch[1] + read) * (WORD << size.log_size)
            });
            let made = held + uploaded + base[2] + working;
            let committed = match resident {
                true => held + base[2] + extended[2] + building(&trees[2]).saturating_sub(base[2]),
                false => held + base[2] + building(&trees[2]) + batch,
            };
            phases.push(PlannedPhase { name: "lookups", bytes: made.max(committed) });
            // LogUp columns are made on the device, so their coefficients are there, in batches too.
            held += tree(&trees[2]) + stored(base[2]) + if resident { extended[2] } else { 0 };
        }

        // The sums of each length, lifted to the longest.
        let lengths: HashSet<u32> = self.components.iter().map(|size| size.log_degree_bound).collect();
        let sums: usize = lengths.iter().map(|&log| ELEMENT << log).sum();
        let extends = self.extends_for_constraints();
        let evaluating = most(&|size| {
            let width = if extends { size.columns.iter().map(Vec::len).sum() } else { 0 };
            let columns =
                if resident { (size.preprocessed + width) * (WORD << size.log_degree_bound) } else { batch };
            columns + size.scratch[0] * (WORD << size.log_degree_bound)
        });
        let composition = vec![self.log_composition() - 1; 8];
        let (coefficients, of_tree) = (bytes(&composition), tree(&composition));
        let on_device = if resident { coefficients << log_blowup } else { 0 };
        let committing = coefficients + on_device.max(if resident { 0 } else { batch }) + of_tree;
        phases.push(PlannedPhase { name: "composition", bytes: held + (sums + evaluating).max(committing) });
        held += on_device + of_tree + stored(coefficients);

        // Weights for one length and point at a time, but upstream's threads evaluate several trees at once.
        let mut points: HashSet<(u32, CirclePoint<SecureField>)> =
            self.components.iter().flat_map(|size| size.points.iter().copied()).collect();
        points.insert((self.log_composition() - 1, SECURE_FIELD_CIRCLE_GEN));
        let log_weights = if self.store_coefficients { 0 } else { log_blowup };
        let longest = trees.iter().chain([&composition]).filter_map(|logs| logs.iter().max());
        let weights: usize = longest.map(|log| ELEMENT << (log + log_weights)).sum();
        phases.push(PlannedPhase { name: "out of domain", bytes: held + weights + weights / 2 + batch });

        // Numerators for each length and point, lifted to one length for each point.
        let log_lifted = self.log_leaves(&composition);
        let (subdomain, domain) = (ELEMENT << (log_lifted - log_blowup), ELEMENT << log_lifted);
        let numerators: usize = points.iter().map(|(log, _)| ELEMENT << log).sum();
        let batch_sums = if resident { 0 } else { batch + subdomain };
        let combining = numerators + batch_sums.max(subdomain + subdomain / 2 + domain);
        phases.push(PlannedPhase { name: "quotients", bytes: held + combining });

        // The layers and their trees; each is a fraction of the one before.
        let fold = self.config.fri_config.fold_step.max(1);
        let logs = (1..=log_lifted).rev().step_by(fold as usize);
        let leaves = |log: u32| if fold > 1 { log.saturating_sub(2) } else { log };
        let layers: usize = logs.clone().map(|log| (ELEMENT << log) + (LEAF << leaves(log))).sum();
        let packed = if fold > 1 { domain } else { 0 };
        // What the queries read: a row of each tree, 2^fold elements of each layer, and two digests of each level.
        let columns = trees.iter().map(Vec::len).sum::<usize>() + composition.len();
        let levels = trees.iter().map(|logs| self.log_leaves(logs)).sum::<u32>() + 2 * log_lifted;
        let levels = (levels + logs.clone().map(leaves).sum::<u32>()) as usize;
        let of_query = columns * WORD + logs.count() * (ELEMENT << fold) + levels * (2 * 32 + 4 * WORD);
        let queries = self.config.fri_config.n_queries.next_power_of_two().max(LEAST_QUERIES);
        let folding = layers + packed.max(batch + queries * of_query);
        phases.push(PlannedPhase { name: "fold and query", bytes: held + folding });
        phases.iter_mut().for_each(|phase| phase.bytes += SMALL);
        phases
    }
}
