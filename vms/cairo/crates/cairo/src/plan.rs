//! The device memory that a proof needs, planned before it starts.

use std::collections::BTreeMap;

use cairo_air::claims::CairoClaim;
use cairo_air::components::memory_address_to_id::MEMORY_ADDRESS_TO_ID_SPLIT;
use rigel_gpu::Device;
use stwo_cairo_adapter::ProverInput;
use stwo_cairo_common::preprocessed_columns::preprocessed_trace::MAX_SEQUENCE_LOG_SIZE;
use stwo_cairo_prover::prover::ProverParameters;

use crate::components::sized_claim;
use crate::error::{Error, Result};
use crate::witness::{SMALLEST, USES, builtin_rows, is_always_there, is_fixed, opcode_rows};

/// The device memory of a proof, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct MemoryPlan {
    /// The memory that the prover holds for all proofs: the preprocessed columns, their tree, twiddles.
    pub resident: usize,
    /// The memory of the run, and the extended columns of the base trace.
    pub trace: usize,
    /// The extended columns of the lookups.
    pub lookups: usize,
    /// The most that there is besides: columns before their extension, trees, the composition polynomial, quotients and
    /// the layers of FRI.
    pub commitments: usize,
}

impl MemoryPlan {
    /// All of it.
    pub fn total(&self) -> usize {
        self.resident + self.trace + self.lookups + self.commitments
    }

    /// The plan for a run. Sizes that the run determines only while it is traced are bounded from above: how many of
    /// the hashes in it are different.
    pub(crate) fn new(input: &ProverInput, parameters: &ProverParameters, resident: usize) -> Self {
        let claim = claim(input, parameters);
        let sizes = claim.log_sizes();
        let cells = |tree: usize| sizes[tree].iter().map(|log_size| 1usize << log_size).sum::<usize>();
        let config = &parameters.pcs_config;
        let blowup = 1 << config.fri_config.log_blowup_factor;
        let (trace, lookups) = (4 * cells(0), 4 * cells(1));
        let memory = 8 * input.memory.address_to_id.len()
            + 36 * input.memory.f252_values.len()
            + 20 * input.memory.small_values.len()
            + 12 * opcode_rows(input).iter().map(|(_, rows)| rows).max().unwrap_or(&0);
        // All trees are over the extension of the longest column, or as high as all are lifted to. Columns of the
        // preprocessed tree that are longer than the trace are not opened.
        let longest = sizes.iter().flatten().copied().max().unwrap_or(0);
        let domain = (longest + config.fri_config.log_blowup_factor).max(config.lifting_log_size.unwrap_or(0));
        // Bytes for every point. FRI's layers, each with a tree, are together twice the first one.
        let (tree, secure) = (64 << domain, 16 << domain);
        let openings = 3 * tree + 2 * (tree + secure) + 7 * secure;
        // What is there beside the extended columns: while the lookups are made, the columns of the trace; while they
        // are committed to, their columns and the hash states of shorter ones, of which the two largest arrays are
        // together three quarters of the leaves; then everything that is opened.
        let making = (trace + lookups + tree).saturating_sub(blowup * lookups);
        let committing = lookups + 2 * tree + tree / 2;
        let commitments = making.max(committing).max(openings);
        Self { resident, trace: blowup * trace + memory, lookups: blowup * lookups, commitments }
    }

    /// Checks that the device has the memory.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(crate) fn check(&self, device: &Device) -> Result<()> {
        let pool = device.memory_stats();
        // What the pool holds and does not use can be used.
        let free = device.memory()?.free + pool.held.saturating_sub(pool.in_use);
        let limit = device.memory_limit().map_or(usize::MAX, |limit| limit.saturating_sub(pool.in_use));
        let (needed, available) = (self.total() - self.resident, free.min(limit));
        match needed <= available {
            true => Ok(()),
            false => Err(Error::Memory { needed, available }),
        }
    }
}

/// The tables whose sizes are those of the memory and of the program.
const SIZED_BY_INPUT: [&str; 3] = ["memory_address_to_id", "memory_id_to_big", "verify_instruction"];

/// The claim of a run, with sizes that are never too small, and without what is not a size.
fn claim(input: &ProverInput, parameters: &ProverParameters) -> CairoClaim {
    let mut rows: BTreeMap<&str, usize> = BTreeMap::new();
    let mut open: Vec<(&str, usize)> = opcode_rows(input);
    open.extend(builtin_rows(input, parameters.preprocessed_trace));
    // Upstream's components give their inputs, also those of padding, only to components after them, so this ends.
    while let Some((name, count)) = open.pop() {
        let padded = |rows: usize| rows.next_power_of_two().max(SMALLEST);
        let before = rows.get(name).map_or(0, |rows| padded(*rows));
        let now = rows.entry(name).or_insert(0);
        *now += count;
        let more = padded(*now) - before;
        for (used, times) in USES.iter().filter(|(user, _)| *user == name).flat_map(|(_, uses)| uses.iter()) {
            if is_fixed(used) {
                rows.insert(used, 1);
            } else if more > 0 && !SIZED_BY_INPUT.contains(used) {
                // Aggregators hold every input once, so they are given the inputs without padding.
                let inputs = if used.contains("aggregator") { count } else { more };
                open.push((used, inputs * *times as usize));
            }
        }
    }
    rows.insert("verify_instruction", input.pc_count);
    let log_size = |rows: usize| rows.next_power_of_two().max(SMALLEST).ilog2();
    let memory = &input.memory;
    let sizes = |name: &str| match name {
        "memory_address_to_id" => {
            Some(vec![log_size(memory.address_to_id.len().saturating_sub(1).div_ceil(MEMORY_ADDRESS_TO_ID_SPLIT))])
        }
        "memory_id_to_big" => {
            let parts = (0..memory.f252_values.len()).step_by(1 << MAX_SEQUENCE_LOG_SIZE);
            Some(
                parts.map(|first| log_size(memory.f252_values.len() - first).min(MAX_SEQUENCE_LOG_SIZE)).collect(),
            )
        }
        "memory_id_to_small" => Some(vec![log_size(memory.small_values.len())]),
        name if is_fixed(name) => (is_always_there(name) || rows.contains_key(name)).then(|| vec![0]),
        name => rows.get(name).map(|rows| vec![log_size(*rows)]),
    };
    sized_claim(sizes)
}

/// The sizes that a plan expects of each component, for tests.
#[cfg(test)]
pub(crate) fn expected(input: &ProverInput, parameters: &ProverParameters) -> Vec<(&'static str, Vec<u32>)> {
    crate::components::spans(&claim(input, parameters))
}
