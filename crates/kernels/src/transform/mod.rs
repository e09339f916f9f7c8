//! From evaluations to coefficients and back, and low-degree extension.
//!
//! [`ntt`] works on two-adic cosets (BabyBear, KoalaBear, Goldilocks), [`circle`] on circle domains (Mersenne-31).
//! Columns go in, columns of the same or a larger domain come out.

pub mod circle;
pub mod ntt;
