//! Arithmetic on columns of field elements: each column is a vector, and every operation takes many at once.
//!
//! Input: matrices over a base field, or of slabs. Output: matrices, or one value per column.

pub mod elementwise;
pub mod fractions;
pub mod inverse;
pub mod powers;
pub mod reduce;
pub mod scale;
pub mod scan;
pub mod uniform;
