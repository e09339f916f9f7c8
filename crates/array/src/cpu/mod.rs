//! Arrays on the processor, on all its threads: what the kernels do, without a device and without a compiler.
//!
//! | what | where |
//! |---|---|
//! | expressions at every place | [`evaluate()`] |
//! | sums, products, extrema of them | [`reduce()`] |
//! | products of matrices | [`matmul()`] |
//! | number-theoretic transforms | [`transform()`] |
//! | inverses of field elements | [`invert`] |
//! | Merkle roots | [`merkle_root`] |
//!
//! Results are those of the device: of fields and integers bit for bit (Goldilocks' up to the choice of a class's
//! integer), of floats up to rounding. They do not depend on the number of threads.

mod complex;
mod convert;
mod evaluate;
mod inverse;
mod loops;
mod matmul;
mod merkle;
mod moves;
mod number;
mod operation;
mod plan;
mod reduce;
mod slices;
mod space;
#[cfg(test)]
mod tests;
mod transform;

pub(crate) use evaluate::{Target, evaluate};
pub(crate) use inverse::invert;
pub(crate) use matmul::{Factor, matmul};
pub(crate) use merkle::merkle_root;
pub(crate) use plan::Operand;
pub(crate) use reduce::reduce;
pub(crate) use slices::copy;
pub(crate) use transform::transform;
