//! The native module of the Python package `rigel`: NumPy-style arrays on the CPU and on GPUs, over
//! [`rigel_array`], and proofs of Plonky3 and Stwo.
//!
//! | what | where |
//! |---|---|
//! | the classes | `array`, `methods`, `lazy`, `dtype`, `field`, `merkle`, `kernel`, `transfer` |
//! | operators and functions | `operators`, `functions`, `reduce`, `arrange`, `matmul`, `algebra`, `index`, `create` |
//! | objects to arrays and numbers | `convert`, `operand`, `parse`, `scalar`, `arguments` |
//! | elements to Python numbers | `elements` |
//! | memory shared with other libraries | `numpy`, `cuda_interface`, `dlpack` |
//! | devices and proofs | `devices`, `proofs` |
//! | errors, Python's lock, Ctrl-C, progress | `error`, `work`, `progress` |
//!
//! The doc comments of exported items are the Python documentation. `tests/test_examples.py` runs their examples.

// Python examples begin with `>>>`, which Markdown reads as quotes.
#![allow(clippy::doc_lazy_continuation)]

use pyo3::prelude::*;

mod algebra;
mod arguments;
mod arrange;
mod array;
mod convert;
mod create;
mod cuda_interface;
mod devices;
mod dlpack;
mod dtype;
mod elements;
mod error;
mod field;
mod functions;
mod index;
mod kernel;
mod lazy;
mod matmul;
mod merkle;
mod methods;
mod numpy;
mod operand;
mod operators;
mod parse;
mod progress;
mod proofs;
mod reduce;
mod scalar;
mod transfer;
mod work;

#[pymodule]
fn _rigel(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    error::register(module)?;
    dtype::register(module)?;
    array::register(module)?;
    methods::register(module)?;
    lazy::register(module)?;
    create::register(module)?;
    functions::register(module)?;
    reduce::register(module)?;
    arrange::register(module)?;
    matmul::register(module)?;
    field::register(module)?;
    merkle::register(module)?;
    kernel::register(module)?;
    transfer::register(module)?;
    dlpack::register(module)?;
    devices::register(module)?;
    functions::register_numpy_names(module)?;
    proofs::register(module)
}
