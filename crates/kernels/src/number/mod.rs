//! Arithmetic over all array element types: integers, floating point, complex numbers and fields.
//!
//! The headers provide one set of functions for all of them to generated kernels (`num::` in `number.cuh`,
//! `complex.cuh` and `field.cuh`); [`matmul`] multiplies matrices with the sums of `dot.cuh`, [`accumulate`] has
//! running sums and products, [`sort`] the order of rows, and [`pick`] moves elements to and from given places.

pub mod accumulate;
pub mod matmul;
pub mod pick;
pub mod sort;
