//! The constants of Cairo's components that differ from program to program.
//!
//! Upstream's constraints hold the addresses at which builtins' segments begin, the first id of each part of the
//! table of large values, and the size of the memory's table. With placeholders for them, no program compiles kernels
//! that another one has compiled.

use cairo_air::components::memory_address_to_id::MEMORY_ADDRESS_TO_ID_SPLIT;
use cairo_air::components::*;
use rigel_stwo::{Instance, Template};
use stwo::core::fields::m31::BaseField;
use stwo_constraint_framework::{FrameworkComponent, FrameworkEval};

/// A component, which may have constants that differ from program to program.
pub(crate) trait Instantiated: FrameworkEval + Sized + 'static {
    /// The component with placeholders for such constants, if it has any.
    fn template(&self) -> Option<Template<Self>> {
        None
    }
}

/// A component with its template.
pub(crate) fn instance<E: Instantiated>(component: &FrameworkComponent<E>) -> Instance<'_, E> {
    Instance::new(component, component.template())
}

/// A number that is no constant of the AIR.
const PLACEHOLDER: u32 = 1_987_654_321;

macro_rules! same_for_all_programs {
    ($($name:ident)*) => { $(impl Instantiated for $name::Eval {})* };
}
same_for_all_programs! {
    add_opcode add_opcode_small add_ap_opcode assert_eq_opcode assert_eq_opcode_imm
    assert_eq_opcode_double_deref blake_compress_opcode call_opcode_abs call_opcode_rel_imm generic_opcode
    jnz_opcode_non_taken jnz_opcode_taken jump_opcode_abs jump_opcode_double_deref jump_opcode_rel
    jump_opcode_rel_imm mul_opcode mul_opcode_small qm_31_add_mul_opcode ret_opcode verify_instruction
    blake_round blake_g blake_round_sigma triple_xor_32 verify_bitwise_xor_12 partial_ec_mul_generic
    pedersen_aggregator_window_bits_18 partial_ec_mul_window_bits_18 pedersen_points_table_window_bits_18
    pedersen_aggregator_window_bits_9 partial_ec_mul_window_bits_9 pedersen_points_table_window_bits_9
    poseidon_aggregator poseidon_3_partial_rounds_chain poseidon_full_round_chain cube_252 poseidon_round_keys
    range_check_252_width_27 memory_id_to_small range_check_6 range_check_8 range_check_11 range_check_12
    range_check_18 range_check_20 range_check_4_3 range_check_4_4 range_check_9_9 range_check_7_2_5
    range_check_3_6_6_3 range_check_4_4_4_4 range_check_3_3_3_3_3 verify_bitwise_xor_4 verify_bitwise_xor_7
    verify_bitwise_xor_8 verify_bitwise_xor_9
}

/// Builtins read the memory from the address at which their segment begins.
macro_rules! has_segment {
    ($($name:ident $start:ident;)*) => { $(
        impl Instantiated for $name::Eval {
            fn template(&self) -> Option<Template<Self>> {
                let claim = $name::Claim { $start: PLACEHOLDER, ..self.claim };
                let eval = Self { claim, common_lookup_elements: self.common_lookup_elements.clone() };
                Some(Template { eval, constants: vec![(PLACEHOLDER.into(), self.claim.$start.into())] })
            }
        }
    )* };
}
has_segment! {
    add_mod_builtin add_mod_builtin_segment_start;
    bitwise_builtin bitwise_builtin_segment_start;
    ec_op_builtin ec_op_builtin_segment_start;
    mul_mod_builtin mul_mod_builtin_segment_start;
    pedersen_builtin pedersen_builtin_segment_start;
    pedersen_builtin_narrow_windows pedersen_builtin_segment_start;
    poseidon_builtin poseidon_builtin_segment_start;
    range_check96_builtin range_check96_builtin_segment_start;
    range_check_builtin range_check_builtin_segment_start;
}

impl Instantiated for memory_id_to_big::BigEval {
    /// Ids are numbered from where the part before ends.
    fn template(&self) -> Option<Template<Self>> {
        let eval = Self { offset: PLACEHOLDER, ..self.clone() };
        Some(Template { eval, constants: vec![(PLACEHOLDER.into(), self.offset.into())] })
    }
}

impl Instantiated for memory_address_to_id::Eval {
    /// The k-th pair of columns has the addresses from k times the number of rows.
    fn template(&self) -> Option<Template<Self>> {
        // More rows than any proof has, so that the multiples are no other constants.
        const LOG_ROWS: u32 = 27;
        let claim = memory_address_to_id::Claim { log_size: LOG_ROWS };
        let eval = Self { claim, common_lookup_elements: self.common_lookup_elements.clone() };
        let multiple = |k: usize, log_rows: u32| BaseField::from((k << log_rows) as u32);
        // The first multiple is zero for every number of rows.
        let constants = (1..MEMORY_ADDRESS_TO_ID_SPLIT)
            .map(|k| (multiple(k, LOG_ROWS), multiple(k, self.claim.log_size)))
            .collect();
        Some(Template { eval, constants })
    }
}
