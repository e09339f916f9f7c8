//! Transforms between evaluations and coefficients, and low-degree extension.
//!
//! [`ntt`] works on two-adic cosets (BabyBear, KoalaBear, Goldilocks), [`circle`] on circle domains (Mersenne-31).
//! [`spread`] extends columns over several devices, with [`residues`] where a device has few rows. Input: columns.

pub mod circle;
pub mod ntt;
pub mod residues;
pub mod spread;
