//! Plonky3 proofs on the GPU, byte for byte.

mod batch;
mod challenger;
mod check;
mod commit;
mod config;
mod constraints;
mod error;
mod extended;
mod fallback;
mod field;
mod fri;
mod hash;
mod lookup;
mod open;
mod plan;
mod preprocessed;
mod program;
mod prove;
mod prover;
mod quotient;
mod report;
mod trace;
mod transcript;

pub use batch::{BatchKey, Instance, prove_batch, setup_batch};
pub use challenger::{DeviceChallenger, DevicePermutation};
pub use config::{Base, DeviceConfig, Digest, Ext};
pub use error::{Error, Result};
pub use fallback::{CpuAir, CpuBatchAir};
pub use field::{DeviceExtension, DeviceField};
pub use hash::TreeHash;
pub use plan::{Plan, PlannedPhase, plan, plan_batch};
pub use preprocessed::{Preprocessed, setup_preprocessed};
pub use prove::{prove, prove_with_preprocessed};
pub use prover::{Policy, Prover};
pub use report::{Fallback, Phase, Proven, Report};
pub use trace::Trace;
