//! Transforms between evaluations and coefficients, and low-degree extension.
//!
//! [`ntt`] works on two-adic cosets (BabyBear, KoalaBear, Goldilocks), [`circle`] on circle domains (Mersenne-31).
//! [`short`] extends many short matrices in one launch. [`spread`] extends columns over several devices, a block of the
//! rows each. Input: columns.

pub mod circle;
pub mod ntt;
pub mod short;
pub mod spread;
