//! The steps of a run by opcode.
//!
//! Which opcode an instruction is, upstream's code says, once for each instruction. Three opcodes depend on the values
//! that a step reads: whether a jump is taken, and whether the terms of a sum or a product are small.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use cairo_vm::vm::trace::trace_entry::{RelocatedTraceEntry, TraceEntry};
use rayon::prelude::*;
use stwo::core::fields::m31::M31;
use stwo_cairo_adapter::decode::Instruction;
use stwo_cairo_adapter::memory::{Memory, MemoryBuilder, MemoryValue, P_MIN_1};
use stwo_cairo_adapter::opcodes::{CasmStatesByOpcode, StateTransitions};
use stwo_cairo_common::memory::MEMORY_ADDRESS_BOUND;
use stwo_cairo_common::prover_types::cpu::CasmState;

use crate::error::{Error, Result};

/// The number of upstream's lists of states.
const LISTS: usize = 20;

/// The places of lists in [`lists`] between which a step's values decide: the first of each pair, and the one after it.
const JUMP: usize = 0;
const SUM: usize = 2;
const PRODUCT: usize = 4;

/// Upstream's lists of states.
fn lists(states: &mut CasmStatesByOpcode) -> [&mut Vec<CasmState>; LISTS] {
    let CasmStatesByOpcode {
        jnz_opcode_non_taken,
        jnz_opcode_taken,
        add_opcode,
        add_opcode_small,
        mul_opcode,
        mul_opcode_small,
        generic_opcode,
        add_ap_opcode,
        assert_eq_opcode,
        assert_eq_opcode_double_deref,
        assert_eq_opcode_imm,
        call_opcode_abs,
        call_opcode_rel_imm,
        jump_opcode_rel_imm,
        jump_opcode_rel,
        jump_opcode_double_deref,
        jump_opcode_abs,
        ret_opcode,
        blake_compress_opcode,
        qm_31_add_mul_opcode,
    } = states;
    [
        jnz_opcode_non_taken,
        jnz_opcode_taken,
        add_opcode,
        add_opcode_small,
        mul_opcode,
        mul_opcode_small,
        generic_opcode,
        add_ap_opcode,
        assert_eq_opcode,
        assert_eq_opcode_double_deref,
        assert_eq_opcode_imm,
        call_opcode_abs,
        call_opcode_rel_imm,
        jump_opcode_rel_imm,
        jump_opcode_rel,
        jump_opcode_double_deref,
        jump_opcode_abs,
        ret_opcode,
        blake_compress_opcode,
        qm_31_add_mul_opcode,
    ]
}

/// The steps by opcode, in their order, and the number of instructions that are executed. The last entry of the trace
/// is the state after the last step.
///
/// # Errors
/// An empty trace; registers and operands outside of the memory. Upstream panics where Cairo's AIR has no opcode for an
/// instruction.
pub(super) fn by_opcode(
    trace: &[TraceEntry],
    starts: &[u32],
    memory: &MemoryBuilder,
) -> Result<(StateTransitions, usize)> {
    let relocate = |entry: &TraceEntry| RelocatedTraceEntry {
        pc: starts[entry.pc.segment_index as usize] as usize + entry.pc.offset,
        // Both are in the segment of execution, which is the second.
        ap: starts[1] as usize + entry.ap,
        fp: starts[1] as usize + entry.fp,
    };
    let [first, .., last] = trace else {
        return Err(Error::Program("it has no steps".into()));
    };
    let steps = &trace[..trace.len() - 1];

    // The first step found of each instruction, plus one. Any other of its steps would do.
    let seen: Vec<AtomicU32> = memory.address_to_id.par_iter().map(|_| AtomicU32::new(0)).collect();
    let outside = || Error::Program("a step's registers are outside of the memory".into());
    steps.par_iter().enumerate().try_for_each(|(number, entry)| {
        let RelocatedTraceEntry { pc, ap, fp } = relocate(entry);
        let seen = seen.get(pc).filter(|_| pc.max(ap).max(fp) < MEMORY_ADDRESS_BOUND).ok_or_else(outside)?;
        // Read first, so that threads do not take the line from each other.
        if seen.load(Relaxed) == 0 {
            seen.store(number as u32 + 1, Relaxed);
        }
        Ok::<_, Error>(())
    })?;
    let kinds: Vec<Kind> = seen
        .par_iter()
        .enumerate()
        .map(|(pc, seen)| match seen.load(Relaxed) {
            0 => Kind::Not,
            number => Kind::of(pc, relocate(&steps[number as usize - 1]), memory),
        })
        .collect();
    let executed = kinds.par_iter().filter(|kind| !matches!(kind, Kind::Not)).count();

    let part = steps.len().div_ceil(4 * rayon::current_num_threads()).max(1);
    let parts: Vec<[Vec<CasmState>; LISTS]> = steps
        .par_chunks(part)
        .map(|entries| {
            let mut states: [Vec<CasmState>; LISTS] = Default::default();
            for entry in entries {
                let state = state(&relocate(entry));
                states[kinds[state.pc.0 as usize].list(state, memory)?].push(state);
            }
            Ok(states)
        })
        .collect::<Result<_>>()?;
    let mut casm_states_by_opcode = CasmStatesByOpcode::default();
    lists(&mut casm_states_by_opcode).into_par_iter().enumerate().for_each(|(number, list)| {
        *list = parts.iter().map(|part| part[number].as_slice()).collect::<Vec<_>>().concat();
    });
    let (initial_state, final_state) = (state(&relocate(first)), state(&relocate(last)));
    Ok((StateTransitions { initial_state, final_state, casm_states_by_opcode }, executed))
}

fn state(entry: &RelocatedTraceEntry) -> CasmState {
    let [pc, ap, fp] = [entry.pc, entry.ap, entry.fp].map(|register| M31(register as u32));
    CasmState { pc, ap, fp }
}

/// A register and an offset.
#[derive(Clone, Copy)]
struct Operand {
    register: fn(&CasmState) -> M31,
    offset: i16,
}

impl Operand {
    fn value(&self, state: &CasmState, memory: &Memory) -> Result<MemoryValue> {
        let address = (self.register)(state).0.checked_add_signed(self.offset.into());
        let known = address.filter(|address| {
            memory.address_to_id.get(*address as usize).is_some_and(|id| *id != Default::default())
        });
        let outside = || Error::Program("a step reads an address outside of the memory".into());
        known.map(|address| memory.get(address)).ok_or_else(outside)
    }
}

/// The kind of an instruction's steps, which determines their list.
enum Kind {
    /// The instruction is not executed.
    Not,
    /// Steps in this list.
    List(usize),
    Jump(Operand),
    Sum([Operand; 3]),
    Product([Operand; 2]),
}

impl Kind {
    /// The kind of the instruction of a step.
    fn of(pc: usize, entry: RelocatedTraceEntry, memory: &MemoryBuilder) -> Self {
        // The second is the state after the last step, which is in no list.
        let mut transitions = StateTransitions::from_iter([entry.clone(), entry].into_iter(), memory);
        let lists = lists(&mut transitions.casm_states_by_opcode);
        let list = lists.iter().position(|list| !list.is_empty()).expect("every step is in a list");

        let instruction = Instruction::decode(memory.get_inst(pc as u32));
        let base =
            |is_fp: bool| -> fn(&CasmState) -> M31 { if is_fp { |state| state.fp } else { |state| state.ap } };
        let destination = Operand { register: base(instruction.dst_base_fp), offset: instruction.offset0 };
        let left = Operand { register: base(instruction.op0_base_fp), offset: instruction.offset1 };
        let register =
            if instruction.op_1_imm { |state: &CasmState| state.pc } else { base(instruction.op_1_base_fp) };
        let right = Operand { register, offset: instruction.offset2 };
        match list / 2 * 2 {
            JUMP => Self::Jump(destination),
            SUM => Self::Sum([destination, left, right]),
            PRODUCT => Self::Product([left, right]),
            _ => Self::List(list),
        }
    }

    /// The list of a step.
    fn list(&self, state: CasmState, memory: &Memory) -> Result<usize> {
        let all = |operands: &[Operand], is_small: fn(&MemoryValue) -> bool| -> Result<bool> {
            operands.iter().try_fold(true, |all, operand| Ok(all && is_small(&operand.value(&state, memory)?)))
        };
        Ok(match self {
            Self::Not => return Err(Error::Program("a step has no instruction".into())),
            Self::List(list) => *list,
            Self::Jump(destination) => JUMP + usize::from(!destination.value(&state, memory)?.is_zero()),
            Self::Sum(operands) => SUM + usize::from(all(operands, is_small_term)?),
            Self::Product(operands) => PRODUCT + usize::from(all(operands, is_small_factor)?),
        })
    }
}

/// Whether the value is from -2^29 - 1 to 2^29 - 1.
fn is_small_term(value: &MemoryValue) -> bool {
    let words = value.as_u256();
    let [low, high @ ..] = words;
    // -2^29 - 1 = p - 1 - 2^29: a carry away from p - 1.
    let mut negative = [u32::MAX; 7];
    (negative[5], negative[6]) = (P_MIN_1[6] - 1, P_MIN_1[7]);
    high == [0; 7] && low < 1 << 29 || high == negative && low >= 0u32.wrapping_sub(1 << 29) || words == P_MIN_1
}

/// Whether the value is from 0 to 2^36 - 1.
fn is_small_factor(value: &MemoryValue) -> bool {
    let words = value.as_u256();
    words[2..] == [0; 6] && words[1] < 1 << 4
}
