//! `rigel cairo prove`: runs a program, proves the run, and reports the cost.

use std::path::{Path, PathBuf};
use std::time::Instant;

use rigel_cairo::{CairoChannel, CairoProver, ProverParameters, Statement, for_verifier};
use rigel_gpu::{Device, background};
use rigel_terminal::Progress;

use crate::Failure;
use crate::options::{Input, Parameters, Place, Source, with_channel};
use crate::report::{Summary, plan_line};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    place: Place,
    /// Write the proof to a file, in upstream's JSON format
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Write the phases as a trace for Perfetto and chrome://tracing
    #[arg(long, value_name = "FILE")]
    trace_file: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Parameters")]
    parameters: Parameters,
}

/// Proves and reports.
pub fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let parameters = arguments.parameters.get()?;
    let device = arguments.place.open()?;
    let progress = Progress::spoken();
    progress.say(&format!("running {} …", arguments.source.name()));
    let input = arguments.source.load()?;
    with_channel!(parameters.channel_hash, prove(arguments, parameters, device.as_ref(), input, &progress))
}

fn prove<MC: CairoChannel>(
    arguments: &Arguments,
    parameters: ProverParameters,
    device: Option<&Device>,
    input: Input,
    progress: &Progress,
) -> Result<bool, Failure> {
    let compiled = || device.map_or(0, |device| device.cache().stats().compiled);
    let compiled_before = compiled();
    let place = device.map_or("the CPU".to_string(), ToString::to_string);
    let Input { input, steps, times: mut before } = input;
    progress.say(&format!("preparing {place}: the preprocessed columns are read, or made …"));
    let began = Instant::now();
    let prover = match device {
        Some(device) => arguments.place.prover::<MC>(device, parameters)?,
        None => CairoProver::<MC>::on_cpu(parameters)?,
    };
    before.push(("preprocessed columns", began.elapsed().as_secs_f64() * 1e3));
    let plan = prover.plan(&input);
    if let Some(plan) = &plan
        && !arguments.json
    {
        println!("{}", plan_line(plan));
    }
    progress.say(&format!("proving on {place} …"));
    let proven = prover.prove(input)?;
    progress.say("");

    let proof = for_verifier(&proven.proof);
    let text = serde_json::to_vec(&proof)?;
    if let Some(path) = &arguments.output {
        write(path, &text)?;
    }
    if let Some(path) = &arguments.trace_file {
        write(path, proven.report.chrome_trace().as_bytes())?;
    }
    let summary = Summary {
        program: &arguments.source.name(),
        steps,
        parameters: &parameters,
        statement: &Statement::new(&proof.claim.public_data.public_memory)?,
        device_name: device.map(|device| device.properties().name.clone()),
        before: &before,
        kernels_compiled: compiled() - compiled_before,
        proof_bytes: text.len(),
        report: &proven.report,
        plan: plan.as_ref(),
        file: arguments.output.as_deref(),
    };
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&summary)?);
    } else {
        print!("{}", summary.to_text());
    }
    if background::running() > 0 {
        progress.say("the proof is done; compiling its kernels for later proofs …");
        background::finish();
        progress.say("");
    }
    Ok(true)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()).into())
}
