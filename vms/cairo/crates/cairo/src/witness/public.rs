//! The public part of a run: the program, the output, and where the builtins' segments lie.

use cairo_air::air::{MemorySmallValue, PublicData, PublicMemory, PublicSegmentRanges, SegmentRange};
use stwo_cairo_adapter::memory::{Memory, MemoryValue};
use stwo_cairo_adapter::opcodes::StateTransitions;
use stwo_cairo_adapter::{PublicSegmentContext, memory::MemoryValueId};

use crate::error::{Error, Result};

/// A cell of the memory: its identifier and its value as words, lowest first.
pub(crate) fn cell(memory: &Memory, address: u32) -> Result<(u32, [u32; 8])> {
    let missing = || Error::Witness(format!("address {address} has no value"));
    let id = *memory.address_to_id.get(address as usize).ok_or_else(missing)?;
    let value = match id.decode() {
        MemoryValueId::Small(index) => memory.small_values.get(index as usize).copied().map(MemoryValue::Small),
        MemoryValueId::F252(index) => memory.f252_values.get(index as usize).copied().map(MemoryValue::F252),
        MemoryValueId::Empty => None,
    };
    Ok((id.0, value.ok_or_else(missing)?.as_u256()))
}

/// The public data of a run, as upstream's claim has it.
///
/// # Errors
/// A memory without the cells that a run in proof mode has.
pub(crate) fn public_data(
    memory: &Memory,
    transitions: &StateTransitions,
    context: PublicSegmentContext,
) -> Result<PublicData> {
    let (initial_state, final_state) = (transitions.initial_state, transitions.final_state);
    let [initial_pc, initial_ap, final_ap] = [initial_state.pc.0, initial_state.ap.0, final_state.ap.0];
    let section =
        |range: std::ops::Range<u32>| range.map(|address| cell(memory, address)).collect::<Result<Vec<_>>>();
    let wrong = |what: &str| Error::Witness(format!("the run was not made in proof mode: {what}"));

    let count = context.iter().filter(|present| **present).count() as u32;
    let stops = final_ap.checked_sub(count).ok_or_else(|| wrong("its frame ends too early"))?;
    let pointer = |address: u32| match cell(memory, address)? {
        (id, [value, 0, 0, 0, 0, 0, 0, 0]) => Ok(MemorySmallValue { id, value }),
        _ => Err(wrong("a pointer to a segment is too large")),
    };
    let mut number = 0;
    let mut segments = Vec::new();
    for present in context.iter() {
        segments.push(match present {
            true => {
                number += 1;
                let (start_ptr, stop_ptr) = (pointer(initial_ap + number - 1)?, pointer(stops + number - 1)?);
                Some(SegmentRange { start_ptr, stop_ptr })
            }
            false => None,
        });
    }
    let Ok(
        [
            output,
            pedersen,
            range_check_128,
            ecdsa,
            bitwise,
            ec_op,
            keccak,
            poseidon,
            range_check_96,
            add_mod,
            mul_mod,
        ],
    ) = <[Option<SegmentRange>; 11]>::try_from(segments)
    else {
        return Err(wrong("it has another number of segments"));
    };
    let output = output.ok_or_else(|| wrong("it has no output"))?;
    let public_segments = PublicSegmentRanges {
        output,
        pedersen,
        range_check_128,
        ecdsa,
        bitwise,
        ec_op,
        keccak,
        poseidon,
        range_check_96,
        add_mod,
        mul_mod,
    };

    let frame = initial_ap.checked_sub(2).ok_or_else(|| wrong("it has no first frame"))?;
    let safe_call = section(frame..initial_ap)?;
    if safe_call[0].1 != [initial_ap, 0, 0, 0, 0, 0, 0, 0] || safe_call[1].1 != [0; 8] {
        return Err(wrong("its first frame is another"));
    }
    let public_memory = PublicMemory {
        program: section(initial_pc..frame)?,
        public_segments,
        output: section(output.start_ptr.value..output.stop_ptr.value)?,
        safe_call_ids: [safe_call[0].0, safe_call[1].0],
    };
    Ok(PublicData { public_memory, initial_state, final_state })
}
