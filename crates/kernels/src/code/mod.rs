//! Definitions shared by Rust and the CUDA compiler.
//!
//! An `Operation` connects a `.cu` file with its constants, its launch parameters and the template instances that
//! exist; `parameters!` defines a struct once for both languages. The device compiles the kernels and keeps them. Other
//! crates use [`source`] and `parameters!` for their own kernels over this crate's headers.

pub(crate) mod operation;
pub mod parameters;
mod source;

pub(crate) use operation::{Instances, KernelFile, Operation, RegisteredModule};
pub use parameters::parameters;
pub use source::source;
