//! Transforms between evaluations and coefficients, and low-degree extension.
//!
//! [`ntt`] works on two-adic cosets (BabyBear, KoalaBear, Goldilocks), [`circle`] on circle domains (Mersenne-31).
//! Input: columns. Output: columns on the same or a larger domain.

pub mod circle;
pub mod ntt;
