//! The emulated device: the same CUDA C++, compiled by the host's C++ compiler and run on the CPU.
//!
//! ```text
//! compiler   text of kernels -> rewrite -> C++ compiler -> image       (shim/: CUDA's words in C++)
//! module     image -> functions
//! device     the Driver: memory, streams, graphs, launches
//! pool       a launch -> workers      block      a worker -> blocks -> threads (fiber, warp)
//! region     device and shared memory, and the shadow that each access is checked against
//! fault      what a kernel did wrong, in words (signals: wild pointers)
//! race       the other way to run a block: real threads under ThreadSanitizer
//! ```
//!
//! A thread may poll memory for what another block does. To wait for a thread of its own block it must use a
//! barrier, or let go in its loop by an atomic, a fence, `__ldcg` or `__nanosleep`: fibers are not preempted.
//!
//! What must stay true: only kernel code runs on fiber stacks; all memory a kernel may use lies in one region;
//! blocks begin in ascending order; a kernel that fails leaves the device as usable as before.

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

/// One driver for each emulated device. They share one range of addresses, so they reach each other's memory.
pub(crate) fn open(emulation: &Emulation) -> Result<Vec<Arc<dyn Driver>>> {
    device::open(emulation)
}

/// The host's C++ compiler, in its own words.
pub(crate) fn compiler_version() -> Result<String> {
    Ok(compiler::Compiler::find()?.version)
}
