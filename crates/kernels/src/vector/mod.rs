//! Arithmetic on columns of field elements: each column is a vector, and every operation takes many at once.
//!
//! Matrices of a base field or of slabs go in; matrices, or one value for each column, come out.

pub mod elementwise;
pub mod inverse;
pub mod powers;
pub mod reduce;
pub mod scan;
