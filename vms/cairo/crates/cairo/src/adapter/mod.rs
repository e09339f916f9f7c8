//! The run of a program as the prover takes it.
//!
//! Upstream's adapter makes the same [`ProverInput`], on one core for the most part: it numbers the values of the
//! memory with a hash map, and looks up every step's instruction in a map with locks. Here all cores work:
//!
//! | file | what |
//! |---|---|
//! | `memory.rs` | the memory in one piece, and its values numbered in the order in which they first occur |
//! | `steps.rs` | the steps by opcode; upstream's code says which opcode an instruction is |

mod memory;
mod steps;

use std::borrow::Cow;

use cairo_vm::types::relocatable::{MaybeRelocatable, Relocatable};
use cairo_vm::vm::runners::cairo_runner::CairoRunner;
use stwo_cairo_adapter::builtins::BuiltinSegments;
use stwo_cairo_adapter::memory::{MemoryBuilder, MemoryConfig};
use stwo_cairo_adapter::relocator::Relocator;
use stwo_cairo_adapter::{ProverInput, PublicSegmentContext};
use stwo_cairo_common::memory::MEMORY_ADDRESS_BOUND;

use crate::error::{Error, Result};
use crate::panics::{caught, message};

/// Adapts a run, as upstream's `adapt` does. The addresses of the public memory are sorted; upstream has them in the
/// order of a hash map.
///
/// # Errors
/// A run that Cairo's AIR does not describe.
pub(crate) fn adapt(runner: &CairoRunner) -> Result<ProverInput> {
    caught(|| adapt_run(runner)).unwrap_or_else(|panic| Err(Error::Program(message(&*panic))))
}

fn adapt_run(runner: &CairoRunner) -> Result<ProverInput> {
    let trace = runner.get_relocatable_trace().map_err(|error| Error::Program(error.to_string()))?;
    let segments = &runner.vm.segments;
    let builtins = runner.get_builtin_segments();
    let lengths: Vec<usize> = (0..segments.num_segments()).map(|index| length(runner, index)).collect();

    // Upstream pads the segments of builtins in the memory's copy. No other segment changes.
    let mut padded: Vec<Vec<Option<MaybeRelocatable>>> = vec![Vec::new(); lengths.len()];
    for index in builtins.keys() {
        let cells = segments.memory.get_range(start(*index), lengths[*index]);
        padded[*index] = cells.into_iter().map(|cell| cell.map(Cow::into_owned)).collect();
    }
    BuiltinSegments::pad_relocatble_builtin_segments(&mut padded, &builtins);

    let mut relocation_table = vec![1];
    let mut next = 1;
    for (index, length) in lengths.iter().enumerate() {
        next += if builtins.contains_key(&index) { padded[index].len() } else { *length };
        if next > MEMORY_ADDRESS_BOUND {
            return Err(Error::Program(format!(
                "its memory has more than {} cells, the most that Cairo's AIR has; split the program into several runs",
                MEMORY_ADDRESS_BOUND - 1
            )));
        }
        relocation_table.push(next as u32);
    }
    let relocator = Relocator { relocation_table };

    let values = memory::relocated(&segments.memory, &relocator.relocation_table, &padded, &builtins);
    let config = MemoryConfig::default();
    // It asks for instructions one by one, and knows them from the memory.
    let mut builder = MemoryBuilder::new(config.clone());
    *builder = memory::numbered(&values, config);
    drop(values);
    let (state_transitions, pc_count) = steps::by_opcode(trace, &relocator.relocation_table, &builder)?;
    let mut public_memory_addresses = relocator.relocate_public_addresses(&segments.public_memory_offsets);
    public_memory_addresses.sort_unstable();
    let (memory, _) = builder.build();
    Ok(ProverInput {
        state_transitions,
        memory,
        pc_count,
        public_memory_addresses,
        builtin_segments: relocator.relocate_builtin_segments(&builtins),
        public_segment_context: PublicSegmentContext::bootloader_context(),
    })
}

fn start(segment: usize) -> Relocatable {
    Relocatable { segment_index: segment as isize, offset: 0 }
}

/// The cells of a segment, up to the last that has a value. The machine's own count is of the time when the run ended,
/// before what is written after it.
fn length(runner: &CairoRunner, segment: usize) -> usize {
    let segments = &runner.vm.segments;
    let mut length = segments.get_segment_used_size(segment).unwrap_or(0);
    let has = |offset: usize| {
        let cell = segments.memory.get_range(Relocatable { offset, ..start(segment) }, 1);
        cell.into_iter().any(|cell| cell.is_some())
    };
    while has(length) {
        length += 1;
    }
    length
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;
    use crate::program::{Program, RunOptions};

    #[test]
    fn inputs_are_those_of_upstream() {
        let programs = [
            ("fibonacci", json!([10])),
            ("factorial", json!([300])),
            ("pedersen", json!([3])),
            ("poseidon", json!([3])),
            ("bitwise", json!([3])),
            ("keccak", json!([3])),
            ("sorting", json!({ "values": [5, 3, 9, 1, 1, 7] })),
            ("modular", json!([5])),
            ("opcodes", json!([50])),
            ("everything", json!([40, 3, 5, 20])),
            // A Cairo 1 executable, whose dictionaries are in segments that are moved when the run ends.
            ("census", json!([6, 5, 3, 5, 9, 5, 3])),
        ];
        for (name, arguments) in programs {
            let path =
                Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compiled").join(name).with_extension("json");
            let program = Program::read(path).unwrap();
            let options = RunOptions { program_input: Some(arguments), ..RunOptions::default() };
            let runner = program.execute(&options).unwrap();
            let mut expected = stwo_cairo_adapter::adapter::adapt(&runner).unwrap();
            expected.public_memory_addresses.sort_unstable();
            let (found, expected): (Value, Value) =
                (serde_json::to_value(adapt(&runner).unwrap()).unwrap(), serde_json::to_value(expected).unwrap());
            for (part, expected) in expected.as_object().unwrap() {
                assert!(found[part] == *expected, "{name}: {part} differs");
            }
            assert_eq!(found.as_object().unwrap().len(), expected.as_object().unwrap().len());
        }
    }
}
