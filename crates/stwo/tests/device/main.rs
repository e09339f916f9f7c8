//! The backend against Stwo's own, on every device there is.

mod columns;
mod components;
mod failures;
mod fri;
mod logup;
mod lookups;
mod merkle;
mod proofs;
mod quotients;
mod random;
mod sums;
mod transforms;
