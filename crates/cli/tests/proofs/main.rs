//! Proofs through the command line: made on the CPU and on the emulated device, written, read, altered and rejected.

#[path = "../command/mod.rs"]
mod command;
mod files;
mod plonky3;
#[cfg(feature = "stwo")]
mod stwo;
