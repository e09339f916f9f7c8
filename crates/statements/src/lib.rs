//! Statements that Rigel's command line proves, behind one trait for every prover.
//!
//! A [`Statement`] is one workload of one size: it makes its witness, its proofs on the CPU or on devices, upstream's
//! own proofs, and verifies them. Upstream's provers and ours are compiled for each combination of field, hash and AIR
//! in the crates that implement the trait (`rigel-workloads` for Plonky3, `rigel-stwo-workloads` for Stwo); callers see
//! none of upstream's types. [`many`] shares out proofs of one statement over devices, [`bounded`] reads proofs of
//! unknown origin within a limit of memory, and [`panics`] hides the messages of panics that are expected.

pub mod bounded;
pub mod many;
pub mod panics;
mod statement;
pub mod stwo;

pub use statement::{Made, NO_INPUTS, OnFailure, Rejection, Security, Statement, TableShape, timed};

/// The reason why a proof could not be made.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
