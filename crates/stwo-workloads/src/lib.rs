//! Statements to prove with [Stwo](https://github.com/starkware-libs/stwo), on any of its backends.
//!
//! A [`Statement`] has components, public values and a [`Witness`] in host memory. [`prove`] moves the witness's
//! columns to a backend ([`FromHost`]) that can prove the statement's components ([`Provable`]); [`verify`] checks
//! the proof. Both are generic over the channel; [`choice`] has them compiled behind one interface for the command
//! line. Benchmarks time only [`prove`]; the witness is generated before.
//!
//! Lookup elements are drawn during a proof, and the interaction columns depend on them. The backend computes
//! these columns from the AIR alone ([`LogUp`]), or a first proof records them for later ones
//! ([`InteractionSource`]).
//!
//! | workload | components | columns | lookups |
//! |---|---|---|---|
//! | [`WideFibonacci`] | 1 | 100 | none |
//! | [`Poseidon2`] | 1 | 2,400 | inputs and outputs of 8 permutations per row |
//! | [`Plonk`] | 1 | 4 + 4 preprocessed | wires |
//! | [`StateMachine`] | 2 | 2 and 2 | states, across components |
//! | [`Xor`] | 2 | 7, and 2 + 3 preprocessed | an XOR table and a range |
//! | [`Blake2s`] | 12 | 10 x 416, 192, and 1 + 3 preprocessed | an XOR table, rounds, a chain |
//!
//! ```
//! use rigel_stwo_workloads::{
//!     AllWorkloads, InteractionSource, VerifierKey, Workload, benchmark_config, prove, twiddles, verify,
//! };
//! use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleChannel;
//! use stwo::prover::backend::simd::SimdBackend;
//!
//! let statement = SimdBackend::statement(Workload::Plonk, 5, 1)?;
//! let witness = statement.witness();
//! let config = benchmark_config();
//! let twiddles = twiddles::<SimdBackend>(statement.log_rows(), &config);
//! let proof = prove::<SimdBackend, Blake2sMerkleChannel>(
//!     &*statement,
//!     &witness,
//!     config,
//!     false,
//!     &twiddles,
//!     InteractionSource::Generate,
//! )?;
//! let key = VerifierKey::<Blake2sMerkleChannel>::new(&*statement, config);
//! verify(&*statement, &key, proof)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod blake2s;
pub mod choice;
mod compile;
mod cuda;
mod logup;
mod lookup;
pub mod plonk;
pub mod poseidon2;
mod prove;
mod random;
pub mod state_machine;
mod statement;
mod verify;
pub mod wide_fibonacci;
mod witness;
pub mod xor;

use std::ops::RangeInclusive;

pub use blake2s::Blake2s;
pub use compile::compile;
pub use cuda::proof_size;
pub use logup::{LogUp, PendingLogUp};
pub use lookup::Elements;
pub use plonk::Plonk;
pub use poseidon2::Poseidon2;
pub use prove::{
    FromHost, Interaction, InteractionSource, Proof, Unproved, benchmark_config, prove, prove_adopted, twiddles,
};
pub use rigel_statements::stwo::{UnknownWorkload, Workload};
pub use state_machine::StateMachine;
pub use statement::{Air, Provable, ProvableAir, Prover, Statement};
pub use verify::{Rejection, VerifierKey, check_shape, verify};
pub use wide_fibonacci::WideFibonacci;
pub use witness::{Adopted, ComponentColumns, Evaluation, HostColumn, Tree, Witness};
pub use xor::Xor;

/// A size outside a workload's range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {asked}; it must be {least} to {most}")]
pub struct BadSize {
    what: &'static str,
    asked: u64,
    least: u64,
    most: u64,
}

/// Checks that a number is in a range.
fn check(what: &'static str, asked: u64, range: RangeInclusive<u64>) -> Result<(), BadSize> {
    match range.contains(&asked) {
        true => Ok(()),
        false => Err(BadSize { what, asked, least: *range.start(), most: *range.end() }),
    }
}

/// Checks that a size is in a workload's range.
fn check_size(workload: Workload, what: &'static str, asked: u32) -> Result<(), BadSize> {
    let range = workload.log_sizes();
    check(what, asked.into(), u64::from(*range.start())..=u64::from(*range.end()))
}

/// A backend that can prove all workloads.
///
/// Implemented for every backend with [`FromHost`], with [`LogUp`] for AIRs, and with [`Prover`] for upstream's
/// `FrameworkComponent` of them.
pub trait AllWorkloads: FromHost {
    /// The workload of 2^`log_size` units ([`Workload::unit`]), with public values and witness derived from the
    /// seed.
    fn statement(workload: Workload, log_size: u32, seed: u64) -> Result<Box<dyn Provable<Self>>, BadSize>;
}

impl<B: FromHost> AllWorkloads for B
where
    WideFibonacci: Provable<B>,
    Poseidon2: Provable<B>,
    Plonk: Provable<B>,
    StateMachine: Provable<B>,
    Xor: Provable<B>,
    Blake2s: Provable<B>,
{
    fn statement(workload: Workload, log_size: u32, seed: u64) -> Result<Box<dyn Provable<B>>, BadSize> {
        Ok(match workload {
            Workload::WideFibonacci => Box::new(WideFibonacci::new(log_size, seed)?),
            Workload::Poseidon2 => Box::new(Poseidon2::new(log_size, seed)?),
            Workload::Plonk => Box::new(Plonk::new(log_size, seed)?),
            Workload::StateMachine => Box::new(StateMachine::new(log_size, seed)?),
            Workload::Xor => Box::new(Xor::new(log_size, seed)?),
            Workload::Blake2s => Box::new(Blake2s::new(log_size, seed)?),
        })
    }
}
