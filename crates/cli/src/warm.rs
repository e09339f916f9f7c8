//! `rigel warm`: compiles kernels ahead of the first proof that needs them.

use clap::ValueEnum;
use rigel_gpu::{CacheStats, Device, Options, Selector};
use rigel_proofs::stwo;
use rigel_statements::timed;
use rigel_workloads::{Field, Fri, Hash};
use serde::Serialize;

use crate::Failure;
use crate::choice::{Choice, Prover, Workload};
use crate::terminal::{Align, Columns, Paint, Progress, number};

#[derive(clap::Args)]
pub struct Arguments {
    /// Workloads whose kernels are compiled, over every field of this build [default: all]
    workloads: Vec<Workload>,
    /// Compile only kernels of this prover
    #[arg(long)]
    prover: Option<Prover>,
    /// The size of the proofs to come, as a power of two: the kernels of xor depend on it [default: as in rigel prove]
    #[arg(long, value_name = "N", visible_alias = "log-size")]
    log_rows: Option<u32>,
    /// Device: auto, cuda:N, emulated or emulated:N [default: RIGEL_DEVICE, or auto]
    #[arg(long, conflicts_with = "architectures")]
    device: Option<Selector>,
    /// GPUs that need not be here, such as sm_80,sm_90: their kernels are compiled into the cache of this machine.
    /// compute_90 (to PTX) and syntax_90 (syntax and types) only check that they compile, which is quicker
    #[arg(long = "for", value_name = "ARCHITECTURES", value_delimiter = ',')]
    architectures: Vec<String>,
    /// Leave out the kernels that all workloads share
    #[arg(long)]
    generated_only: bool,
}

/// The kernels of one workload, or those that all share.
#[derive(Serialize)]
struct Row {
    device: String,
    subject: String,
    /// The number of kernels of a workload, or of modules of kernels that all share.
    kernels: usize,
    /// The modules that were not in the cache.
    compiled: u64,
    seconds: f64,
}

/// Compiles and reports.
pub fn run(arguments: &Arguments, json: bool) -> Result<bool, Failure> {
    let choices = choices(arguments)?;
    let mut rows = Vec::new();
    for (device, is_kept) in open(arguments)? {
        if is_kept && device.cache().folder().is_none() {
            return Err("there is no folder for compiled kernels; set RIGEL_CACHE to one".into());
        }
        let progress = Progress::new();
        let mut done = 0;
        let all = choices.len() as u64 + u64::from(!arguments.generated_only);
        let mut add = |subject: String, compile: &dyn Fn() -> Result<usize, Failure>| -> Result<(), Failure> {
            progress.part(done, all, &format!("{}: {subject} …", device.properties().name));
            done += 1;
            let before = device.cache().stats().compiled;
            let (kernels, ms) = timed(compile);
            let kernels =
                kernels.map_err(|error| format!("{subject}, for {}: {error}", device.properties().name))?;
            let compiled = device.cache().stats().compiled - before;
            rows.push(Row {
                device: device.properties().name.clone(),
                subject,
                kernels,
                compiled,
                seconds: ms / 1e3,
            });
            Ok(())
        };
        if !arguments.generated_only {
            add("kernels that all share".into(), &|| {
                device.compile_copies()?;
                Ok(rigel_kernels::warm(&device)? + 1)
            })?;
        }
        for choice in &choices {
            let statement = choice.statement()?;
            add(subject(choice), &|| statement.compile(&device))?;
        }
        drop(progress);
        let CacheStats { problem, pruned, .. } = device.cache().stats();
        if let Some(problem) = problem.filter(|_| is_kept) {
            return Err(format!("not all kernels could be stored: {problem}").into());
        }
        if pruned > 0 {
            eprintln!("note: {pruned} older kernels were removed from the cache; RIGEL_CACHE_LIMIT sets its size");
        }
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        print!("{}", table(&rows));
    }
    Ok(true)
}

/// The requested workloads, once for each field of this build: hashes and parameters of FRI do not change kernels.
fn choices(arguments: &Arguments) -> Result<Vec<Choice>, String> {
    let (named, prover, log_rows) = (&arguments.workloads, arguments.prover, arguments.log_rows);
    let workloads = if named.is_empty() { Workload::value_variants() } else { named };
    let mut choices = Vec::new();
    for workload in workloads {
        if !named.is_empty() && prover.is_some() {
            workload.prover(prover)?;
        }
        if let Some(workload) = workload.of_plonky3().filter(|_| prover != Some(Prover::Stwo)) {
            for &field in Field::value_variants() {
                let of_hash = |&hash: &Hash| {
                    let (log_rows, fri) = (log_rows.unwrap_or(workload.default_log_rows()), Fri::default());
                    let choice = rigel_workloads::Choice { workload, log_rows, field, hash, fri };
                    (choice.is_offered() && choice.built().is_ok()).then_some(Choice::Plonky3(choice))
                };
                choices.extend(Hash::value_variants().iter().find_map(of_hash));
            }
        }
        let is_stwos_alone = workload.of_plonky3().is_none();
        if let Some(workload) = workload.of_stwo().filter(|_| prover != Some(Prover::Plonky3)) {
            let usual = stwo::Choice::usual(workload);
            let choice = stwo::Choice { log_size: log_rows.unwrap_or(usual.log_size), ..usual };
            match choice.built() {
                Ok(()) => choices.push(Choice::Stwo(choice)),
                // Without names it is one of all workloads, and Plonky3 may have one of this name.
                Err(reason) if prover.is_some() || !named.is_empty() && is_stwos_alone => return Err(reason),
                Err(_) => {}
            }
        }
    }
    choices.iter().try_for_each(Choice::check)?;
    Ok(choices)
}

fn subject(choice: &Choice) -> String {
    let name = choice.prover().title();
    match choice {
        Choice::Plonky3(choice) => format!("{name}: {}, {}", choice.workload, choice.field),
        Choice::Stwo(choice) => format!("{name}: {}", choice.workload),
    }
}

/// The devices, and whether what is compiled for them is kept.
fn open(arguments: &Arguments) -> Result<Vec<(Device, bool)>, Failure> {
    if arguments.architectures.is_empty() {
        let selector = arguments.device.map_or_else(Selector::from_env, Ok)?;
        return Ok(vec![(Device::open(selector)?, true)]);
    }
    let options = Options::from_env()?;
    let open = |name: &String| {
        let name = name.trim();
        Ok((Device::compile_only(name, &options)?, name.starts_with("sm_")))
    };
    Ok(arguments.architectures.iter().map(open).collect::<rigel_gpu::Result<_>>()?)
}

fn table(rows: &[Row]) -> String {
    let mut columns = Columns::new(&[Align::Left, Align::Left, Align::Right, Align::Right, Align::Right]);
    columns.row(Paint::Bold, ["device", "kernels of", "number", "compiled", "seconds"]);
    for Row { device, subject, kernels, compiled, seconds } in rows {
        let cells = [device.clone(), subject.clone(), kernels.to_string(), compiled.to_string(), number(*seconds)];
        columns.row(Paint::Plain, cells);
    }
    let compiled: u64 = rows.iter().map(|row| row.compiled).sum();
    let seconds: f64 = rows.iter().map(|row| row.seconds).sum();
    columns.row(Paint::Bold, ["", "all", "", &compiled.to_string(), &number(seconds)]);
    columns.to_text("")
}
