//! The commit phase of FRI: folding, and the proof of work.
//!
//! A codeword and a challenge go in, the folded codeword comes out: [`mod@fold`] on two-adic cosets, [`circle_fold`] on
//! circle domains. [`grind`] finds the smallest proof-of-work witness.

pub mod circle_fold;
pub mod fold;
pub mod grind;
