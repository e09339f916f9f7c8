//! RISC Zero programs proven on the GPU: upstream's executor, preflight, circuit and transcript, Rigel's HAL, and
//! upstream's own receipt, which upstream's verifier accepts. A seal equals that of upstream's CPU prover.
//!
//! Upstream's version is a release candidate, 5.0.0-rc.1: upstream has fixed missing constraints since. Use it for
//! measurements, not for proofs that somebody relies on.
//!
//! | what | where |
//! |---|---|
//! | a program, and its run | [`Program`], [`RunOptions`], [`Run`] |
//! | the prover, on a device or on the CPU | [`Prover`], [`Proven`], [`ProvenSegment`] |
//! | a segment of somebody's own executor | [`Segment`], [`Preflight`] |
//! | a receipt from seals that were made elsewhere | [`assemble`] |
//! | verification | [`verify`], [`verify_seal`] |
//! | kernels compiled ahead of the first proof | [`warm()`] |

mod circuit;
mod device;
mod error;
mod hal;
mod host;
mod memory;
mod operations;
mod plan;
mod program;
mod prove;
mod prover;
mod receipt;
mod segment;
mod shim;
mod warm;

pub use error::{Error, Result};
pub use program::{Program, Run, RunOptions};
pub use prove::{Proven, SegmentSummary};
pub use prover::{ProvenSegment, Prover, circuit_size, compare_operations};
pub use receipt::{assemble, verify, verify_seal};
pub use risc0_circuit_rv32im::execute::Segment;
pub use risc0_zkvm::{Digest, ExitCode, Receipt};
pub use segment::Preflight;
pub use warm::warm;

/// The smallest and the largest segments that upstream's prover supports, as logarithms of their number of rows.
pub const MIN_PO2: u32 = 12;
/// See [`MIN_PO2`].
pub const MAX_PO2: u32 = 23;
