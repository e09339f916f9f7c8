//! The GKR protocol over multilinear polynomials, as Stwo uses it for lookups.
//!
//! Input: layers of fractions or products. Output: the next layer, or the sums of a sumcheck round.

pub mod multilinear;
