//! `rigel cairo prove`: runs a program, proves the run, and reports the cost.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;
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
    /// Write the phases as a trace for Perfetto and chrome://tracing
    #[arg(long, value_name = "FILE")]
    trace_file: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Parameters")]
    parameters: Parameters,
}

/// Proves and reports.
pub fn run(arguments: &Arguments, json: bool) -> Result<bool, Failure> {
    let parameters = arguments.parameters.get()?;
    let device = arguments.place.open()?;
    with_channel!(parameters.channel_hash, prove(arguments, parameters, device.as_ref(), json))
}

fn prove<MC: CairoChannel>(
    arguments: &Arguments,
    parameters: ProverParameters,
    device: Option<&Device>,
    json: bool,
) -> Result<bool, Failure> {
    let progress = Progress::spoken();
    let compiled = || device.map_or(0, |device| device.cache().stats().compiled);
    let compiled_before = compiled();
    let place = device.map_or("the CPU".to_string(), ToString::to_string);
    progress.say(&format!("running {} and preparing {place} …", arguments.source.name()));
    // The prover reads its preprocessed columns, or makes them, while the program runs.
    let began = Instant::now();
    let (input, prover) = thread::scope(|scope| {
        let running = scope.spawn(|| arguments.source.load().map_err(|error| error.to_string()));
        let prover = match device {
            Some(device) => arguments.place.prover::<MC>(device, parameters),
            None => Ok(CairoProver::<MC>::on_cpu(parameters)?),
        };
        let prepared_ms = began.elapsed().as_secs_f64() * 1e3;
        let input = running.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        Ok::<_, Failure>((input, (prover?, prepared_ms)))
    })?;
    let Input { input, steps, times: mut before } = input;
    let (prover, prepared_ms) = prover;
    before.push(("prover made ready meanwhile", prepared_ms));
    let plan = prover.plan(&input);
    if let Some(plan) = &plan
        && !json
    {
        progress.say("");
        println!("{}", plan_line(plan));
    }
    progress.say(&format!("proving on {place} …"));
    let proven = prover.prove(input)?;
    let file_to_proof_ms = began.elapsed().as_secs_f64() * 1e3;
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
        file_to_proof_ms,
        before: &before,
        kernels_compiled: compiled() - compiled_before,
        proof_bytes: text.len(),
        report: &proven.report,
        plan: plan.as_ref(),
        file: arguments.output.as_deref(),
    };
    if json {
        println!("{}", serde_json::to_string_pretty(&summary)?);
    } else {
        print!("{}", summary.to_text());
    }
    if let Some(device) = device
        && compiled() > compiled_before
    {
        // Whoever proves one program will prove another one, which may have other components.
        progress.say("the proof is done; compiling the kernels of all components for later proofs …");
        background::finish();
        let warmed = rigel_cairo::warm(device, parameters.preprocessed_trace);
        progress.say("");
        if let Err(error) = warmed {
            eprintln!("note: the proof is complete, but not all kernels of later proofs are: {error}");
        }
    }
    Ok(true)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()).into())
}
