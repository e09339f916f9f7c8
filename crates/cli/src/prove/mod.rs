//! `rigel prove`: proves a workload on a device or on the CPU, and reports the cost.

mod options;
mod report;

use std::path::{Path, PathBuf};

use rigel_gpu::{Device, Error, Selector, background};
use rigel_plonky3::Policy;

use crate::Failure;
use crate::choice::{Choice, Prover, Workload};
use crate::proof_file::{self, Header};
use crate::terminal::Progress;
use options::FriArguments;
use report::Summary;
use rigel_stwo_workloads::choice::{Channel, Making};
use rigel_workloads::{Field, Hash, timed};

#[derive(clap::Args)]
pub struct Arguments {
    /// Workload to prove
    workload: Workload,
    /// Prover [default: the one that has the workload; Plonky3 if both do]
    #[arg(long)]
    prover: Option<Prover>,
    /// Rows of the trace, as a power of two; for lookups, of the largest table. With Stwo, the size in the workload's
    /// unit: rows, permutations, gates, steps, compressions [default: small, 8 to 16]
    #[arg(long, value_name = "N", visible_alias = "log-size")]
    log_rows: Option<u32>,
    /// Plonky3: the field [default: koala-bear]
    #[arg(long)]
    field: Option<Field>,
    /// Plonky3: the hash of trees and challenges [default: keccak]
    #[arg(long)]
    hash: Option<Hash>,
    /// Stwo: the hash of trees and challenges [default: blake2s]
    #[arg(long)]
    channel: Option<Channel>,
    /// Stwo: keep the columns' coefficients in addition to their extended values; needs more memory, gives the same
    /// proof
    #[arg(long)]
    store_coefficients: bool,
    /// Device: auto, cuda:N, emulated, emulated:N or none [default: RIGEL_DEVICE, or auto, which is the CPU if there is
    /// no GPU]
    #[arg(long, conflicts_with = "cpu")]
    device: Option<Selector>,
    /// Prove on the CPU, with upstream's prover
    #[arg(long)]
    cpu: bool,
    /// Write the proof to a file for `rigel verify`
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Write the phases as a trace for Perfetto and chrome://tracing
    #[arg(long, value_name = "FILE")]
    trace_file: Option<PathBuf>,
    #[command(flatten, next_help_heading = "FRI")]
    fri: FriArguments,
}

/// Proves and reports.
pub fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let choice = options::choice(arguments)?;
    let mut statement = match &choice {
        Choice::Plonky3(choice) => choice.statement()?,
        Choice::Stwo(choice) => {
            choice.statement(Making { store_coefficients: arguments.store_coefficients, ..Making::default() })?
        }
    };
    let device = open(arguments)?;

    let progress = Progress::spoken();
    progress.say(&format!("generating the trace of {choice} …"));
    let ((), trace_ms) = timed(|| statement.generate());
    let compiled = |device: &Option<Device>| device.as_ref().map_or(0, |device| device.cache().stats().compiled);
    let before = compiled(&device);
    if let Some(device) = &device {
        progress.say(&format!("preparing {device}; kernels that are not in the cache are compiled …"));
    }
    let policy = Policy { cpu_on_failure: true, ..Policy::default() };
    let (prepared, prepare_ms) = timed(|| statement.prepare(device.as_ref(), policy));
    prepared?;
    let place = device.as_ref().map_or("the CPU".to_string(), ToString::to_string);
    progress.say(&format!("proving on {place} …"));
    let made = statement.prove()?;
    drop(progress);

    let header = Header::new(choice, statement.publics());
    if let Some(path) = &arguments.output {
        write(path, &proof_file::encode(&header, &made.proof))?;
    }
    if let Some(path) = &arguments.trace_file {
        write(path, made.report.chrome_trace().as_bytes())?;
    }
    let summary = Summary {
        header: &header,
        tables: statement.tables(),
        device_name: device.as_ref().map(|device| device.properties().name.clone()),
        trace_milliseconds: trace_ms,
        prepare_milliseconds: prepare_ms,
        kernels_compiled: compiled(&device) - before,
        proof_bytes: made.proof.len(),
        extended_bytes: made.extended_bytes,
        report: &made.report,
        file: arguments.output.as_deref(),
    };
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&summary)?);
    } else {
        print!("{}", summary.to_text());
    }
    if background::running() > 0 {
        let progress = Progress::spoken();
        progress.say("the proof is done; compiling its kernels for later proofs …");
        background::finish();
    }
    Ok(true)
}

/// The requested device; `None` for the CPU, which `auto` selects, with a note, if there is no GPU.
fn open(arguments: &Arguments) -> Result<Option<Device>, Failure> {
    if arguments.cpu {
        return Ok(None);
    }
    let selector = arguments.device.map_or_else(Selector::from_env, Ok)?;
    match (Device::open(selector), selector) {
        (Err(Error::Disabled), _) => Ok(None),
        (Err(error @ Error::Unavailable { .. }), Selector::Auto) => {
            eprintln!("note: {error}\nnote: proving on the CPU instead, with upstream's prover");
            Ok(None)
        }
        (opened, _) => Ok(Some(opened?)),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()).into())
}
