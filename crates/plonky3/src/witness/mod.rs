//! Traces of upstream's AIRs, generated on the device.
//!
//! The inputs go up instead of the trace: of KeccakAir, 200 bytes instead of 24 rows of 2,633 columns. The traces equal
//! those of upstream's `generate_trace_rows`, and [`prove`](crate::prove) takes them as they are.

mod blake3;
mod keccak;
mod poseidon2;

pub use blake3::blake3;
pub use keccak::keccak;
pub use poseidon2::{Poseidon2Rows, poseidon2};

use std::sync::Arc;

use rigel_gpu::{Kernel, Stream};
use rigel_kernels::code::source;

use crate::base::error::Result;

/// Threads of a block: one for each row.
const THREADS: u32 = 128;

/// The key of the kernel of this name. Its type is private, so that nobody else gets the kernel from the device.
#[derive(Clone, PartialEq, Eq, Hash)]
struct KernelOf(String);

/// The kernel of this name, compiled once for a device.
///
/// # Safety
///
/// The text's kernels access no memory but that which the arguments of their launches name, for every launch that the
/// caller makes of them.
unsafe fn kernel(stream: &Stream, path: &str, text: &str, name: &str) -> Result<Arc<Kernel>> {
    Ok(stream.device().kept(&KernelOf(name.to_string()), |device| {
        // SAFETY: the caller's promise.
        let text = unsafe { source(path, &format!("{}#line 1 \"{path}\"\n{text}", include_str!("row.cuh"))) };
        let text = text.define("BLOCK_THREADS", THREADS.to_string()).kernel(name);
        Ok((device.compile(&text)?.kernel(name)?, 0))
    })?)
}
