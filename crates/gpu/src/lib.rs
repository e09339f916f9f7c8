//! A CUDA runtime for Rust, with an emulated device that runs the same kernels on the CPU.
//!
//! Kernels are CUDA C++ text, compiled when first used: by NVRTC for the exact GPU, or by the host's C++ compiler
//! for the emulated device. So a build needs no CUDA toolkit, one binary runs with and without a GPU, and every
//! kernel can be tested anywhere.
//!
//! ```
//! use rigel_gpu::{Device, Selector, Source};
//!
//! # fn main() -> rigel_gpu::Result<()> {
//! let device = Device::open(Selector::Emulated(0))?; // or Device::from_env()
//! let stream = device.compute()?;
//! let add = device
//!     .compile(
//!         &unsafe { Source::new(
//!             "add.cu",
//!             "__global__ void add(const float *a, const float *b, float *sum, unsigned n) {
//!                  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
//!                  if (i < n) sum[i] = a[i] + b[i];
//!              }",
//!         ) }
//!         .kernel("add"),
//!     )?
//!     .kernel("add")?;
//!
//! let a = stream.upload(&[1.0f32, 2.0, 3.0])?;
//! let b = stream.upload(&[10.0f32, 20.0, 30.0])?;
//! let mut sum = stream.alloc::<f32>(3)?;
//! add.launch(&stream, add.cover(3)?, (&a, &b, &mut sum, 3u32))?;
//! assert_eq!(sum.to_vec(&stream)?, [11.0, 22.0, 33.0]);
//! # Ok(())
//! # }
//! ```
//!
//! | idea | type |
//! |---|---|
//! | which device, or which devices | [`Selector`], [`Selectors`], [`Device`], [`Emulation`] |
//! | ordering of work | [`Stream`], [`Event`], [`Graph`] |
//! | memory | [`Buffer`], [`PinnedBuffer`], [`PoolStats`] |
//! | code | [`Source`], [`Module`], [`Kernel`], [`Shape`], [`Cache`] |
//! | matrix products by cuBLAS | [`Blas`] |
//! | memory and streams of other libraries | [`Device::adopt`], [`Stream::wait_foreign`], [`Stream::release_to`] |
//! | several devices | [`Topology`], [`Link`], [`Route`], [`exchange`](fn@exchange), [`all_gather`], [`all_to_all`] |
//! | exchanges beside other work, and a model of several GPUs | [`Exchange`], [`Rehearsal`], [`Interconnect`] |
//! | many jobs over several devices | [`Pool`], [`Attempt`] |
//!
//! No call panics on bad input, a missing driver, exhausted memory or a lost device. Each returns an [`Error`]
//! that states what was requested, what is available and what to do.
//!
//! # How work and memory are ordered
//!
//! Every piece of work of a stream has a number. Device memory, pinned memory and loaded modules each remember, for
//! every stream, the number of the last work that uses them; events that are recorded at intervals tell up to which
//! number the work of a stream is complete. Uses that are complete are forgotten.
//!
//! - Dropping a buffer waits for nothing: its memory goes back to the arena with its uses. An allocation takes the
//!   smallest free block that its stream can use at once. If other streams still use every block that fits, the
//!   stream waits, on the device, for just that work. If nothing fits, more memory is mapped.
//! - A graph holds the memory and the code that its work refers to. Its capture takes idle memory only, because it
//!   may be replayed on any stream.
//! - Launches may be gathered: up to 16 are submitted with one call, before any other work of their stream and before
//!   anybody waits for them.
//! - Work that fails after it had its number fails whoever reads, copies or waits for what it was to write, on any
//!   stream and as often as they ask, and nobody else. A lost device is a failure of all work that was not known to
//!   be complete.
//! - Waiting for memory to be idle is not waiting for a value: failed or lost work is idle, but its values are an
//!   error. If a wait fails on a device that is not lost, nothing is known, so what the work may use is left to the
//!   process.
//! - Whatever refers to a device's memory or streams keeps the lowest layer of the device open. So streams finish and
//!   close first and memory is unmapped last, whoever is dropped first.

mod base;
mod code;
mod device;
mod drivers;
mod memory;
mod pool;
mod queue;
pub mod testing;
mod work;

pub use base::background;
pub use base::{
    Bytes, DeviceKind, Error, Link, Lock, MemoryInfo, Plain, Properties, Result, bytes_of, bytes_of_mut,
};
pub use code::{
    AddressList, Argument, ArgumentList, Arguments, Cache, CacheStats, Kernel, LaunchPolicy, Module, Resources,
    Shape, Source,
};
pub use device::{Device, KeepLimits, KeepStats, Options, Selector, Selectors, Staging, check_team};
pub use drivers::cuda::{CublasStatus, Status as CudaStatus, cublas_status, status as cuda_status};
pub use drivers::emulated::{Emulation, Execution, ThreadOrder};
pub use drivers::{BlasType, Parameter, Passing};
pub use memory::{
    Activity, Buffer, PinnedBuffer, PinnedSlice, PoolStats, Pooling, Runs, RunsMut, Shared, View, ViewMut,
};
pub use pool::{Member, Pool, PoolError, Share, Ticket};
pub use queue::Event;
pub use work::{
    Attempt, Blas, DeviceShare, Exchange, Fallback, Fetch, Gathering, GemmOperand, GemmShape, GemmTarget, Graph,
    Interconnect, Modelled, Move, Phase, Piece, Recapture, Recorder, Rehearsal, Report, Route, Steps, Stream,
    Topology, all_gather, all_to_all, exchange,
};

/// The C++ compiler that the emulated device would use, with its version.
pub fn host_compiler() -> Result<String> {
    drivers::emulated::compiler_version()
}
