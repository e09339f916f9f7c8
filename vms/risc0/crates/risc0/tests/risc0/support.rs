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

/// The first segment of a run.
pub(crate) fn first_segment(program: &Program, options: &RunOptions) -> Segment {
    program.segments(options).unwrap().1.remove(0)
}
