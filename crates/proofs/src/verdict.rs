//! Whether upstream's verifier accepts a proof, and how secure its parameters are.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rigel_workloads::panics::{message, quietly};
use rigel_workloads::{Rejection, Security};
use serde::Serialize;

use crate::choice::Choice;
use crate::proof_file::Header;

/// Bits of security.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bits {
    /// By upstream's conjecture.
    pub conjectured: usize,
    /// `None` where upstream has no analysis.
    pub proven: Option<usize>,
}

impl Bits {
    /// By upstream's analysis of the whole proof where it has one, else by its conjecture about queries.
    pub fn of(choice: &Choice) -> Self {
        // A header may hold anything, and upstream's analysis asserts what it expects.
        let analysis = || choice.security();
        match quietly(|_| true, || catch_unwind(AssertUnwindSafe(analysis))) {
            Ok(Some(Security { proven, conjectured })) => Self { conjectured, proven: Some(proven) },
            Ok(None) => Self { conjectured: choice.query_bits(), proven: None },
            // Parameters that it does not expect promise nothing.
            Err(_) => Self { conjectured: 0, proven: Some(0) },
        }
    }
}

/// Upstream's reason if the proof does not verify. If the verifier panics on its input, the proof is rejected.
pub fn verify(header: &Header, proof: &[u8]) -> Result<(), String> {
    quietly(|_| true, || judged(header, proof)).map_err(|(reason, _)| reason)
}

/// Whether the verifier panicked.
pub type Panicked = bool;

/// [`verify`], where the caller keeps panics from being printed.
pub fn judged(header: &Header, proof: &[u8]) -> Result<(), (String, Panicked)> {
    let judge = || {
        let statement = header.choice.statement().map_err(Rejection::Malformed)?;
        statement.verify(proof, &header.public_values)
    };
    match catch_unwind(AssertUnwindSafe(judge)) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(Rejection::Malformed(detail))) => Err((format!("the proof is malformed: {detail}"), false)),
        Ok(Err(Rejection::Refused(reason))) => Err((reason, false)),
        Err(panic) => {
            let words = message(&*panic).unwrap_or("no reason given");
            Err((format!("the proof is malformed: upstream's verifier gave up ({words})"), true))
        }
    }
}
