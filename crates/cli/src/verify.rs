//! `rigel verify`: verifies a proof file with upstream's verifier.

use std::fmt;
use std::path::{Path, PathBuf};

use rigel_gpu::Bytes;
use serde::Serialize;
use serde_json::Value;

use crate::Failure;
use crate::choice::Choice;
use crate::proof_file::{self, Header};
use crate::terminal::{Paint, Refusal, number};
use rigel_proofs::proof_file::Unread;
use rigel_proofs::verdict::{Bits, MEMORY, Unverified, verify};
use rigel_statements::timed;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// File written by `rigel prove -o`
    #[arg(value_name = "FILE")]
    proof: PathBuf,
    /// Reject a proof whose parameters give fewer bits of conjectured security
    #[arg(long, value_name = "BITS")]
    security: Option<usize>,
    /// Reject a proof whose parameters give fewer bits of proven security
    #[arg(long, value_name = "BITS")]
    proven_security: Option<usize>,
    /// Memory that reading and verifying may take, such as 2GiB [default: 64MiB]
    #[arg(long, value_name = "BYTES")]
    memory_limit: Option<Bytes>,
    /// Reject a proof of another statement than this JSON file describes
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
A file states what it proves, and with which parameters: whoever made it chose both. --expect names the statement that
you want: a JSON object with any of the fields that --json prints, such as
  {\"prover\": \"plonky3\", \"workload\": \"fibonacci\", \"log_rows\": 10, \"public_values\": [[0, 1, 55]]}
--security sets the least security that you accept.

The size of the statement is chosen by whoever made the file, too, and verifying takes memory for it. A file that takes
more than --memory-limit is refused before anything is computed.

Exit codes: 0 verified, 1 rejected, 2 the command line was not understood, 3 a file can't be read.";

/// The advice about a file that is refused for its memory.
const RAISE: &str = "if you trust the file, allow more with --memory-limit";

/// The result as JSON.
#[derive(Serialize)]
struct Verdict<'a> {
    verified: bool,
    /// The reason, if it does not verify.
    reason: Option<&'a str>,
    #[serde(flatten)]
    header: &'a Header,
    security: Bits,
    proof_bytes: usize,
    milliseconds: f64,
}

/// Whether the proof verifies, or why nothing can be said about it.
pub fn run(arguments: &Arguments, json: bool) -> Result<bool, Failure> {
    let unreadable =
        |path: &Path, why: &dyn fmt::Display| Refusal::Unreadable(format!("{}: {why}", path.display()));
    let read = |path: &Path| std::fs::read(path).map_err(|error| unreadable(path, &error));
    let expected = match &arguments.expect {
        None => None,
        Some(path) => match serde_json::from_slice(&read(path)?) {
            Ok(expected @ Value::Object(_)) => Some(expected),
            Ok(_) => return Err(unreadable(path, &"not a JSON object").into()),
            Err(error) => return Err(unreadable(path, &error).into()),
        },
    };
    let Bytes(memory) = arguments.memory_limit.unwrap_or(Bytes(MEMORY));
    let named = |why: &dyn fmt::Display| format!("{}: {why}", arguments.proof.display());
    let file = proof_file::read(&arguments.proof, memory).map_err(|unread| -> Failure {
        match unread {
            Unread::Io(error) => unreadable(&arguments.proof, &error).into(),
            Unread::Refused(refusal) => named(&format_args!("{refusal}; {RAISE}")).into(),
        }
    })?;
    let (header, proof) = proof_file::decode(&file).map_err(|refusal| named(&refusal))?;
    let bits = Bits::of(&header.choice);
    let (verdict, milliseconds) = timed(|| {
        expected.as_ref().map_or(Ok(()), |expected| as_expected(&header, expected))?;
        secure(bits, arguments)?;
        verify(&header, proof, memory)
    });
    let reason = match verdict {
        Ok(()) => None,
        // It may be a proof: nothing was found out about it.
        Err(unverified @ Unverified::NotBuilt(_)) => return Err(named(&unverified).into()),
        Err(unverified @ Unverified::Memory { .. }) => {
            return Err(named(&format_args!("{unverified}; {RAISE}")).into());
        }
        Err(rejected) => Some(rejected.to_string()),
    };
    if json {
        let verdict = Verdict {
            verified: reason.is_none(),
            reason: reason.as_deref(),
            header: &header,
            security: bits,
            proof_bytes: proof.len(),
            milliseconds,
        };
        println!("{}", serde_json::to_string_pretty(&verdict).expect("a verdict holds strings and numbers"));
    } else {
        print!("{}", text(&header, proof.len(), bits, reason.as_deref(), milliseconds));
    }
    Ok(reason.is_none())
}

/// Compares the statement with the expected one, field by field.
fn as_expected(header: &Header, expected: &Value) -> Result<(), Unverified> {
    let stated = serde_json::to_value(header).expect("a header holds strings and numbers");
    match difference(&stated, expected, "") {
        None => Ok(()),
        Some(difference) => {
            Err(Unverified::Rejected(format!("the statement is not the expected one: {difference}")))
        }
    }
}

/// The first field of `expected` that is not the same in `stated`.
fn difference(stated: &Value, expected: &Value, name: &str) -> Option<String> {
    if let (Value::Object(stated), Value::Object(expected)) = (stated, expected) {
        return expected.iter().find_map(|(key, expected)| {
            let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
            match stated.get(key) {
                Some(stated) => difference(stated, expected, &name),
                None => Some(format!("{name} should be {expected}, the file does not state it")),
            }
        });
    }
    (stated != expected).then(|| format!("{name} should be {expected}, the file states {stated}"))
}

/// Compares the bits of security with those that are asked for.
fn secure(bits: Bits, arguments: &Arguments) -> Result<(), Unverified> {
    let Bits { conjectured, proven } = bits;
    if let Some(least) = arguments.security
        && conjectured < least
    {
        let reason = format!("its parameters give {conjectured} bits of conjectured security, asked for {least}");
        return Err(Unverified::Rejected(reason));
    }
    let reason = match (arguments.proven_security, proven) {
        (Some(least), None) => {
            format!("upstream has no analysis of proven security for this statement, asked for {least} bits")
        }
        (Some(least), Some(proven)) if proven < least => {
            format!("its parameters give {proven} bits of proven security, asked for {least}")
        }
        _ => return Ok(()),
    };
    Err(Unverified::Rejected(reason))
}

fn text(header: &Header, bytes: usize, bits: Bits, reason: Option<&str>, milliseconds: f64) -> String {
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
        parameters(choice, bits)
    )
}

/// The parameters that determine a proof's size and soundness.
fn parameters(choice: &Choice, bits: Bits) -> String {
    let fri = match choice {
        Choice::Plonky3(choice) => {
            let fri = &choice.fri;
            format!(
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
            )
        }
        Choice::Stwo(choice) => {
            let fri = &choice.fri;
            format!(
                "blowup 2^{}, {} queries, {} bits of work, folds by 2^{}, last layer 2^{}",
                fri.log_blowup, fri.queries, fri.pow_bits, fri.fold_step, fri.log_last_layer
            )
        }
    };
    let security = match bits {
        Bits { conjectured, proven: Some(proven) } => {
            format!("{conjectured} bits by upstream's conjecture, {proven} proven")
        }
        Bits { conjectured, proven: None } => {
            format!("{conjectured} bits, by upstream's conjecture about queries")
        }
    };
    format!("  FRI            {fri}\n  security       {security}\n")
}
