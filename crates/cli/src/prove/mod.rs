//! `rigel prove`: a proof of a workload, on a device or on the CPU, and what it took.

mod report;

use std::path::{Path, PathBuf};

use rigel_gpu::{Device, Error, Selector};
use rigel_plonky3::Policy;

use crate::Failure;
use crate::proof_file::{self, Header};
use crate::terminal::Progress;
use report::Summary;
use rigel_workloads::{Choice, Field, Fri, Hash, Workload, timed};

#[derive(clap::Args)]
pub struct Arguments {
    /// What to prove
    workload: Workload,
    /// Rows of the trace, as a power of two; of the largest table for lookups [default: small, 12 to 16]
    #[arg(long, value_name = "N")]
    log_rows: Option<u32>,
    /// The field
    #[arg(long, default_value_t = Field::KoalaBear)]
    field: Field,
    /// The hash of trees and challenges
    #[arg(long, default_value_t = Hash::Keccak)]
    hash: Hash,
    /// The device: auto, cuda:N, emulated, emulated:N or none [default: RIGEL_DEVICE, or auto, which is the CPU
    /// where there is no GPU]
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
    /// Write the phases as a trace that Perfetto and chrome://tracing open
    #[arg(long, value_name = "FILE")]
    trace_file: Option<PathBuf>,
    #[command(flatten, next_help_heading = "FRI")]
    fri: Fri,
}

/// Proves and reports.
pub fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let Arguments { workload, field, hash, fri, .. } = *arguments;
    let log_rows = arguments.log_rows.unwrap_or(workload.default_log_rows());
    let choice = Choice { workload, log_rows, field, hash, fri };
    let mut statement = choice.statement()?;
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

    let header = Header { rigel: env!("CARGO_PKG_VERSION").into(), choice, public_values: statement.publics() };
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
    Ok(true)
}

/// The device asked for; none for the CPU, which `auto` takes where there is no GPU, and says so.
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
