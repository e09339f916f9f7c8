//! Upstream's receipts.
//!
//! Upstream lets nobody else construct the receipt of a segment or of a whole run, but anybody deserialize one. So the
//! fields are serialized here under upstream's names and become upstream's types by that way.

use std::panic::catch_unwind;

use risc0_zkvm::sha::Digestible;
use risc0_zkvm::{
    Assumptions, CompositeReceipt, Digest, ExitCode, InnerReceipt, MaybePruned, Output, Receipt, ReceiptClaim,
    SegmentReceipt, SystemState, VerifierContext,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// Checks a segment's seal with upstream's verifier.
///
/// # Errors
/// The verifier's error.
pub fn verify_seal(seal: &[u32]) -> Result<()> {
    if seal.len() < 2 {
        return Err(Error::Rejected(format!("a seal of {} words", seal.len())));
    }
    // It is not written for any words whatever.
    match catch_unwind(|| risc0_circuit_rv32im::verify(seal)) {
        Ok(verified) => verified.map_err(|error| Error::Rejected(error.to_string())),
        Err(_) => Err(Error::Rejected("upstream's verifier panicked".into())),
    }
}

/// Checks a receipt with upstream's verifier.
///
/// # Errors
/// The verifier's error.
pub fn verify(receipt: &Receipt, image_id: Digest) -> Result<()> {
    receipt.verify(image_id).map_err(|error| Error::Rejected(error.to_string()))
}

/// The receipt of a run whose segments were proven elsewhere: upstream's composite receipt from the seals of all
/// segments, in order, and the journal. Upstream's verifier has accepted it for the program with this image id.
///
/// # Errors
/// Seals that are not those of one whole run of the program with this journal.
pub fn assemble(seals: &[Vec<u32>], journal: Vec<u8>, image_id: Digest) -> Result<Receipt> {
    let receipt = composite(seals, journal)?;
    verify(&receipt, image_id)?;
    Ok(receipt)
}

#[derive(Serialize)]
struct SegmentFields<'a> {
    seal: &'a [u32],
    index: u32,
    hashfn: &'a str,
    verifier_parameters: Digest,
    claim: ReceiptClaim,
}

#[derive(Serialize)]
struct CompositeFields {
    segments: Vec<SegmentReceipt>,
    assumption_receipts: [(); 0],
    verifier_parameters: Digest,
}

/// The receipt of a run from the seals of its segments, in order.
pub(crate) fn composite(seals: &[Vec<u32>], journal: Vec<u8>) -> Result<Receipt> {
    let context = VerifierContext::default();
    let missing = || Error::Rejected("upstream's verifier has no parameters".into());
    let parameters = context.segment_verifier_parameters.as_ref().ok_or_else(missing)?.digest();
    let mut segments = Vec::with_capacity(seals.len());
    for (index, seal) in seals.iter().enumerate() {
        segments.push(convert::<SegmentReceipt>(&SegmentFields {
            seal,
            index: index as u32,
            hashfn: "poseidon2",
            verifier_parameters: parameters,
            claim: claim(seal, &journal)?,
        })?);
    }
    let verifier_parameters = context.composite_verifier_parameters().ok_or_else(missing)?.digest();
    let receipt: CompositeReceipt =
        convert(&CompositeFields { segments, assumption_receipts: [], verifier_parameters })?;
    Ok(Receipt::new(InnerReceipt::Composite(receipt), journal))
}

/// The claim of a segment's seal. The last one commits to the journal.
fn claim(seal: &[u32], journal: &[u8]) -> Result<ReceiptClaim> {
    let rejected = |error: anyhow::Error| Error::Rejected(error.to_string());
    let decoded = catch_unwind(|| risc0_circuit_rv32im::Claim::decode(seal));
    // It is not written for any words whatever, either.
    let decoded = decoded.map_err(|_| Error::Rejected(format!("a seal of {} words has no claim", seal.len())))?;
    let claim = decoded.map_err(rejected)?;
    let exit_code = claim.exit_code().map_err(rejected)?;
    let post_state = match exit_code {
        ExitCode::Halted(_) => Digest::ZERO,
        _ => claim.post_state,
    };
    let state = |merkle_root| MaybePruned::Value(SystemState { pc: 0, merkle_root });
    let output = match claim.output {
        None => MaybePruned::default(),
        Some(Digest::ZERO) => MaybePruned::Pruned(Digest::ZERO),
        Some(digest) => {
            let output: MaybePruned<Option<Output>> =
                Some(Output { journal: journal.to_vec().into(), assumptions: Assumptions(vec![]).into() }).into();
            if output.digest() != digest {
                return Err(Error::Run("the program does not commit to its journal".into()));
            }
            output
        }
    };
    Ok(ReceiptClaim {
        pre: state(claim.pre_state),
        post: state(post_state),
        exit_code,
        input: MaybePruned::Pruned(Digest::ZERO),
        output,
    })
}

fn convert<T: DeserializeOwned>(fields: &impl Serialize) -> Result<T> {
    let value = serde_json::to_value(fields).and_then(serde_json::from_value);
    value.map_err(|error| Error::Rejected(format!("upstream's receipt has another form: {error}")))
}
