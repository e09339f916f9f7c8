//! A CUDA runtime for Rust, with an emulated device beside the GPU.
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
//! | which device | [`Selector`], [`Device`], [`Emulation`] |
//! | order of work | [`Stream`], [`Event`], [`Graph`] |
//! | memory | [`Buffer`], [`PinnedBuffer`], [`PoolStats`] |
//! | code | [`Source`], [`Module`], [`Kernel`], [`Shape`], [`Cache`] |
//! | matrix products by cuBLAS | [`Blas`] |
//! | memory and streams of other libraries | [`Device::adopt`], [`Stream::wait_foreign`], [`Stream::release_to`] |
//! | several devices | [`Topology`], [`Link`], [`Route`] |
//!
//! No call panics on bad input, a missing driver, a full memory or a lost device: each gives an [`Error`] that says
//! what was asked, what there is and what to do.

mod arena;
mod args;
mod blas;
mod buffer;
mod bytes;
mod cache;
mod cuda;
mod device;
mod driver;
mod emulated;
mod error;
mod foreign;
mod graph;
mod kept;
mod launch;
mod module;
mod pinned;
mod plain;
mod properties;
mod report;
mod select;
mod source;
mod stream;
pub mod testing;
mod topology;
mod transfer;

pub use arena::{PoolStats, Pooling};
pub use args::{Argument, ArgumentList, Arguments};
pub use blas::{Blas, BlasType, GemmOperand, GemmShape, GemmTarget};
pub use buffer::{Buffer, Shared, View, ViewMut};
pub use bytes::Bytes;
pub use cache::{Cache, CacheStats};
pub use cuda::{CublasStatus, Status as CudaStatus, cublas_status, status as cuda_status};
pub use device::{Activity, Device, Options};
pub use emulated::{Emulation, Execution, ThreadOrder};
pub use error::{Error, Result};
pub use graph::{Graph, Recapture};
pub use kept::{KeepLimits, KeepStats};
pub use launch::{LaunchPolicy, Shape};
pub use module::{Kernel, Module, Resources};
pub use pinned::PinnedBuffer;
pub use plain::{Plain, bytes_of, bytes_of_mut};
pub use properties::{Kind, Link, MemoryInfo, Properties};
pub use report::{Fallback, Phase, Recorder, Report};
pub use select::Selector;
pub use source::Source;
pub use stream::{Event, Stream};
pub use topology::{Route, Topology};
pub use transfer::Staging;

/// The C++ compiler that the emulated device would use, with its version.
pub fn host_compiler() -> Result<String> {
    emulated::compiler_version()
}
