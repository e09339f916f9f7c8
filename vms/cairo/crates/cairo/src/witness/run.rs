//! The parts of a run: the states of each opcode, the segment of each builtin, and where their columns are made.

use std::collections::BTreeSet;
use std::mem::offset_of;
use std::sync::Arc;

use indexmap::IndexSet;
use rayon::prelude::*;
use stwo::core::fields::m31::M31;
use stwo_cairo_adapter::ProverInput;
use stwo_cairo_adapter::builtins::{BuiltinSegments, MemorySegmentAddresses};
use stwo_cairo_adapter::opcodes::CasmStatesByOpcode;
use stwo_cairo_common::builtins::{
    ADD_MOD_BUILTIN_MEMORY_CELLS, BITWISE_BUILTIN_MEMORY_CELLS, EC_OP_BUILTIN_MEMORY_CELLS,
    MUL_MOD_BUILTIN_MEMORY_CELLS, PEDERSEN_BUILTIN_MEMORY_CELLS, POSEIDON_BUILTIN_MEMORY_CELLS,
    RANGE_CHECK_96_BUILTIN_MEMORY_CELLS, RANGE_CHECK_BUILTIN_MEMORY_CELLS,
};
use stwo_cairo_common::preprocessed_columns::preprocessed_trace::{PreProcessedTrace, PreProcessedTraceVariant};
use stwo_cairo_common::prover_types::cpu::CasmState;
use stwo_cairo_prover::witness::builtins::get_builtins;
use stwo_cairo_prover::witness::cairo_claim_generator::get_sub_components;

use super::kernels::{Translated, translated};
use crate::error::{Error, Result};
use crate::panics::{caught, message};

/// The smallest column that upstream makes.
pub(crate) const SMALLEST: usize = 16;

/// The fields of upstream's lists of states.
macro_rules! with_opcodes {
    ($callback:ident!($($argument:expr),*)) => {
        $callback!(($($argument),*) add_opcode add_opcode_small add_ap_opcode assert_eq_opcode assert_eq_opcode_imm
            assert_eq_opcode_double_deref blake_compress_opcode call_opcode_abs call_opcode_rel_imm generic_opcode
            jnz_opcode_non_taken jnz_opcode_taken jump_opcode_abs jump_opcode_double_deref jump_opcode_rel
            jump_opcode_rel_imm mul_opcode mul_opcode_small qm_31_add_mul_opcode ret_opcode)
    };
}

/// The names of all opcodes' components, with the states of each.
pub(super) fn opcodes(states: &CasmStatesByOpcode) -> Vec<(&'static str, &[CasmState])> {
    macro_rules! list {
        (($states:expr) $($name:ident)*) => {{
            let CasmStatesByOpcode { $($name),* } = $states;
            vec![$((stringify!($name), $name.as_slice())),*]
        }};
    }
    with_opcodes!(list!(states))
}

/// The components of opcodes that a run has, with their numbers of rows.
pub(crate) fn opcode_rows(input: &ProverInput) -> Vec<(&'static str, usize)> {
    let states = opcodes(&input.state_transitions.casm_states_by_opcode);
    states.into_iter().map(|(name, states)| (name, states.len())).filter(|(_, rows)| *rows > 0).collect()
}

/// The components of builtins that a run has, with their numbers of rows.
pub(crate) fn builtin_rows(input: &ProverInput, variant: PreProcessedTraceVariant) -> Vec<(&'static str, usize)> {
    let segments = &input.builtin_segments;
    let pedersen = match variant {
        PreProcessedTraceVariant::CanonicalSmall => "pedersen_builtin_narrow_windows",
        _ => "pedersen_builtin",
    };
    let all = [
        ("add_mod_builtin", segments.add_mod_builtin),
        ("bitwise_builtin", segments.bitwise_builtin),
        ("mul_mod_builtin", segments.mul_mod_builtin),
        (pedersen, segments.pedersen_builtin),
        ("poseidon_builtin", segments.poseidon_builtin),
        ("range_check96_builtin", segments.range_check96_builtin),
        ("range_check_builtin", segments.range_check_builtin),
        ("ec_op_builtin", segments.ec_op_builtin),
    ];
    let rows = |(name, segment): (&'static str, Option<MemorySegmentAddresses>)| {
        let segment = segment?;
        Some((name, segment.stop_ptr.saturating_sub(segment.begin_addr) / cells(name)?))
    };
    all.into_iter().filter_map(rows).collect()
}

/// The cells of an instance of a builtin.
fn cells(builtin: &str) -> Option<usize> {
    Some(match builtin {
        "add_mod_builtin" => ADD_MOD_BUILTIN_MEMORY_CELLS,
        "bitwise_builtin" => BITWISE_BUILTIN_MEMORY_CELLS,
        "ec_op_builtin" => EC_OP_BUILTIN_MEMORY_CELLS,
        "mul_mod_builtin" => MUL_MOD_BUILTIN_MEMORY_CELLS,
        "pedersen_builtin" | "pedersen_builtin_narrow_windows" => PEDERSEN_BUILTIN_MEMORY_CELLS,
        "poseidon_builtin" => POSEIDON_BUILTIN_MEMORY_CELLS,
        "range_check96_builtin" => RANGE_CHECK_96_BUILTIN_MEMORY_CELLS,
        "range_check_builtin" => RANGE_CHECK_BUILTIN_MEMORY_CELLS,
        _ => return None,
    })
}

/// A component that the device makes.
pub(super) struct Work {
    pub(super) component: &'static Translated,
    /// The number of inputs; of a builtin, of rows.
    pub(super) rows: usize,
    /// The address of the builtin's segment.
    pub(super) segment: u32,
}

/// The components that the device makes, and those that the host makes, with the reason.
pub(super) struct Plan {
    pub(super) device: Vec<Work>,
    pub(super) host: Vec<(&'static str, String)>,
}

impl Plan {
    pub(super) fn new(
        states: &CasmStatesByOpcode,
        segments: &BuiltinSegments,
        preprocessed: &Arc<PreProcessedTrace>,
        on_host: &BTreeSet<String>,
    ) -> Result<Self> {
        let mut plan = Self { device: Vec::new(), host: Vec::new() };
        for (name, states) in opcodes(states) {
            if !states.is_empty() {
                plan.add(name, on_host, |component| Some(Work { component, rows: states.len(), segment: 0 }));
            }
        }
        let builtins = caught(|| get_builtins(segments, preprocessed.clone()));
        for name in builtins.map_err(|panic| Error::Witness(message(&*panic)))? {
            plan.add(name, on_host, |component| {
                let segment = segments.get_segment_by_name(name)?;
                let rows = (segment.stop_ptr - segment.begin_addr) / cells(name)?;
                Some(Work { component, rows, segment: segment.begin_addr as u32 })
            });
        }
        Ok(plan)
    }

    fn add(
        &mut self,
        name: &'static str,
        on_host: &BTreeSet<String>,
        work: impl FnOnce(&'static Translated) -> Option<Work>,
    ) {
        let reason = match translated(name) {
            _ if on_host.contains(name) => "it was asked for",
            Ok(component) => match work(component) {
                Some(work) => return self.device.push(work),
                None => "its segment is not known",
            },
            Err(reason) => reason,
        };
        self.host.push((name, format!("upstream's witness code makes it: {reason}")));
    }

    /// All components that the host makes, with the tables that they use.
    pub(super) fn host_components(&self) -> IndexSet<&'static str> {
        self.host.iter().flat_map(|(name, _)| get_sub_components(name)).collect()
    }
}

/// The address after the last instruction that the states execute.
pub(super) fn end_of_program(states: &[CasmState]) -> usize {
    states.par_iter().map(|state| state.pc.0 as usize + 1).max().unwrap_or(0)
}

/// Empties the lists of states whose components the device has made.
pub(super) fn keep_on_host(states: &mut CasmStatesByOpcode, plan: &Plan) {
    macro_rules! empty {
        (($states:expr, $host:expr) $($name:ident)*) => {
            $(if !$host.iter().any(|(name, _)| *name == stringify!($name)) {
                $states.$name = Vec::new();
            })*
        };
    }
    with_opcodes!(empty!(states, plan.host));
}

/// The states as words, three each.
pub(super) fn state_words(states: &[CasmState]) -> &[u32] {
    const {
        assert!(size_of::<CasmState>() == 12 && size_of::<M31>() == 4);
        assert!(
            offset_of!(CasmState, pc) == 0 && offset_of!(CasmState, ap) == 4 && offset_of!(CasmState, fp) == 8
        );
    }
    // SAFETY: a state is three words in this order, as checked above, and a field element is a word.
    unsafe { std::slice::from_raw_parts(states.as_ptr().cast(), 3 * states.len()) }
}
