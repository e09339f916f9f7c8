//! The GKR protocol over multilinear polynomials, as Stwo uses it for lookups.
//!
//! Layers of fractions or products go in; the next layer, or a round's sums, come out.

pub mod multilinear;
