//! Verification with upstream's verifier.

use cairo_air::air::PublicMemory;
use cairo_air::utils::get_verification_output;
use cairo_air::verifier::verify_cairo_ex;
use cairo_air::{CairoProof, CairoProofForRustVerifier};
use stwo::core::channel::MerkleChannel;
use stwo::core::pcs::PcsConfig;
use stwo::core::vcs_lifted::merkle_hasher::MerkleHasherLifted;
use stwo_cairo_common::preprocessed_columns::preprocessed_trace::PreProcessedTraceVariant;
use stwo_cairo_prover::prover::ProverParameters;

use crate::channel::CairoChannel;
use crate::error::{Error, Result};
use crate::panics::{caught, message};
use crate::parameters::production;
use crate::program::Program;
use crate::prover::CairoProver;

/// What a proof says: that the program with this hash ran and wrote this output.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Statement {
    /// Upstream's hash of the program, as hexadecimal.
    pub program_hash: String,
    /// The values of the output, as hexadecimal.
    pub output: Vec<String>,
}

impl Statement {
    /// The statement of a proof's public memory.
    pub fn new(memory: &PublicMemory) -> Self {
        let output = get_verification_output(memory);
        let hex = |felt| format!("{felt:#x}");
        Self { program_hash: hex(output.program_hash), output: output.output.into_iter().map(hex).collect() }
    }
}

/// A copy of the proof as upstream's verifier takes it and as its files hold it: without what only the prover needs.
pub fn for_verifier<H: MerkleHasherLifted>(proof: &CairoProof<H>) -> CairoProofForRustVerifier<H>
where
    CairoProof<H>: Clone,
{
    proof.clone().into()
}

/// Verifies a proof with upstream's verifier and returns what it says. With `program`, also checks that it is a proof
/// of that program.
///
/// Upstream's verifier panics on some malformed proofs; that is a rejection too. It does not check the root of the
/// preprocessed columns, which the caller has to know: see [`preprocessed_root`]. Without `root` the proof is worth
/// something only if the prover is trusted.
///
/// # Errors
/// [`Error::Rejected`] with upstream's reason.
pub fn verify<MC: MerkleChannel>(
    proof: CairoProofForRustVerifier<MC::H>,
    program: Option<&Program>,
    root: Option<&<MC::H as MerkleHasherLifted>::Hash>,
) -> Result<Statement> {
    let memory = &proof.claim.public_data.public_memory;
    if let Some(program) = program {
        program.check(memory)?;
    }
    let statement = caught(|| Statement::new(memory)).map_err(|panic| Error::Rejected(message(&*panic)))?;
    if root.is_some_and(|root| proof.stark_proof.commitments.first() != Some(root)) {
        return Err(Error::Rejected("it has other preprocessed columns than Cairo's".into()));
    }
    match caught(|| verify_cairo_ex::<MC>(proof, false)) {
        Ok(Ok(())) => Ok(statement),
        Ok(Err(error)) => Err(Error::Rejected(error.to_string())),
        Err(panic) => Err(Error::Rejected(message(&*panic))),
    }
}

/// The root of the tree of a variant's preprocessed columns. Reads the columns from disk, or makes them, and commits
/// to them on the CPU: seconds for [`CanonicalSmall`](PreProcessedTraceVariant::CanonicalSmall), a minute or more and
/// 10 GB for [`Canonical`](PreProcessedTraceVariant::Canonical). A verifier computes it once and keeps it.
///
/// # Errors
/// A configuration that upstream does not allow.
pub fn preprocessed_root<MC: CairoChannel>(
    variant: PreProcessedTraceVariant,
    config: &PcsConfig,
) -> Result<<MC::H as MerkleHasherLifted>::Hash> {
    let parameters = ProverParameters { channel_hash: MC::HASH, pcs_config: *config, ..production(variant) };
    Ok(CairoProver::<MC>::on_cpu(parameters)?.preprocessed_root())
}
