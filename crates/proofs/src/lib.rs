//! Proofs of the workloads as files: what a proof states ([`choice`]), how it is stored ([`proof_file`]), and whether
//! upstream's verifier accepts it ([`verdict`]). The command line and the Python package share them, so that a file
//! written by one is read by the other. Without the feature `stwo`, statements of Stwo have names, and are refused.
//!
//! ```
//! use rigel_proofs::choice::Choice;
//! use rigel_proofs::proof_file::{self, Header};
//! use rigel_workloads::{Field, Fri, Hash, Workload};
//!
//! let choice = Choice::Plonky3(rigel_workloads::Choice {
//!     workload: Workload::Fibonacci,
//!     log_rows: 4,
//!     field: Field::KoalaBear,
//!     hash: Hash::Keccak,
//!     fri: Fri { pow_bits: 4, batch_pow_bits: 0, ..Fri::default() },
//! });
//! let mut statement = choice.statement()?;
//! statement.generate();
//! statement.prepare(None, Default::default())?; // on the CPU
//! let proof = statement.prove()?.proof;
//!
//! let file = proof_file::encode(&Header::new(choice, statement.publics()), &proof);
//! let (header, proof) = proof_file::decode(&file)?;
//! rigel_proofs::verdict::verify(&header, proof, rigel_proofs::verdict::MEMORY)?;
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```

pub mod choice;
pub mod proof_file;
pub mod stwo;
pub mod verdict;
