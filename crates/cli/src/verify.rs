//! `rigel verify`: upstream's verdict about a proof in a file.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use rigel_gpu::Bytes;
use serde::Serialize;

use crate::Failure;
use crate::proof_file::{self, Header};
use crate::terminal::{Paint, number};
use rigel_workloads::{Rejection, timed};

#[derive(clap::Args)]
pub struct Arguments {
    /// A file that `rigel prove -o` wrote
    #[arg(value_name = "FILE")]
    proof: PathBuf,
    /// Print the verdict as JSON
    #[arg(long)]
    json: bool,
}

/// The verdict for machines.
#[derive(Serialize)]
struct Verdict<'a> {
    verified: bool,
    /// Why not.
    reason: Option<&'a str>,
    #[serde(flatten)]
    header: &'a Header,
    proof_bytes: usize,
    milliseconds: f64,
}

/// Checks the proof. Whether it verifies.
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

/// Upstream's reason if the proof does not hold. A verifier that panics on what it was given has refused it.
fn verify(header: &Header, proof: &[u8]) -> Result<(), String> {
    let judge = || {
        let statement = header.choice.statement().map_err(Rejection::Malformed)?;
        statement.verify(proof, &header.public_values)
    };
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let verdict = catch_unwind(AssertUnwindSafe(judge));
    std::panic::set_hook(hook);
    match verdict {
        Ok(Ok(())) => Ok(()),
        Ok(Err(Rejection::Malformed(detail))) => Err(format!("the proof is malformed: {detail}")),
        Ok(Err(Rejection::Refused(reason))) => Err(reason),
        Err(panic) => {
            let words = panic.downcast_ref::<String>().map(String::as_str);
            let words = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
            Err(format!("the proof is malformed: upstream's verifier gave up ({words})"))
        }
    }
}

fn text(header: &Header, bytes: usize, reason: Option<&str>, milliseconds: f64) -> String {
    let Header { choice, public_values, .. } = header;
    let fri = &choice.fri;
    let verdict = match reason {
        None => format!("{} in {} ms", Paint::Good.on("verified"), number(milliseconds)),
        Some(reason) => format!("{}: {reason}", Paint::Bad.on("does not verify")),
    };
    let publics: Vec<String> =
        public_values.iter().filter(|values| !values.is_empty()).map(|values| format!("{values:?}")).collect();
    let publics = if publics.is_empty() { "none".to_string() } else { publics.join(", ") };
    format!(
        "{choice}: {verdict}\n  proof          {}\n  public values  {publics}\n  FRI            blowup 2^{}, {} queries, \
         {} + {} + {} bits of work, arity at most 2^{}, final polynomial 2^{}, caps 2^{}\n  security       {} bits, \
         by upstream's conjecture about queries\n",
        Bytes(bytes),
        fri.log_blowup,
        fri.queries,
        fri.batch_pow_bits,
        fri.commit_pow_bits,
        fri.pow_bits,
        fri.max_log_arity,
        fri.log_final_poly_len,
        fri.cap_height,
        fri.conjectured_bits(),
    )
}
