//! Array operations on all cores of the CPU: the counterpart of the kernels, without a device or a compiler.
//!
//! | what | where |
//! |---|---|
//! | element-wise expressions | [`evaluate()`] |
//! | their sums, products, minima and maxima | [`reduce()`] |
//! | matrix products | [`matmul()`] |
//! | number-theoretic transforms, and those over the circle | [`transform()`], [`circle_transform`], [`circle_points`] |
//! | inverses of field elements | [`invert`] |
//! | Merkle trees | [`merkle_digests`], [`hash_row`], [`compress`] |
//! | running sums, and the order that sorts | [`accumulate()`], [`order`] |
//! | elements at given places | [`take`], [`put`] |
//!
//! Results equal the device's: bit for bit for fields and integers (for Goldilocks, up to the representative
//! modulo p), up to rounding for floats. They do not depend on the number of threads.

mod accumulate;
mod circle;
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
mod pick;
mod plan;
mod reduce;
mod slices;
mod sort;
mod space;
#[cfg(test)]
mod tests;
mod transform;

pub(crate) use accumulate::accumulate;
pub(crate) use circle::{circle_points, circle_transform};
pub(crate) use evaluate::{Target, evaluate};
pub(crate) use inverse::invert;
pub(crate) use matmul::{Factor, matmul};
pub(crate) use merkle::{compress, hash_row, merkle_digests};
pub(crate) use pick::{put, take};
pub(crate) use plan::Operand;
pub(crate) use reduce::reduce;
pub(crate) use slices::copy;
pub(crate) use sort::order;
pub(crate) use transform::transform;
