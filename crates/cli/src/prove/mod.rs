//! `rigel prove`: proves a workload on a device or on the CPU, and reports the cost.

mod many;
mod options;
mod page;
mod report;
mod split;

use std::path::{Path, PathBuf};

use rigel_gpu::{Device, Error, Fallback, Phase, Selector, Selectors, background};
use rigel_statements::OnFailure;

use crate::Failure;
use crate::bench::proofs::{
    self,
    spans::{self, Dialect},
};
use crate::choice::{Choice, Prover, Workload};
use crate::proof_file::{self, Header};
use crate::terminal::{Progress, Refusal};
use options::FriArguments;
pub use options::choice;
use report::Summary;
use rigel_proofs::stwo::{Channel, Making};
use rigel_statements::{Statement, timed};
use rigel_workloads::{Field, Hash};

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
    /// Device: auto, cuda:N, emulated, emulated:N or none; with --split or --count, several with commas between them,
    /// or all, which is every GPU [default: RIGEL_DEVICE, or auto, which is the CPU if there is no GPU]
    #[arg(long, conflicts_with = "cpu")]
    device: Option<Selectors>,
    /// All devices that --device names make the proof together, each with a part of the rows
    #[arg(long, requires = "device")]
    split: bool,
    /// Make the proof N times, shared out over the devices, and report how many a second; -o keeps the first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    #[arg(conflicts_with_all = ["split", "trace_file", "html"])]
    count: Option<u64>,
    /// Prove on the CPU, with upstream's prover
    #[arg(long)]
    cpu: bool,
    /// Prove on the CPU if the device that --device names is not there or fails; the report says so. `auto` always does
    #[arg(long, conflicts_with = "cpu")]
    fallback: bool,
    /// Write the proof to a file for `rigel verify`
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the phases as a trace for Perfetto and chrome://tracing
    #[arg(long, value_name = "FILE")]
    trace_file: Option<PathBuf>,
    /// Write the report as an HTML page with a timeline of the phases and of the memory
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten, next_help_heading = "FRI")]
    fri: FriArguments,
}

/// Proves and reports.
pub fn run(arguments: &Arguments, json: bool) -> Result<bool, Failure> {
    let choice = choice(arguments).map_err(Refusal::Usage)?;
    if let Some(count) = arguments.count {
        return many::run(arguments, choice, count, json);
    }
    let mut statement = statement(arguments, &choice)?;
    let (devices, may_fall_back) = split::open(arguments)?;
    let device = devices.first().cloned();

    let progress = Progress::spoken();
    progress.say(&format!("generating the trace of {choice} …"));
    let ((), trace_ms) = timed(|| statement.generate());
    let compiled = |device: &Option<Device>| device.as_ref().map_or(0, |device| device.cache().stats().compiled);
    let before = compiled(&device);
    let place = if devices.is_empty() { "the CPU".to_string() } else { split::names(&devices) };
    if device.is_some() {
        progress.say(&format!("preparing {place}; kernels that are not in the cache are compiled …"));
    }
    let on_failure = OnFailure::cpu_if(may_fall_back);
    let (prepared, prepare_ms) = timed(|| match devices.as_slice() {
        [] | [_] => statement.prepare(device.as_ref(), on_failure),
        several => statement.prepare_over(several, on_failure),
    });
    let failure = match prepared {
        // The device may be lost before the proof begins.
        Err(failure) if may_fall_back && device.is_some() && is_of_device(&failure) => {
            statement.prepare(None, on_failure)?;
            Some(failure)
        }
        prepared => {
            prepared?;
            None
        }
    };
    let used = device.as_ref().filter(|_| failure.is_none());
    let place = if used.is_some() { place } else { "the CPU".to_string() };
    progress.say(&format!("proving on {place} …"));
    // On the CPU, the phases are those of upstream's spans.
    let (made, upstream) = match used {
        Some(_) => (statement.prove(), Vec::new()),
        None => spans::collect(dialect(&choice), || statement.prove()),
    };
    let mut made = made?;
    if let Some(failure) = failure {
        made.report.fallbacks.push(Fallback { part: "the proof", ran_on: "CPU", reason: failure.to_string() });
    }
    drop(progress);

    let header = Header::new(choice, statement.publics());
    if let Some(path) = &arguments.output {
        write(path, &proof_file::encode(&header, &made.proof))?;
    }
    if let Some(path) = &arguments.trace_file {
        let mut report = made.report.clone();
        report.phases.extend(upstream.iter().map(|at| Phase::of_host(at.name, at.start_ms, at.ms)));
        write(path, report.chrome_trace().as_bytes())?;
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
    if let Some(path) = &arguments.html {
        write(path, page::page(&summary, &upstream).as_bytes())?;
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&summary)?);
    } else {
        print!("{}", summary.to_text());
    }
    finish_compiling();
    Ok(true)
}

/// Waits for kernels that are compiled for later proofs.
fn finish_compiling() {
    if background::running() > 0 {
        let progress = Progress::spoken();
        progress.say("the proof is done; compiling its kernels for later proofs …");
        background::finish();
    }
}

fn statement(arguments: &Arguments, choice: &Choice) -> Result<Box<dyn Statement>, Failure> {
    let making = Making { store_coefficients: arguments.store_coefficients, ..Making::default() };
    let statement = match choice {
        Choice::Plonky3(choice) => choice.statement(),
        Choice::Stwo(choice) => choice.statement(making),
    };
    Ok(statement.map_err(Refusal::Usage)?)
}

/// Whether a failure is the device's, so that the CPU may succeed.
fn is_of_device(failure: &Failure) -> bool {
    failure.is::<Error>()
}

/// The requested device, and whether the CPU may take its place. `None` is the CPU: because it was asked for, or, with
/// a note, because there is no device and the CPU may take its place.
pub fn open(cpu: bool, device: Option<Selector>, fallback: bool) -> Result<(Option<Device>, bool), Failure> {
    if cpu {
        return Ok((None, true));
    }
    let selector = device.map_or_else(Selector::from_env, Ok)?;
    let may_fall_back = fallback || selector == Selector::Auto;
    match Device::open(selector) {
        Err(Error::Disabled) => Ok((None, true)),
        Err(error @ (Error::Unavailable { .. } | Error::NoSuchDevice { .. })) if may_fall_back => {
            eprintln!("note: {error}\nnote: proving on the CPU instead, with upstream's prover");
            Ok((None, true))
        }
        Err(error @ (Error::Unavailable { .. } | Error::NoSuchDevice { .. })) => {
            Err(format!("{error}\nWith --fallback the CPU proves instead, with upstream's prover.").into())
        }
        opened => Ok((Some(opened?), may_fall_back)),
    }
}

fn dialect(choice: &Choice) -> Dialect {
    match choice {
        Choice::Plonky3(_) => proofs::plonky3::DIALECT,
        Choice::Stwo(_) => proofs::stwo::DIALECT,
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()).into())
}
