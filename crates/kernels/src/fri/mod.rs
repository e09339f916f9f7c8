//! The commit phase of FRI: folding, and the proof of work.
//!
//! Input: a codeword and a challenge. Output: the folded codeword, by [`mod@fold`] on two-adic cosets and
//! [`circle_fold`] on circle domains, or by [`fold_coefficients`] the folded polynomial. [`grind`] finds the
//! smallest proof-of-work witness.

pub mod circle_fold;
pub mod fold;
pub mod fold_coefficients;
pub mod grind;
