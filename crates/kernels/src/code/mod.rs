//! What Rust and the CUDA compiler agree on.
//!
//! An [`Operation`](operation::Operation) ties a `.cu` file to its constants, its launch parameters and the template
//! instances that exist; [`parameters!`](parameters) defines a struct once for both languages. Out come compiled
//! kernels, kept by the device. [`source`] is for kernels of other crates that use this crate's headers.

pub(crate) mod operation;
pub(crate) mod parameters;
mod source;

pub(crate) use operation::{Instances, KernelFile, Operation, RegisteredModule};
pub(crate) use parameters::parameters;
pub use source::source;
