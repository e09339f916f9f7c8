//! Operations for STARK provers on the device.
//!
//! Each operation is one pair of files: the kernels in `cuda/`, written over a field type, and their typed launcher
//! here. Matrices are column-major; an extension column is as many neighbouring base columns as its degree.

mod columns;
pub mod element;
pub mod elementwise;
pub mod field;
mod grid;
pub mod hash;
pub mod inverse;
mod matrix;
pub mod merkle;
pub mod ntt;
pub mod permute;
pub mod powers;
pub mod reduce;
pub mod rows;
pub mod scan;
mod source;
mod warm;

pub use columns::Columns;
pub use matrix::Matrix;
pub use warm::warm;
