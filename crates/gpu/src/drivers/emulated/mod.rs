//! The emulated device: the same CUDA C++, compiled by the host's C++ compiler and run on the CPU.
//!
//! ```text
//! compiler   text of kernels -> rewrite -> C++ compiler -> image       (shim/: CUDA's built-ins in C++)
//! module     image -> functions
//! device     the Driver: memory, streams, graphs, launches
//! pool       a launch -> workers      block      a worker -> blocks -> threads (fiber, warp)
//! region     device and shared memory, and the shadow that each access is checked against
//! fault      error messages for faulty kernels (signals: wild pointers)
//! race       the alternative to fibers: real threads under ThreadSanitizer
//! ```
//!
//! A thread may poll memory that another block writes. Fibers are not preempted, so to wait for a thread of its
//! own block it must use a barrier, or yield in its polling loop by an atomic, a fence, `__ldcg` or `__nanosleep`.
//!
//! Invariants: only kernel code runs on fiber stacks; all memory a kernel may access lies in one region; blocks
//! start in ascending order; after a kernel fails, the device is still usable.

mod block;
mod compiler;
mod device;
mod emulation;
mod fault;
mod fiber;
mod graph;
mod handles;
mod launch;
mod memory;
mod module;
mod peer;
mod pool;
mod queue;
mod race;
mod region;
mod rewrite;
mod runtime;
mod signals;
#[cfg(test)]
mod tests;
mod warp;

use std::sync::Arc;

pub use emulation::{Emulation, Execution, ThreadOrder};

use crate::base::Result;
use crate::drivers::Driver;

/// One driver for each emulated device, given by its number and the number of its context. They share one range of
/// addresses, so they reach each other's memory.
pub(crate) fn open(emulation: &Emulation, devices: &[(u32, u32)]) -> Result<Vec<Arc<dyn Driver>>> {
    device::open(emulation, devices)
}

/// The host's C++ compiler, in its own words.
pub(crate) fn compiler_version() -> Result<String> {
    Ok(compiler::Compiler::find()?.version)
}
