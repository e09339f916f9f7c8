//! What Rust and the CUDA compiler agree on.
//!
//! An `Operation` ties a `.cu` file to its constants, its launch parameters and the template
//! instances that exist; `parameters!` defines a struct once for both languages. Out come compiled
//! kernels, kept by the device. Other crates use [`source`] and `parameters!` for kernels of their own over this crate's
//! headers.

pub(crate) mod operation;
pub mod parameters;
mod source;

pub(crate) use operation::{Instances, KernelFile, Operation, RegisteredModule};
pub use parameters::parameters;
pub use source::source;
