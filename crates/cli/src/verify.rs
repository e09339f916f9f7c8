//! `rigel verify`: verifies a proof file with upstream's verifier.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use rigel_gpu::Bytes;
use serde::Serialize;

use crate::Failure;
use crate::choice::Choice;
use crate::proof_file::{self, Header};
use crate::terminal::{Paint, number};
use rigel_workloads::panics::{message, quietly};
use rigel_workloads::{Rejection, timed};

#[derive(clap::Args)]
pub struct Arguments {
    /// File written by `rigel prove -o`
    #[arg(value_name = "FILE")]
    proof: PathBuf,
    /// Print the verdict as JSON
    #[arg(long)]
    json: bool,
}

/// The result as JSON.
#[derive(Serialize)]
struct Verdict<'a> {
    verified: bool,
    /// The reason, if it does not verify.
    reason: Option<&'a str>,
    #[serde(flatten)]
    header: &'a Header,
    proof_bytes: usize,
    milliseconds: f64,
}

/// Checks the proof. Returns whether it verifies.
pub fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let path = arguments.proof.display();
    let file = std::fs::read(&arguments.proof).map_err(|error| format!("{path}: {error}"))?;
    let (header, proof) = proof_file::decode(&file).map_err(|refusal| format!("{path}: {refusal}"))?;
    let (verdict, milliseconds) = timed(|| verify(&header, proof));
    let reason = verdict.err();
    if arguments.json {
        let verdict = Verdict {
            verified: reason.is_none(),
            reason: reason.as_deref(),
            header: &header,
            proof_bytes: proof.len(),
            milliseconds,
        };
        println!("{}", serde_json::to_string_pretty(&verdict)?);
    } else {
        print!("{}", text(&header, proof.len(), reason.as_deref(), milliseconds));
    }
    Ok(reason.is_none())
}

/// Upstream's reason if the proof does not verify. If the verifier panics on its input, the proof is rejected.
fn verify(header: &Header, proof: &[u8]) -> Result<(), String> {
    let judge = || {
        let statement = header.choice.statement().map_err(Rejection::Malformed)?;
        statement.verify(proof, &header.public_values)
    };
    match quietly(|_| true, || catch_unwind(AssertUnwindSafe(judge))) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(Rejection::Malformed(detail))) => Err(format!("the proof is malformed: {detail}")),
        Ok(Err(Rejection::Refused(reason))) => Err(reason),
        Err(panic) => {
            let words = message(&*panic).unwrap_or("no reason given");
            Err(format!("the proof is malformed: upstream's verifier gave up ({words})"))
        }
    }
}

fn text(header: &Header, bytes: usize, reason: Option<&str>, milliseconds: f64) -> String {
    let Header { choice, public_values, .. } = header;
    let verdict = match reason {
        None => format!("{} in {} ms", Paint::Good.on("verified"), number(milliseconds)),
        Some(reason) => format!("{}: {reason}", Paint::Bad.on("does not verify")),
    };
    let publics: Vec<String> =
        public_values.iter().filter(|values| !values.is_empty()).map(|values| format!("{values:?}")).collect();
    let publics = if publics.is_empty() { "none".to_string() } else { publics.join(", ") };
    format!(
        "{choice}: {verdict}\n  prover         {}\n  proof          {}\n  public values  {publics}\n{}",
        choice.prover().title(),
        Bytes(bytes),
        parameters(choice)
    )
}

/// The parameters that determine a proof's size and soundness.
fn parameters(choice: &Choice) -> String {
    let (fri, security) = match choice {
        Choice::Plonky3(choice) => {
            let fri = &choice.fri;
            let text = format!(
                "blowup 2^{}, {} queries, {} + {} + {} bits of work, arity at most 2^{}, final polynomial 2^{}, \
                 caps 2^{}",
                fri.log_blowup,
                fri.queries,
                fri.batch_pow_bits,
                fri.commit_pow_bits,
                fri.pow_bits,
                fri.max_log_arity,
                fri.log_final_poly_len,
                fri.cap_height,
            );
            (text, fri.conjectured_bits())
        }
        Choice::Stwo(choice) => {
            let fri = &choice.fri;
            let text = format!(
                "blowup 2^{}, {} queries, {} bits of work, folds by 2^{}, last layer 2^{}",
                fri.log_blowup, fri.queries, fri.pow_bits, fri.fold_step, fri.log_last_layer
            );
            (text, fri.conjectured_bits() as usize)
        }
    };
    format!("  FRI            {fri}\n  security       {security} bits, by upstream's conjecture about queries\n")
}
