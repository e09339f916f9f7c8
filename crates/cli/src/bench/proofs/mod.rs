//! Whole proofs on the device beside upstream's on the CPU: one suite for each prover.

mod cases;
mod html;
mod measure;
pub mod plonky3;
mod record;
pub mod spans;
pub mod stwo;
mod table;

use std::path::PathBuf;

use rigel_gpu::{Device, DeviceKind};

use super::device::DeviceDescription;
use super::{Devices, Size, list, open, write};
use crate::Failure;
use crate::terminal::{Progress, Refusal};
use cases::Case;
use measure::Bench;
use record::{Document, Report};
use spans::Dialect;

/// The measurements of one prover.
struct Suite<'a> {
    name: &'static str,
    /// The title of its page.
    title: &'static str,
    cases: &'a dyn Fn(Size) -> Vec<Case>,
    /// The mapping of upstream's spans to our phases.
    dialect: Dialect,
    /// The number of timed upstream proofs.
    cpu_runs: usize,
    /// The number of proofs in a row, if any.
    stream: usize,
}

/// The options of every suite.
#[derive(clap::Args)]
pub struct SuiteArguments {
    /// Devices to measure: auto, all (every CUDA device), or names such as cuda:1,emulated
    /// [default: RIGEL_DEVICE, or auto]
    #[arg(long, value_name = "DEVICES")]
    device: Option<Devices>,
    /// Only cases whose name contains this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Small sizes that take seconds; bars do not apply. The emulated device always uses these
    #[arg(long)]
    quick: bool,
    /// Number of proofs per median [default: 5, or 2 for small sizes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// Skip upstream's prover; the device's proofs are only verified
    #[arg(long)]
    no_cpu: bool,
    /// Write the report to a file, as JSON
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the report as an HTML page with the phases side by side
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// List the cases without measuring
    #[arg(long)]
    list: bool,
}

/// Measures and prints. Returns whether every case succeeded with the right proof.
fn run(suite: &Suite<'_>, arguments: &SuiteArguments, json: bool) -> Result<bool, Failure> {
    if arguments.list {
        let size = if arguments.quick { Size::Quick } else { Size::Full };
        let cases: Vec<_> = (suite.cases)(size).iter().map(|case| (case.name(), String::new())).collect();
        list(&cases, json);
        return Ok(true);
    }
    let mut reports = Vec::new();
    for (_, device) in open(arguments.device.as_ref())? {
        reports.push(measure(suite, arguments, &device, json)?);
    }
    let document = Document::new(suite.name, reports);
    if json {
        print!("{}", document.to_json());
    }
    if let Some(path) = &arguments.output {
        write(path, &document.to_json())?;
    }
    if let Some(path) = &arguments.html {
        write(path, &html::page(suite.title, &document))?;
    }
    Ok(document.reports.iter().flat_map(|report| &report.rows).all(|row| row.error.is_none()))
}

fn measure(
    suite: &Suite<'_>,
    arguments: &SuiteArguments,
    device: &Device,
    silent: bool,
) -> Result<Report, Failure> {
    let emulated = device.kind() == DeviceKind::Emulated;
    let size = if arguments.quick || emulated { Size::Quick } else { Size::Full };
    let repeat = arguments.repeat.map_or_else(|| size.pick(5, 2), |n| n as usize);
    let only = arguments.only.as_deref().unwrap_or_default().to_lowercase();
    let mut cases = (suite.cases)(size);
    cases.retain(|case| case.name().contains(&only));
    if let Some(reason) = cases.iter().find_map(|case| case.choice.built().err()) {
        cases.retain(|case| case.choice.built().is_ok());
        if cases.is_empty() {
            return Err(reason.into());
        }
        eprintln!("note: some cases are skipped: {reason}");
    }
    if emulated && only.is_empty() {
        if let Some(wide) = cases.iter().find(|case| !case.is_narrow) {
            eprintln!(
                "note: wide AIRs are skipped, as their kernels take minutes to compile; --only '{}' includes them",
                wide.name()
            );
        }
        cases.retain(|case| case.is_narrow);
    }
    if cases.is_empty() {
        let refusal = "--only: no case has this text in its name; --list shows all names";
        return Err(Refusal::Usage(refusal.into()).into());
    }
    let progress = Progress::new();
    let mut bench = Bench {
        device,
        repeat,
        cpu_runs: if arguments.no_cpu { 0 } else { suite.cpu_runs },
        stream: suite.stream,
        dialect: suite.dialect,
        judges: !emulated && size == Size::Full,
        progress: &progress,
        done: 0,
        all: cases.len() as u64,
    };
    let mut report = Report {
        device: DeviceDescription::new(device),
        size: size.name(),
        repeat,
        cpu_threads: rayon::current_num_threads(),
        rows: Vec::new(),
    };
    if !silent {
        println!("{}", table::heading(&report));
    }
    for case in &cases {
        report.rows.push(bench.run(case));
        bench.done += 1;
    }
    drop(progress);
    if !silent {
        println!("{}", table::rows(&report));
    }
    Ok(report)
}
