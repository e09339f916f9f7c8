//! `rigel bench several`: one extension, one proof and many proofs on several devices, measured or modelled.
//!
//! Where there are fewer GPUs than asked for, one GPU is opened several times. Openings share it, so their time says
//! what sharing the work out costs. With `--model` each opening's work is timed alone ([`Rehearsal`]), and the time on
//! as many GPUs is computed from that for several kinds of links.

mod lde;
mod many;
mod proof;
mod table;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;

use rigel_gpu::{Device, DeviceKind, Interconnect, Modelled, Rehearsal, Selector, Selectors, Steps, background};
use rigel_statements::timed;
use rigel_workloads::Workload;
use serde::Serialize;

use super::device::DeviceDescription;
use super::{Size, write};
use crate::Failure;
use crate::terminal::{Progress, Refusal};

#[derive(clap::Args)]
pub struct Arguments {
    /// The devices: all, or a list such as cuda:0,cuda:1 or emulated:0,emulated:1. One GPU stands for several: it is
    /// opened as often as needed [default: RIGEL_DEVICE, or all]
    #[arg(long, value_name = "DEVICES")]
    device: Option<Selectors>,
    /// Time each device's work alone, and compute the time on as many GPUs from it, for NVLink 4, PCIe 5 and PCIe 4
    #[arg(long)]
    model: bool,
    /// The numbers of devices, powers of two
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_values_t = [2, 4, 8])]
    counts: Vec<u32>,
    /// Only cases whose name contains this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// The workload that several devices prove together [default: keccak, or fibonacci for small sizes]
    #[arg(long, value_name = "NAME")]
    workload: Option<Workload>,
    /// Rows of the proof, as a power of two [default: 20, or 8 for small sizes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(5..=24))]
    log_rows: Option<u32>,
    /// Small sizes that take seconds; bars do not apply. The emulated device always uses these
    #[arg(long)]
    quick: bool,
    /// Number of measurements, of which the median counts [default: 5, or 2 for small sizes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// Write the report to a file, as JSON
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The links that a model is computed for.
const LINKS: [Interconnect; 3] = [Interconnect::NVLINK_4, Interconnect::PCIE_5, Interconnect::PCIE_4];

/// The settings of a measurement.
struct Bench<'a> {
    size: Size,
    model: bool,
    repeat: usize,
    workload: Workload,
    log_rows: u32,
    /// The first device, by its name.
    first: Selector,
    /// All devices that were named.
    devices: Vec<Device>,
    progress: &'a Progress,
}

/// The report.
#[derive(Serialize)]
struct Report {
    device: DeviceDescription,
    rows: Vec<Row>,
    many: Vec<many::Many>,
}

/// One case on one number of devices.
#[derive(Serialize)]
struct Row {
    case: String,
    devices: usize,
    /// The time on one device.
    one_ms: f64,
    /// The time on as many openings of one GPU, or on as many emulated devices.
    opened_ms: Option<f64>,
    /// The time on as many GPUs.
    measured_ms: Option<f64>,
    /// The largest device's peak memory over that of one device that does all.
    memory_over_one: Option<f64>,
    model: Option<Model>,
}

/// The times of each device's work alone, and the times on as many GPUs that follow from them.
#[derive(Serialize)]
struct Model {
    bytes_sent: u64,
    copies: usize,
    /// The time of each phase on one device, and of each device's work alone.
    phases: Vec<(&'static str, Option<f64>, Vec<f64>)>,
    /// The time of each phase in which the host computes and no device has work.
    host: Vec<(&'static str, f64)>,
    on: Vec<(Interconnect, Modelled)>,
}

impl Model {
    fn new(steps: &Steps, one: &[(&'static str, f64)]) -> Self {
        let (bytes_sent, copies) = steps.sent();
        let of_one = |name: &str| one.iter().find(|phase| phase.0 == name).map(|phase| phase.1);
        Self {
            bytes_sent,
            copies,
            phases: steps.alone().into_iter().map(|(name, ms)| (name, of_one(name), ms)).collect(),
            host: steps.host(),
            on: LINKS.map(|links| (links, steps.on(links))).to_vec(),
        }
    }
}

/// Measures and prints.
pub fn run(arguments: &Arguments, json: bool) -> Result<bool, Failure> {
    let progress = Progress::new();
    let devices = open(arguments)?;
    let first: Selector = devices[0].to_string().parse()?;
    let emulated = devices[0].kind() == DeviceKind::Emulated;
    let size = if arguments.quick || emulated { Size::Quick } else { Size::Full };
    let bench = Bench {
        size,
        model: arguments.model,
        repeat: arguments.repeat.map_or_else(|| size.pick(5, 2), |n| n as usize),
        workload: arguments.workload.unwrap_or_else(|| size.pick(Workload::Keccak, Workload::Fibonacci)),
        log_rows: arguments.log_rows.unwrap_or_else(|| size.pick(20, 8)),
        first,
        devices,
        progress: &progress,
    };
    let only = arguments.only.as_deref().unwrap_or_default().to_lowercase();
    let wanted = |name: &str| name.to_lowercase().contains(&only);
    let mut proofs = vec![proof::Case::plonky3(&bench)?];
    proofs.extend(proof::Case::stwo(&bench)?);
    let many = many::cases(size);
    let mut names = vec![lde::name(size)];
    names.extend(proofs.iter().map(|case| case.name.clone()).chain(many.iter().map(|case| case.name.clone())));
    if !names.iter().any(|name| wanted(name)) {
        let detail = format!("--only: no case has this text in its name; they are: {}", names.join("; "));
        return Err(Refusal::Usage(detail).into());
    }
    let mut report =
        Report { device: DeviceDescription::new(&bench.devices[0]), rows: Vec::new(), many: Vec::new() };
    if wanted(&lde::name(size)) {
        report.rows.extend(lde::rows(&bench, &arguments.counts)?);
    }
    for case in proofs.into_iter().filter(|case| wanted(&case.name)) {
        report.rows.extend(proof::rows(&bench, case, &arguments.counts)?);
    }
    for case in many.iter().filter(|case| wanted(&case.name)) {
        report.many.push(many::measure(&bench, case, &arguments.counts)?);
    }
    drop(progress);
    let text = serde_json::to_string_pretty(&report)?;
    if let Some(path) = &arguments.output {
        write(path, &text)?;
    }
    if json {
        println!("{text}");
    } else {
        print!("{}", table::text(&report));
    }
    Ok(true)
}

/// The named devices; without a name all GPUs, or the emulated device where there is none.
fn open(arguments: &Arguments) -> Result<Vec<Device>, Failure> {
    for count in &arguments.counts {
        if !count.is_power_of_two() || *count > 64 {
            let detail =
                format!("--counts {count}: a proof is shared out over a power of two of devices, up to 64");
            return Err(Refusal::Usage(detail).into());
        }
    }
    if let Some(named) = &arguments.device {
        return Ok(named.open()?);
    }
    if std::env::var_os("RIGEL_DEVICE").is_some() {
        return Ok(Selectors::from_env()?.open()?);
    }
    match Selectors::from_str("all")?.open() {
        Err(rigel_gpu::Error::Unavailable { .. }) => {
            eprintln!("note: there is no GPU; measuring emulated devices instead, with small sizes");
            Ok(Selectors::from_str("emulated")?.open()?)
        }
        opened => Ok(opened?),
    }
}

impl Bench<'_> {
    fn say(&self, case: &str, what: &str) {
        self.progress.say(&format!("{case}: {what} …"));
    }

    /// The first device, opened so many times.
    fn opened(&self, count: usize) -> Result<Vec<Device>, Failure> {
        let name = |k: usize| match (self.first, k) {
            (Selector::Emulated(_), k) => format!("emulated:{k}"),
            (first, 0) => first.to_string(),
            (first, k) => format!("{first}#{k}"),
        };
        let names = (0..count).map(name).collect::<Vec<_>>().join(",");
        Ok(Selectors::from_str(&names)?.open()?)
    }

    /// The first `count` GPUs, if so many were named.
    fn gpus(&self, count: usize) -> Option<&[Device]> {
        let ordinals: BTreeSet<u32> =
            self.devices.iter().map(|device| device.properties().ordinal).take(count).collect();
        let are_gpus = self.devices[0].kind() == DeviceKind::Cuda;
        (are_gpus && ordinals.len() == count).then(|| &self.devices[..count])
    }

    /// The median of a few times of `work`, which has run before, in milliseconds, and its last result.
    fn median<R>(&self, mut work: impl FnMut() -> Result<R, Failure>) -> Result<(R, f64), Failure> {
        let mut times = Vec::with_capacity(self.repeat);
        let mut last = None;
        for _ in 0..self.repeat {
            let (result, ms) = timed(&mut work);
            last = Some(result?);
            times.push(ms);
        }
        times.sort_by(f64::total_cmp);
        Ok((last.expect("at least one"), times[times.len() / 2]))
    }

    /// The steps of `work`, which has run before, with each device alone.
    fn rehearse<R>(
        &self,
        devices: &[Device],
        work: impl FnOnce() -> Result<R, Failure>,
    ) -> Result<Steps, Failure> {
        background::finish();
        let rehearsal = Rehearsal::new(devices)?;
        work()?;
        Ok(rehearsal.finish()?)
    }
}
