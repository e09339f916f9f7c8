//! Verification with upstream's verifier.

use cairo_air::air::{PublicData, PublicMemory};
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
use crate::parameters::{check, production};
use crate::program::Program;
use crate::prover::CairoProver;

/// The statement of a proof: that the program with this hash ran and wrote this output.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Statement {
    /// Upstream's hash of the program, as hexadecimal.
    pub program_hash: String,
    /// The values of the output, as hexadecimal.
    pub output: Vec<String>,
}

impl Statement {
    /// The statement of a proof's public memory.
    ///
    /// # Errors
    /// [`Error::Rejected`] for a memory that no proof has.
    pub fn new(memory: &PublicMemory) -> Result<Self> {
        let read = || {
            let output = get_verification_output(memory);
            let hex = |felt| format!("{felt:#x}");
            Self { program_hash: hex(output.program_hash), output: output.output.into_iter().map(hex).collect() }
        };
        caught(read).map_err(|panic| Error::Rejected(message(&*panic)))
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
    check_config(&proof)?;
    check_public_data(&proof.claim.public_data)?;
    let memory = &proof.claim.public_data.public_memory;
    if let Some(program) = program {
        program.check(memory)?;
    }
    let statement = Statement::new(memory)?;
    if root.is_some_and(|root| proof.stark_proof.commitments.first() != Some(root)) {
        return Err(Error::Rejected("it has other preprocessed columns than Cairo's".into()));
    }
    match caught(|| verify_cairo_ex::<MC>(proof, false)) {
        Ok(Ok(())) => Ok(statement),
        Ok(Err(error)) => Err(Error::Rejected(error.to_string())),
        Err(panic) => Err(Error::Rejected(message(&*panic))),
    }
}

/// Checks a proof's parameters, with which upstream's verifier would panic or not end.
fn check_config<H: MerkleHasherLifted>(proof: &CairoProofForRustVerifier<H>) -> Result<()> {
    let pcs_config = proof.stark_proof.config;
    let parameters = ProverParameters { pcs_config, ..production(proof.preprocessed_trace_variant) };
    check(&parameters).map_err(|error| Error::Rejected(error.to_string()))
}

/// Checks that the public memory is the program's and the output segment's, which upstream's verifier leaves to the
/// caller: the words that it adds to the memory lie between the initial `pc` and `ap`, and from the final `ap` on, and
/// only their lowest 252 bits count.
fn check_public_data(data: &PublicData) -> Result<()> {
    let rejected = |reason: &str| Err(Error::Rejected(reason.into()));
    let memory = &data.public_memory;
    let [initial_pc, initial_ap, final_ap] =
        [data.initial_state.pc, data.initial_state.ap, data.final_state.ap].map(|place| u64::from(place.0));
    if initial_pc + memory.program.len() as u64 + 2 != initial_ap {
        return rejected("its program does not fill the memory up to the first frame");
    }
    let output = memory.public_segments.output;
    let [start, stop] = [output.start_ptr.value, output.stop_ptr.value].map(u64::from);
    if start != final_ap || start + memory.output.len() as u64 != stop {
        return rejected("its output is not what the output segment holds");
    }
    if !memory.program.iter().chain(&memory.output).all(|(_, words)| is_canonical(words)) {
        return rejected("a word of its program or output is not below Cairo's prime");
    }
    Ok(())
}

/// Whether a number, lowest word first, is below 2^251 + 17 2^192 + 1.
fn is_canonical(words: &[u32; 8]) -> bool {
    const PRIME: [u32; 8] = [1, 0, 0, 0, 0, 0, 17, 1 << 27];
    words.iter().rev().lt(PRIME.iter().rev())
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
