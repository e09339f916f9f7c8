//! Arithmetic over every element type of arrays: integers, floating point, complex numbers and fields.
//!
//! The headers give generated kernels one set of functions for all of them (`num::` in `number.cuh`, `complex.cuh` and
//! `field.cuh`); [`matmul`] multiplies matrices with the sums of `dot.cuh`.

pub mod matmul;
