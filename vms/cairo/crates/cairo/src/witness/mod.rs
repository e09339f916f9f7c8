//! The base trace of a run.
//!
//! On the CPU it is upstream's witness code that makes it ([`host`]). On a device it is the same code, translated to
//! kernels when this crate is built (see `rigel-cairo-translate`): [`device`] makes a component's columns from the
//! states and the memory, one row a thread, and counts with atomic additions what its rows look up. So every component
//! whose code can be translated is there without being written by hand, and the columns are upstream's because the
//! code is. Components that can't be translated, or that the caller keeps on the host, come from upstream's code.
//!
//! Both kinds look up values in the same tables, whose columns are counts:
//!
//! | table | if no component on the host uses it | otherwise |
//! |---|---|---|
//! | range checks, exclusive ors | the device's counts are its columns | upstream's columns, with the device's counts added |
//! | memory | made from memory and counts on the device | the same |
//! | instructions | counted by address on the device, and made there | counts by address are added to upstream's |
//!
//! | file | what |
//! |---|---|
//! | `row.cuh` | values and the row, as the translated code knows them |
//! | `kernels.rs` | the translated components, and their compilation |
//! | `poseidon.cuh`, `blake.cuh`, `curve.cuh` | what rows of Poseidon, Blake2s and ec_op are deduced from |
//! | `lookups.rs` | the memory on the device, and the counts |
//! | `tables.cu`, `tables.rs` | the tables |
//! | `chain.rs` | components whose inputs other components give |
//! | `instructions.rs` | the instructions that a run executes |
//! | `run.rs` | states, segments, and where their columns are made |
//! | `public.rs` | program, output and segments |

mod chain;
pub(crate) mod device;
pub(crate) mod host;
mod instructions;
mod kernels;
mod lookups;
mod public;
mod run;
mod tables;
#[cfg(test)]
mod tests;

use cairo_air::claims::CairoClaim;
use rigel_gpu::Fallback;
use stwo::prover::backend::Backend;
use stwo_cairo_prover::witness::cairo_claim_generator::CairoInteractionClaimGenerator;

use crate::columns::Evaluation;

pub(crate) use kernels::USES;
pub(crate) use run::{SMALLEST, builtin_rows, opcode_rows};

/// The base trace of a run.
pub(crate) struct BaseTrace<B: Backend> {
    pub(crate) columns: Vec<Evaluation<B>>,
    pub(crate) claim: CairoClaim,
    /// Upstream's generator of the lookups' columns, if upstream made the trace.
    pub(crate) lookups: Option<CairoInteractionClaimGenerator>,
    /// The components that the host made though the proof is made on a device.
    pub(crate) on_host: Vec<Fallback>,
}

impl<B: Backend> BaseTrace<B> {
    /// The logarithm of the longest column's length.
    pub(crate) fn log_size(&self) -> u32 {
        self.columns.iter().map(|column| column.domain.log_size()).max().unwrap_or(0)
    }
}

/// Whether a component is a table whose size does not depend on the program.
pub(crate) fn is_fixed(name: &str) -> bool {
    const OF_SOME: [&str; 5] = [
        "blake_round_sigma",
        "pedersen_points_table_window_bits_18",
        "pedersen_points_table_window_bits_9",
        "poseidon_round_keys",
        "verify_bitwise_xor_12",
    ];
    is_always_there(name) || OF_SOME.contains(&name)
}

/// Whether every proof has the table.
pub(crate) fn is_always_there(name: &str) -> bool {
    tables::TABLES.iter().any(|table| table.name == name && table.of().is_none())
}

/// Compiles the kernels that make base traces, or finds them in the device's cache, and returns their number.
///
/// # Errors
/// The errors of the device's compiler.
pub(crate) fn compile(device: &rigel_gpu::Device) -> rigel_gpu::Result<usize> {
    kernels::load(device, &kernels::TRANSLATED.iter().collect::<Vec<_>>())
}

/// The components of opcodes and builtins that the device makes unless the caller leaves them to the host.
pub(crate) fn switchable() -> Vec<&'static str> {
    let names = kernels::TRANSLATED.iter().map(|component| component.name);
    names
        .filter(|name| name.contains("_opcode") || name.ends_with("_builtin") || name.contains("_builtin_"))
        .collect()
}

/// The components of opcodes and builtins that the device makes, and those that the host makes, with the reason.
pub fn device_witness() -> (Vec<&'static str>, Vec<(&'static str, &'static str)>) {
    let untranslated = kernels::UNTRANSLATED.iter().copied();
    (
        switchable(),
        untranslated.filter(|(name, _)| name.contains("_opcode") || name.contains("_builtin")).collect(),
    )
}
