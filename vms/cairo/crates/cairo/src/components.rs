//! The components of Cairo's AIR, one after another.
//!
//! Upstream's structs have a field per component, each of its own type. The list of fields is written once, here, and
//! every struct is taken apart without `..`: a component that upstream adds, removes or renames breaks the build.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cairo_air::air::PublicData;
use cairo_air::cairo_components::CairoComponents;
use cairo_air::claims::{CairoClaim, CairoInteractionClaim};
use cairo_air::components::*;
use rigel_gpu::{Device, Result};
use rigel_stwo::{BaseColumn, CudaBackend, PendingInteraction};
use serde::de::DeserializeOwned;
use stwo::core::fields::qm31::SecureField;
use stwo::prover::ComponentProver;
use stwo_cairo_common::preprocessed_columns::preprocessed_trace::{
    MIN_SEQUENCE_LOG_SIZE, PreProcessedTraceVariant,
};
use stwo_constraint_framework::{FrameworkComponent, ORIGINAL_TRACE_IDX};

use crate::columns::Evaluation;
use crate::instances::{Instantiated, instance};

/// Calls a macro with the fields of upstream's structs in their order. `memory_id_to_big` is between the two lists:
/// it is several components, one for each part of the table.
macro_rules! with_fields {
    ($callback:ident!($($argument:expr),*)) => {
        $callback!(($($argument),*)
            [add_opcode add_opcode_small add_ap_opcode assert_eq_opcode assert_eq_opcode_imm
            assert_eq_opcode_double_deref blake_compress_opcode call_opcode_abs call_opcode_rel_imm generic_opcode
            jnz_opcode_non_taken jnz_opcode_taken jump_opcode_abs jump_opcode_double_deref jump_opcode_rel
            jump_opcode_rel_imm mul_opcode mul_opcode_small qm_31_add_mul_opcode ret_opcode verify_instruction
            blake_round blake_g blake_round_sigma triple_xor_32 verify_bitwise_xor_12 add_mod_builtin bitwise_builtin
            mul_mod_builtin pedersen_builtin pedersen_builtin_narrow_windows poseidon_builtin range_check96_builtin
            range_check_builtin ec_op_builtin partial_ec_mul_generic pedersen_aggregator_window_bits_18
            partial_ec_mul_window_bits_18 pedersen_points_table_window_bits_18 pedersen_aggregator_window_bits_9
            partial_ec_mul_window_bits_9 pedersen_points_table_window_bits_9 poseidon_aggregator
            poseidon_3_partial_rounds_chain poseidon_full_round_chain cube_252 poseidon_round_keys
            range_check_252_width_27 memory_address_to_id]
            [memory_id_to_small range_check_6 range_check_8 range_check_11 range_check_12 range_check_18 range_check_20
            range_check_4_3 range_check_4_4 range_check_9_9 range_check_7_2_5 range_check_3_6_6_3 range_check_4_4_4_4
            range_check_3_3_3_3_3 verify_bitwise_xor_4 verify_bitwise_xor_7 verify_bitwise_xor_8 verify_bitwise_xor_9]
        )
    };
}

/// Work on components of all types.
pub(crate) trait Visitor<'a> {
    /// Works on the next component.
    fn visit<E: Instantiated>(&mut self, component: &'a FrameworkComponent<E>);
}

/// Calls the visitor with every component, in the order of their columns.
pub(crate) fn visit<'a>(components: &'a CairoComponents, visitor: &mut impl Visitor<'a>) {
    macro_rules! visit_fields {
        (($components:expr, $visitor:expr) [$($first:ident)*] [$($last:ident)*]) => {{
            let CairoComponents { $($first,)* memory_id_to_big, $($last),* } = $components;
            $(if let Some(component) = $first {
                $visitor.visit(component);
            })*
            for component in memory_id_to_big {
                $visitor.visit(component);
            }
            $(if let Some(component) = $last {
                $visitor.visit(component);
            })*
        }};
    }
    with_fields!(visit_fields!(components, visitor));
}

/// The claim with the sums of the components' lookups, which `next` gives in the order of [`visit`].
pub(crate) fn interaction_claim(
    claim: &CairoClaim,
    mut next: impl FnMut() -> SecureField,
) -> CairoInteractionClaim {
    macro_rules! claim_fields {
        (($claim:expr, $next:expr) [$($first:ident)*] [$($last:ident)*]) => {{
            let CairoClaim { public_data: _, $($first,)* memory_id_to_big, $($last),* } = $claim;
            CairoInteractionClaim {
                $($first: $first.as_ref().map(|_| $first::InteractionClaim { claimed_sum: $next() }),)*
                memory_id_to_big: memory_id_to_big.as_ref().map(|claim| {
                    let big_claimed_sums: Vec<SecureField> = claim.big_log_sizes.iter().map(|_| $next()).collect();
                    let claimed_sum = big_claimed_sums.iter().sum();
                    memory_id_to_big::InteractionClaim { big_claimed_sums, claimed_sum }
                }),
                $($last: $last.as_ref().map(|_| $last::InteractionClaim { claimed_sum: $next() }),)*
            }
        }};
    }
    with_fields!(claim_fields!(claim, next))
}

/// A claim without components.
pub(crate) fn empty_claim(public_data: PublicData) -> CairoClaim {
    macro_rules! no_field {
        (($public_data:expr) [$($first:ident)*] [$($last:ident)*]) => {
            CairoClaim { public_data: $public_data, $($first: None,)* memory_id_to_big: None, $($last: None),* }
        };
    }
    with_fields!(no_field!(public_data))
}

/// Adds the components of another claim.
pub(crate) fn merge_claims(claim: &mut CairoClaim, other: &CairoClaim) {
    macro_rules! merge_fields {
        (($claim:expr, $other:expr) [$($first:ident)*] [$($last:ident)*]) => {{
            $($claim.$first = $other.$first.clone().or($claim.$first.take());)*
            $claim.memory_id_to_big = $other.memory_id_to_big.clone().or($claim.memory_id_to_big.take());
            $($claim.$last = $other.$last.clone().or($claim.$last.take());)*
        }};
    }
    with_fields!(merge_fields!(claim, other));
}

/// The components that a claim has, in the order of their columns, with the logarithms of their columns' lengths.
pub(crate) fn spans(claim: &CairoClaim) -> Vec<(&'static str, Vec<u32>)> {
    macro_rules! list_fields {
        (($claim:expr) [$($first:ident)*] [$($last:ident)*]) => {{
            let mut spans = Vec::new();
            $(if let Some(of_component) = &$claim.$first {
                spans.push((stringify!($first), of_component.log_sizes()[0].clone()));
            })*
            if let Some(of_component) = &$claim.memory_id_to_big {
                spans.push(("memory_id_to_big", of_component.log_sizes()[0].clone()));
            }
            $(if let Some(of_component) = &$claim.$last {
                spans.push((stringify!($last), of_component.log_sizes()[0].clone()));
            })*
            spans
        }};
    }
    with_fields!(list_fields!(claim))
}

/// Adds a component of a size to a claim, of a builtin with the address at which its segment begins.
pub(crate) fn set_claim(claim: &mut CairoClaim, name: &str, log_size: u32, segment: u32) {
    macro_rules! set_field {
        (($claim:expr, $name:expr, $log_size:expr, $segment:expr) [$($first:ident)*] [$($last:ident)*]) => {
            match $name {
                $(stringify!($first) => $claim.$first = Some(of_size(&[$log_size], $segment)),)*
                $(stringify!($last) => $claim.$last = Some(of_size(&[$log_size], $segment)),)*
                _ => unreachable!("{} is a component with a size", $name),
            }
        };
    }
    with_fields!(set_field!(claim, name, log_size, segment));
}

/// A claim with every component that the variant of the preprocessed columns has, each of the smallest size.
pub(crate) fn every_component(variant: PreProcessedTraceVariant) -> CairoClaim {
    use PreProcessedTraceVariant::{Canonical, CanonicalSmall, CanonicalWithoutPedersen};
    macro_rules! every_field {
        (() [$($first:ident)*] [$($last:ident)*]) => {
            CairoClaim {
                public_data: PublicData::default(),
                $($first: Some(smallest()),)*
                memory_id_to_big: Some(smallest()),
                $($last: Some(smallest()),)*
            }
        };
    }
    let mut claim = with_fields!(every_field!());
    if variant != Canonical {
        claim.pedersen_builtin = None;
        claim.pedersen_aggregator_window_bits_18 = None;
        claim.partial_ec_mul_window_bits_18 = None;
        claim.pedersen_points_table_window_bits_18 = None;
    }
    if variant != CanonicalSmall {
        claim.pedersen_builtin_narrow_windows = None;
        claim.pedersen_aggregator_window_bits_9 = None;
        claim.partial_ec_mul_window_bits_9 = None;
        claim.pedersen_points_table_window_bits_9 = None;
    }
    match variant {
        Canonical | CanonicalWithoutPedersen => {}
        CanonicalSmall => {
            claim.ec_op_builtin = None;
            claim.partial_ec_mul_generic = None;
        }
    }
    claim
}

/// A claim with the components to which `log_sizes` gives the logarithms of their lengths: one, or of the table of
/// large values one for each part.
pub(crate) fn sized_claim(log_sizes: impl Fn(&str) -> Option<Vec<u32>>) -> CairoClaim {
    macro_rules! sized_fields {
        (($log_sizes:expr) [$($first:ident)*] [$($last:ident)*]) => {
            CairoClaim {
                public_data: PublicData::default(),
                $($first: $log_sizes(stringify!($first)).map(|sizes| of_size(&sizes, 0)),)*
                memory_id_to_big: $log_sizes("memory_id_to_big").map(|sizes| of_size(&sizes, 0)),
                $($last: $log_sizes(stringify!($last)).map(|sizes| of_size(&sizes, 0)),)*
            }
        };
    }
    with_fields!(sized_fields!(log_sizes))
}

/// The smallest claim of a component.
fn smallest<C: DeserializeOwned>() -> C {
    of_size(&[MIN_SEQUENCE_LOG_SIZE], 0)
}

/// A claim of a component of a size, with a segment. Every type of claim takes the fields that it has.
fn of_size<C: DeserializeOwned>(log_sizes: &[u32], segment: u32) -> C {
    let fields = serde_json::json!({
        "log_size": log_sizes.first(),
        "big_log_sizes": log_sizes,
        "add_mod_builtin_segment_start": segment,
        "bitwise_builtin_segment_start": segment,
        "ec_op_builtin_segment_start": segment,
        "mul_mod_builtin_segment_start": segment,
        "pedersen_builtin_segment_start": segment,
        "poseidon_builtin_segment_start": segment,
        "range_check96_builtin_segment_start": segment,
        "range_check_builtin_segment_start": segment,
    });
    serde_json::from_value(fields).expect("a claim has no other fields")
}

/// The components as provers on the device.
pub(crate) fn device_provers<'a>(
    components: &'a CairoComponents,
) -> Vec<Box<dyn ComponentProver<CudaBackend> + 'a>> {
    struct Provers<'a>(Vec<Box<dyn ComponentProver<CudaBackend> + 'a>>);
    impl<'a> Visitor<'a> for Provers<'a> {
        fn visit<E: Instantiated>(&mut self, component: &'a FrameworkComponent<E>) {
            self.0.push(Box::new(instance(component)));
        }
    }
    let mut provers = Provers(Vec::new());
    visit(components, &mut provers);
    provers.0
}

/// The columns of all components' lookups, and the sum of each, made on the device. `fixed` are all preprocessed
/// columns, `trace` all columns of the base trace, both before their extension.
///
/// # Errors
/// The errors of the device.
pub(crate) fn device_lookups(
    components: &CairoComponents,
    fixed: &[Evaluation<CudaBackend>],
    trace: &[Evaluation<CudaBackend>],
) -> Result<(Vec<Evaluation<CudaBackend>>, Vec<SecureField>)> {
    struct Lookups<'a> {
        fixed: &'a [Evaluation<CudaBackend>],
        trace: &'a [Evaluation<CudaBackend>],
        pending: Result<Vec<PendingInteraction>>,
    }
    impl<'a> Visitor<'a> for Lookups<'_> {
        fn visit<E: Instantiated>(&mut self, component: &'a FrameworkComponent<E>) {
            let Ok(pending) = &mut self.pending else { return };
            let fixed: Vec<&BaseColumn> =
                component.preprocessed_column_indices().iter().map(|&index| &self.fixed[index].values).collect();
            let span = component.trace_locations()[ORIGINAL_TRACE_IDX];
            let trace: Vec<&BaseColumn> =
                self.trace[span.col_start..span.col_end].iter().map(|column| &column.values).collect();
            match instance(component).start_interaction_trace(&fixed, &trace) {
                Ok(started) => pending.push(started),
                Err(error) => self.pending = Err(error),
            }
        }
    }
    // All are started before the first is waited for: the device works while the host prepares the next.
    let mut lookups = Lookups { fixed, trace, pending: Ok(Vec::new()) };
    visit(components, &mut lookups);
    let (mut columns, mut sums) = (Vec::new(), Vec::new());
    for pending in lookups.pending? {
        let (of_component, sum) = pending.finish()?;
        columns.extend(of_component);
        sums.push(sum);
    }
    Ok((columns, sums))
}

/// Compiles the kernels of all components, on all cores, and returns their number. `preprocessed` are the logarithms
/// of the sizes of all preprocessed columns. Upstream's components stay on the thread that makes them, so every
/// thread makes them.
///
/// # Errors
/// The errors of the device's compiler.
pub(crate) fn compile(
    components: impl Fn() -> CairoComponents + Sync,
    device: &Device,
    preprocessed: &[u32],
) -> Result<usize> {
    struct Compile<'a> {
        device: &'a Device,
        preprocessed: &'a [u32],
        /// The components that a thread has taken, and the number of those that this one has seen.
        taken: &'a [AtomicBool],
        seen: usize,
        kernels: Result<usize>,
    }
    impl<'a> Visitor<'a> for Compile<'_> {
        fn visit<E: Instantiated>(&mut self, component: &'a FrameworkComponent<E>) {
            let index = self.seen;
            self.seen += 1;
            let Ok(kernels) = &mut self.kernels else { return };
            if self.taken[index].swap(true, Ordering::Relaxed) {
                return;
            }
            match instance(component).compile(self.device, self.preprocessed) {
                Ok(of_component) => *kernels += of_component,
                Err(error) => self.kernels = Err(error),
            }
        }
    }
    let count = device_provers(&components()).len();
    let taken: Vec<AtomicBool> = (0..count).map(|_| AtomicBool::new(false)).collect();
    let compile = || {
        let mut compile = Compile { device, preprocessed, taken: &taken, seen: 0, kernels: Ok(0) };
        visit(&components(), &mut compile);
        compile.kernels
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(count);
    thread::scope(|scope| {
        let compiling: Vec<_> = (0..threads).map(|_| scope.spawn(compile)).collect();
        compiling.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).sum()
    })
}
