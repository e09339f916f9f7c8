//! RISC Zero programs proven on the GPU: upstream's executor, preflight, circuit and transcript, Rigel's HAL, and
//! upstream's own receipt, which upstream's verifier accepts. A seal equals that of upstream's CPU prover.
//!
//! Upstream's version is a release candidate, 5.0.0-rc.1: upstream has fixed missing constraints since. Use it for
//! measurements, not for proofs that somebody relies on.

mod circuit;
mod error;
mod hal;
mod host;
mod memory;
mod operations;
mod program;
mod prover;
mod segment;
mod shim;

pub use error::{Error, Result};
pub use program::{Program, Run, RunOptions};
pub use prover::{Prover, ProvenSegment, circuit_size};
pub use risc0_circuit_rv32im::execute::Segment;
pub use segment::Preflight;

/// The smallest and the largest segments that upstream's prover supports, as logarithms of their number of rows.
pub const MIN_PO2: u32 = 12;
/// See [`MIN_PO2`].
pub const MAX_PO2: u32 = 23;
