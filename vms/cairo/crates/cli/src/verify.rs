//! `rigel cairo verify`: verifies a proof with upstream's verifier, and says what it proves.

use std::path::PathBuf;
use std::time::Instant;

use rigel_cairo::{
    CairoChannel, CairoProofForRustVerifier, ChannelHash, Error, Program, Statement, preprocessed_root,
    security_bits, variant_name, verify,
};
use rigel_gpu::Bytes;
use rigel_terminal::{Align, Columns, Paint, number};
use serde::Serialize;

use crate::Failure;
use crate::options::{Channel, with_channel};
use crate::report::output;

#[derive(clap::Args)]
pub struct Arguments {
    /// Proof in upstream's JSON format, as `rigel cairo prove -o` writes it
    #[arg(value_name = "FILE")]
    proof: PathBuf,
    /// Compiled program that the proof has to be of
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Hash of trees and challenges, which the file does not name
    #[arg(long, default_value = "blake2s")]
    channel: Channel,
    /// Least bits of security, by upstream's conjecture about queries
    #[arg(long, value_name = "BITS", default_value_t = 96)]
    security: u32,
}

/// The result.
#[derive(Serialize)]
struct Verdict {
    verified: bool,
    /// The reason, if it is rejected.
    reason: Option<String>,
    #[serde(flatten)]
    statement: Statement,
    variant: &'static str,
    security_bits: u32,
    queries: usize,
    log_blowup: u32,
    pow_bits: u32,
    proof_bytes: usize,
    milliseconds: f64,
}

/// Checks the proof. Returns whether it verifies.
pub fn run(arguments: &Arguments, json: bool) -> Result<bool, Failure> {
    with_channel!(ChannelHash::from(arguments.channel), check(arguments, json))
}

fn check<MC: CairoChannel>(arguments: &Arguments, json: bool) -> Result<bool, Failure> {
    let path = arguments.proof.display();
    let text = std::fs::read(&arguments.proof).map_err(|error| format!("{path}: {error}"))?;
    let proof: CairoProofForRustVerifier<MC::H> = serde_json::from_slice(&text)
        .map_err(|error| format!("{path}: not a Cairo proof in upstream's JSON format: {error}"))?;
    let program = arguments.program.as_ref().map(Program::read).transpose()?;

    let config = proof.stark_proof.config;
    let variant = proof.preprocessed_trace_variant;
    let statement = Statement::new(&proof.claim.public_data.public_memory)?;
    let began = Instant::now();
    let verdict = if security_bits(&config) < arguments.security {
        Err(Error::Rejected(format!(
            "it has {} bits of security, fewer than {}",
            security_bits(&config),
            arguments.security
        )))
    } else {
        preprocessed_root::<MC>(variant, &config)
            .and_then(|root| verify::<MC>(proof, program.as_ref(), Some(&root)))
    };
    let reason = match verdict {
        Ok(_) => None,
        Err(Error::Rejected(reason)) => Some(reason),
        Err(error) => return Err(error.into()),
    };
    let verdict = Verdict {
        verified: reason.is_none(),
        reason,
        statement,
        variant: variant_name(variant),
        security_bits: security_bits(&config),
        queries: config.fri_config.n_queries,
        log_blowup: config.fri_config.log_blowup_factor,
        pow_bits: config.pow_bits,
        proof_bytes: text.len(),
        milliseconds: began.elapsed().as_secs_f64() * 1e3,
    };
    if json {
        println!("{}", serde_json::to_string_pretty(&verdict)?);
    } else {
        println!("{path}: {}", text_of(&verdict));
    }
    Ok(verdict.verified)
}

fn text_of(verdict: &Verdict) -> String {
    let first = match &verdict.reason {
        None => format!("{} in {} ms", Paint::Good.on("verified"), number(verdict.milliseconds)),
        Some(reason) => format!("{}: {reason}", Paint::Bad.on("rejected")),
    };
    let fri =
        format!("blowup 2^{}, {} queries, {} bits of work", verdict.log_blowup, verdict.queries, verdict.pow_bits);
    let security = format!("{} bits, by upstream's conjecture about queries", verdict.security_bits);
    let mut columns = Columns::new(&[Align::Left, Align::Left]);
    for (name, value) in [
        ("program hash", verdict.statement.program_hash.as_str()),
        ("output", &output(&verdict.statement)),
        ("security", &security),
        ("FRI", &fri),
        ("variant", verdict.variant),
        ("proof", &Bytes(verdict.proof_bytes).to_string()),
    ] {
        columns.row(Paint::Plain, [name, value]);
    }
    format!("{first}\n{}", columns.to_text("  ").trim_end())
}
