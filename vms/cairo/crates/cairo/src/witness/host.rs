//! The base trace, made by upstream's witness code on the host.

use std::sync::Arc;

use cairo_air::air::PublicData;
use cairo_air::claims::CairoClaim;
use cairo_air::components::memory_address_to_id::MEMORY_ADDRESS_TO_ID_SPLIT;
use cairo_vm::types::builtin_name::BuiltinName;
use indexmap::IndexSet;
use stwo::core::fields::m31::M31;
use stwo::prover::backend::simd::SimdBackend;
use stwo_cairo_adapter::ProverInput;
use stwo_cairo_adapter::builtins::BuiltinSegments;
use stwo_cairo_adapter::memory::Memory;
use stwo_cairo_adapter::opcodes::CasmStatesByOpcode;
use stwo_cairo_common::builtins::{ECDSA_MEMORY_CELLS, KECCAK_MEMORY_CELLS};
use stwo_cairo_common::preprocessed_columns::preprocessed_trace::{
    MAX_SEQUENCE_LOG_SIZE, PreProcessedTrace, PreProcessedTraceVariant, SMALL_MAX_SEQUENCE_LOG_SIZE,
};
use stwo_cairo_prover::witness::cairo::create_cairo_claim_generator;
use stwo_cairo_prover::witness::cairo_claim_generator::CairoClaimGenerator;

use super::BaseTrace;
use super::instructions::Instruction;
use crate::columns::HostColumn;
use crate::error::{Error, Result};
use crate::panics::{caught, message};

/// Makes the base trace with upstream's code.
///
/// # Errors
/// An input that is not a valid run, or that the variant can't prove.
pub(crate) fn generate(
    input: ProverInput,
    preprocessed: &Arc<PreProcessedTrace>,
) -> Result<BaseTrace<SimdBackend>> {
    let variant = preprocessed.variant;
    check(&input, variant)?;
    let preprocessed = preprocessed.clone();
    let generate = || create_cairo_claim_generator(input, preprocessed).write_trace();
    let (columns, claim, lookups) = caught(generate).map_err(|panic| Error::Witness(message(&*panic)))?;
    check_segments(&claim, variant)?;
    Ok(BaseTrace { columns, claim, lookups: Some(lookups), on_host: Vec::new() })
}

/// The inputs from which upstream's witness code makes some components.
pub(super) struct PartOfTrace<'a> {
    pub(super) components: &'a IndexSet<&'static str>,
    pub(super) public_data: PublicData,
    pub(super) preprocessed: &'a Arc<PreProcessedTrace>,
    pub(super) segments: &'a BuiltinSegments,
    /// The instructions that the device has counted.
    pub(super) executed: Vec<(Instruction, u32)>,
}

impl PartOfTrace<'_> {
    pub(super) fn generate(
        self,
        states: CasmStatesByOpcode,
        memory: Arc<Memory>,
    ) -> Result<(CairoClaim, Vec<HostColumn>)> {
        let Self { components, public_data, preprocessed, segments, executed } = self;
        let generate = move || {
            let mut generator = CairoClaimGenerator { public_data, ..Default::default() };
            generator.fill_components(components, states, segments, memory, preprocessed.clone());
            if let Some(instructions) = &generator.verify_instruction {
                for (words, count) in executed {
                    let [pc, offset0, offset1, offset2, high, middle, extension] =
                        words.map(M31::from_u32_unchecked);
                    let input = (pc, [offset0, offset1, offset2], [high, middle], extension);
                    instructions.mults.insert(input, count.into());
                }
            }
            let (columns, claim, _) = generator.write_trace();
            (claim, columns)
        };
        caught(generate).map_err(|panic| Error::Witness(message(&*panic)))
    }
}

/// Checks that the variant has the columns that the input needs, which upstream's witness would find out late, and
/// say with a panic.
pub(crate) fn check(input: &ProverInput, variant: PreProcessedTraceVariant) -> Result<()> {
    use PreProcessedTraceVariant::{Canonical, CanonicalSmall, CanonicalWithoutPedersen};
    let segments = &input.builtin_segments;
    let counts = segments.get_counts();
    let instances = |name| counts.get(&name).copied().unwrap_or(0);
    let builtin = |builtin, instances, advice| Err(Error::Builtin { builtin, instances, variant, advice });
    if variant == CanonicalWithoutPedersen && segments.pedersen_builtin.is_some() {
        let advice = "prove it with canonical or canonical_small";
        return builtin("pedersen", instances(BuiltinName::pedersen), advice);
    }
    if variant == CanonicalSmall && segments.ec_op_builtin.is_some() {
        let advice = "prove it with canonical or canonical_without_pedersen";
        return builtin("ec_op", instances(BuiltinName::ec_op), advice);
    }
    let (available, advice) = match variant {
        Canonical | CanonicalWithoutPedersen => (MAX_SEQUENCE_LOG_SIZE, "split the program into several runs"),
        CanonicalSmall => (SMALL_MAX_SEQUENCE_LOG_SIZE, "prove it with canonical or canonical_without_pedersen"),
    };
    let log_rows = |values: usize| values.max(1).next_power_of_two().ilog2();
    let tables = [
        // Upstream splits the tables of values at the largest size that any variant has.
        ("memory", log_rows(input.memory.address_to_id.len().div_ceil(MEMORY_ADDRESS_TO_ID_SPLIT))),
        ("table of large values", log_rows(input.memory.f252_values.len()).min(MAX_SEQUENCE_LOG_SIZE)),
        ("table of small values", log_rows(input.memory.small_values.len()).min(MAX_SEQUENCE_LOG_SIZE)),
    ];
    match tables.into_iter().find(|(_, needed)| *needed > available) {
        Some((what, needed)) => Err(Error::TooLarge { what, needed, available, variant, advice }),
        None => Ok(()),
    }
}

/// Checks that the program does not use the builtins that Cairo's AIR has no component for. Upstream proves such a
/// run, and its verifier rejects the proof.
pub(crate) fn check_segments(claim: &CairoClaim, variant: PreProcessedTraceVariant) -> Result<()> {
    let segments = &claim.public_data.public_memory.public_segments;
    for (builtin, segment) in [("ecdsa", segments.ecdsa), ("keccak", segments.keccak)] {
        if let Some(segment) = segment.filter(|segment| !segment.is_empty()) {
            let cells = (segment.stop_ptr.value - segment.start_ptr.value) as usize;
            let per_instance = if builtin == "ecdsa" { ECDSA_MEMORY_CELLS } else { KECCAK_MEMORY_CELLS };
            let advice = "no variant has it: compute it in Cairo, without the builtin";
            return Err(Error::Builtin { builtin, instances: cells.div_ceil(per_instance), variant, advice });
        }
    }
    Ok(())
}
