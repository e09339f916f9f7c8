//! Every operation on its own, measured against the device's peak rates. Only in builds with the feature `full`: they
//! instantiate the operations of every field and hash.

mod ceilings;
mod html;
mod instructions;
mod json;
mod measure;
mod random;
mod roofline;
mod table;
mod workloads;

use std::path::PathBuf;

use rigel_gpu::{Device, DeviceKind, Selector};

use super::device::DeviceDescription;
use super::{Devices, Size, list, open, write};
use crate::Failure;
use crate::terminal::{Progress, Refusal};
use json::{Document, Report};
use measure::Bench;
pub use workloads::Family;

#[derive(clap::Args)]
pub struct Arguments {
    /// Devices to measure: auto, all (every CUDA device), or names such as cuda:1,emulated
    /// [default: RIGEL_DEVICE, or auto]
    #[arg(long, value_name = "DEVICES")]
    device: Option<Devices>,
    /// Only operations whose name contains this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Small sizes that take seconds; bars do not apply. The emulated device always uses these
    #[arg(long)]
    quick: bool,
    /// Number of measurements per median [default: 20, or 3 for small sizes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: Option<u32>,
    /// Also measure the compilation of all kernels on the emulated device
    #[arg(long)]
    compile: bool,
    /// Write the report to a file, as JSON
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the report as an HTML page with a roofline chart
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// List the operations without measuring
    #[arg(long)]
    list: bool,
}

/// Measures and prints. Returns whether every measurement succeeded.
pub fn run(arguments: &Arguments, family: Family, json: bool) -> Result<bool, Failure> {
    if arguments.list {
        let size = if arguments.quick { Size::Quick } else { Size::Full };
        let cases = workloads::all(family, size, true).into_iter().map(|case| (case.name, case.shape));
        list(&cases.collect::<Vec<_>>(), json);
        return Ok(true);
    }
    let mut reports = Vec::new();
    for (selector, device) in open(arguments.device.as_ref())? {
        let report = measure(arguments, family, selector, &device, json)?;
        reports.push(report);
    }
    let document = Document::new(reports);
    if json {
        print!("{}", document.to_json());
    }
    if let Some(path) = &arguments.output {
        write(path, &document.to_json())?;
    }
    if let Some(path) = &arguments.html {
        write(path, &html::page(&document))?;
    }
    Ok(document.reports.iter().flat_map(|report| &report.rows).all(|row| row.error.is_none()))
}

fn measure(
    arguments: &Arguments,
    family: Family,
    selector: Selector,
    device: &Device,
    silent: bool,
) -> Result<Report, Failure> {
    let emulated = device.kind() == DeviceKind::Emulated;
    let size = if arguments.quick || emulated { Size::Quick } else { Size::Full };
    let repeat = arguments.repeat.map_or_else(|| size.pick(20, 3), |n| n as usize);
    let wanted = |name: &str| {
        let only = arguments.only.as_deref().unwrap_or_default();
        name.to_lowercase().contains(&only.to_lowercase())
    };
    let mut cases = workloads::all(family, size, arguments.compile || !emulated);
    cases.retain(|case| wanted(&case.name));
    if cases.is_empty() {
        let refusal = "--only: no operation has this text in its name; --list shows all names";
        return Err(Refusal::Usage(refusal.into()).into());
    }

    let progress = Progress::new();
    progress.say("measuring ceilings …");
    let bench = Bench::new(device, selector, size, repeat)?;
    let mut report = Report {
        device: DeviceDescription::new(device),
        size: size.name(),
        repeat,
        ceilings: bench.ceilings.clone(),
        rows: Vec::new(),
    };
    progress.say("");
    if !silent {
        println!("{}", table::heading(&report));
    }
    let count = cases.len() as u64;
    for (i, case) in (0..).zip(cases) {
        progress.part(i, count, &format!("{}, {}", case.name, case.shape));
        report.rows.push(case.run(&bench));
    }
    drop(progress);
    if !silent {
        println!("{}", table::rows(&report));
    }
    Ok(report)
}
