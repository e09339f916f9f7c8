//! `rigel risc0 warm`: compiles kernels ahead of the first proof.

use std::time::Instant;

use rigel_gpu::{Device, Options, Selector};
use rigel_terminal::{Align, Columns, Paint, Progress, number};
use serde::Serialize;

use crate::Failure;

#[derive(clap::Args)]
pub struct Arguments {
    /// Device: auto, cuda:N, emulated or emulated:N [default: RIGEL_DEVICE, or auto]
    #[arg(long, conflicts_with = "architectures")]
    device: Option<Selector>,
    /// GPUs that need not be here, such as sm_80,sm_90: their kernels are compiled into the cache of this machine
    #[arg(long = "for", value_name = "ARCHITECTURES", value_delimiter = ',')]
    architectures: Vec<String>,
}

/// The kernels that were compiled for one device.
#[derive(Serialize)]
struct Row {
    device: String,
    /// The number of kernels that are generated from the circuit.
    kernels: usize,
    /// The modules that were not in the cache.
    compiled: u64,
    seconds: f64,
}

/// Compiles and reports.
pub fn run(arguments: &Arguments, json: bool) -> Result<bool, Failure> {
    let mut rows = Vec::new();
    for device in open(arguments)? {
        if device.cache().folder().is_none() {
            return Err("there is no folder for compiled kernels; set RIGEL_CACHE to one".into());
        }
        let progress = Progress::new();
        let name = device.properties().name.clone();
        progress.say(&format!("{name}: all kernels …"));
        let (began, before) = (Instant::now(), device.cache().stats().compiled);
        let kernels = rigel_risc0::warm(&device)?;
        let compiled = device.cache().stats().compiled - before;
        rows.push(Row { device: name, kernels, compiled, seconds: began.elapsed().as_secs_f64() });
        if let Some(problem) = device.cache().stats().problem {
            return Err(format!("not all kernels could be stored: {problem}").into());
        }
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
        return Ok(true);
    }
    let mut columns = Columns::new(&[Align::Left, Align::Right, Align::Right, Align::Right]);
    columns.row(Paint::Bold, ["device", "kernels", "compiled", "seconds"]);
    for Row { device, kernels, compiled, seconds } in &rows {
        columns.row(Paint::Plain, [device.clone(), kernels.to_string(), compiled.to_string(), number(*seconds)]);
    }
    print!("{}", columns.to_text(""));
    Ok(true)
}

fn open(arguments: &Arguments) -> Result<Vec<Device>, Failure> {
    if arguments.architectures.is_empty() {
        let selector = arguments.device.map_or_else(Selector::from_env, Ok)?;
        return Ok(vec![Device::open(selector)?]);
    }
    let options = Options::from_env()?;
    let open = |name: &String| Device::compile_only(name.trim(), &options);
    Ok(arguments.architectures.iter().map(open).collect::<rigel_gpu::Result<_>>()?)
}
