//! Compares the backend with Stwo's own backends, on every available device.

mod batches;
mod columns;
mod components;
mod failures;
mod fri;
mod instances;
mod logup;
mod lookups;
mod merkle;
mod plan;
mod proofs;
mod queue;
mod quotients;
mod random;
mod samples;
mod split;
mod sums;
mod transforms;
