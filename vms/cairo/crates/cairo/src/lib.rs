//! Cairo programs proven on the GPU: StarkWare's AIR and witness, Rigel's backend, and upstream's own `CairoProof`,
//! which upstream's verifier accepts. A proof equals that of upstream's `prove_cairo`.
//!
//! | what | where |
//! |---|---|
//! | a compiled program, and its run | [`Program`], [`RunOptions`], [`Run`] |
//! | an input from upstream's adapter | [`read_prover_input`] |
//! | the prover, on a device or on the CPU | [`CairoProver`], [`Proven`], [`MemoryPlan`] |
//! | parameters | [`production`], [`ProverParameters`], [`PreProcessedTraceVariant`] |
//! | where the columns of the base trace are made | [`device_witness`], [`CairoProver::set_host_witness`] |
//! | verification | [`verify`], [`preprocessed_root`], [`for_verifier`], [`Statement`] |
//! | kernels compiled ahead of the first proof | [`warm`] |

mod adapter;
mod backend;
mod channel;
mod clock;
mod columns;
mod components;
mod error;
mod executable;
mod instances;
mod panics;
mod parameters;
mod place;
mod plan;
mod preprocessed;
mod program;
mod program_input;
mod prove;
mod prover;
mod setup;
mod verify;
mod warm;
mod witness;

pub use cairo_air::{CairoProof, CairoProofForRustVerifier};
pub use channel::CairoChannel;
pub use error::{Error, Result};
pub use parameters::{production, security_bits, variant_name};
pub use plan::MemoryPlan;
pub use program::{Program, Run, RunOptions, read_prover_input};
pub use prover::{CairoProver, Proven};
pub use stwo::core::vcs_lifted::blake2_merkle::{Blake2sM31MerkleChannel, Blake2sMerkleChannel};
pub use stwo_cairo_adapter::ProverInput;
pub use stwo_cairo_common::preprocessed_columns::preprocessed_trace::PreProcessedTraceVariant;
pub use stwo_cairo_prover::prover::{ChannelHash, ProverParameters};
pub use verify::{Statement, for_verifier, preprocessed_root, verify};
pub use warm::warm;
pub use witness::device_witness;
