//! Guests, devices, and upstream's proofs.

use std::path::Path;

use rigel_gpu::Device;
use rigel_risc0::{Program, RunOptions, Segment};

/// The devices to test on.
pub(crate) fn devices() -> Vec<Device> {
    rigel_gpu::testing::devices().unwrap_or_else(|error| panic!("{error}"))
}

/// A guest of this workspace.
pub(crate) fn guest(name: &str) -> Program {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../guests/built/{name}.elf"));
    let bytes = std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; run scripts/build-guests first", path.display()));
    Program::load(&bytes).unwrap()
}

/// Options for a run in small segments.
pub(crate) fn options(stdin: &[u8], segment_po2: u32) -> RunOptions {
    RunOptions { stdin: stdin.to_vec(), segment_po2, max_cycles: Some(1 << 24), quiet: true }
}

/// The segment of a run with the most cycles of the program's own; the others are mostly paging.
pub(crate) fn busiest_segment(program: &Program, options: &RunOptions) -> Segment {
    let (_, segments) = program.segments(options).unwrap();
    segments.into_iter().max_by_key(|segment| segment.suspend_cycle).unwrap()
}
