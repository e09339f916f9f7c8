//! Arithmetic over all array element types: integers, floating point, complex numbers and fields.
//!
//! The headers provide one set of functions for all of them to generated kernels (`num::` in `number.cuh`,
//! `complex.cuh` and `field.cuh`); [`matmul`] multiplies matrices with the sums of `dot.cuh`.

pub mod matmul;
