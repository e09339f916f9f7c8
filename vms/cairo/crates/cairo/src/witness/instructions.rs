//! The instructions that a run executes.

use rigel_gpu::Stream;
use stwo_cairo_adapter::memory::Memory;

use super::lookups::Lookups;
use super::public::cell;
use crate::error::Result;

/// The words of an instruction as `verify_instruction` takes them: its address; its offsets; the parts of its 9-bit
/// limbs 5 and 6 above them; limb 7.
pub(super) type Instruction = [u32; 7];

/// The instructions that the device has counted, by address, and how often.
pub(super) fn instructions_executed(
    stream: &Stream,
    lookups: &Lookups<'_>,
    memory: &Memory,
) -> Result<Vec<(Instruction, u32)>> {
    let counts = stream.download(&lookups.instruction_counts)?;
    let executed = counts.into_iter().enumerate().filter(|(_, count)| *count > 0);
    executed
        .map(|(address, count)| {
            let address = address as u32;
            let [low, middle, high, ..] = cell(memory, address)?.1;
            let word = u64::from(middle) << 32 | u64::from(low);
            let limb = |i: u32| (word >> (9 * i)) as u32 & 511;
            // Bits 63 to 71.
            let extension = (middle >> 31 | high << 1) & 511;
            let offsets = [low & 0xffff, low >> 16, middle & 0xffff];
            let words = [address, offsets[0], offsets[1], offsets[2], limb(5) & !7, limb(6), extension];
            Ok((words, count))
        })
        .collect()
}
