//! Verification with upstream's verifier.

use cairo_air::air::PublicMemory;
use cairo_air::utils::get_verification_output;
use cairo_air::verifier::verify_cairo_ex;
use cairo_air::{CairoProof, CairoProofForRustVerifier};
use stwo::core::channel::MerkleChannel;
use stwo::core::vcs_lifted::merkle_hasher::MerkleHasherLifted;

use crate::error::{Error, Result};
use crate::panics::{caught, message};
use crate::program::Program;

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

/// Verifies a proof with upstream's verifier and returns what it says. With `program`, also checks that it is a proof of
/// that program.
///
/// Upstream's verifier panics on some malformed proofs; that is a rejection too. It does not check the root of the
/// preprocessed columns: compare it with [`preprocessed_root`](crate::preprocessed_root) if the prover is not trusted.
///
/// # Errors
/// [`Error::Rejected`] with upstream's reason.
pub fn verify<MC: MerkleChannel>(
    proof: CairoProofForRustVerifier<MC::H>,
    program: Option<&Program>,
) -> Result<Statement> {
    let memory = &proof.claim.public_data.public_memory;
    let statement = Statement::new(memory);
    if let Some(program) = program {
        program.check(memory)?;
    }
    match caught(|| verify_cairo_ex::<MC>(proof, false)) {
        Ok(Ok(())) => Ok(statement),
        Ok(Err(error)) => Err(Error::Rejected(error.to_string())),
        Err(panic) => Err(Error::Rejected(message(&*panic))),
    }
}
