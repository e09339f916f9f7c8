//! `rigel cairo bench`: upstream's prover on the CPU beside Rigel on a device, for the same run and the same proof.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Instant;

use rigel_cairo::{
    CairoChannel, CairoProver, MemoryPlan, ProverInput, ProverParameters, for_verifier, variant_name,
};
use rigel_gpu::{Bytes, Device, Report, background};
use rigel_terminal::{Align, Columns, Paint, Progress, number};
use serde::Serialize;

use crate::Failure;
use crate::options::{Input, Parameters, Place, Source, with_channel};
use crate::report::{phases, plan_line};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    place: Place,
    /// Proofs on each side, after one on the device that compiles and loads its kernels
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// No further proof of a side is begun after so many seconds
    #[arg(long, value_name = "N", default_value = "60")]
    seconds: u64,
    /// Also prove a stream of this many runs, from program to proof, on each side. On the device, threads of the host
    /// run the next programs while the last one is proven
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    stream: Option<u32>,
    /// Threads that run the programs of the stream
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u32).range(1..))]
    runners: u32,
    #[command(flatten, next_help_heading = "Parameters")]
    parameters: Parameters,
}

/// One side's proofs.
#[derive(Serialize)]
struct Side {
    name: String,
    /// The time of each proof, in milliseconds.
    milliseconds: Vec<f64>,
    /// The report of the fastest.
    report: Report,
}

#[derive(Serialize)]
struct Comparison<'a> {
    program: &'a str,
    steps: Option<usize>,
    variant: &'static str,
    before: &'a [(&'static str, f64)],
    upstream: Side,
    /// None if there is no device.
    rigel: Option<Side>,
    /// The device memory that a proof was expected to need.
    plan: Option<MemoryPlan>,
    /// Whether both proofs are the same, as upstream's files hold them.
    equal: Option<bool>,
    /// None if it was not asked for.
    stream: Option<Stream>,
}

/// A stream of runs, from program to proof.
#[derive(Serialize)]
struct Stream {
    runs: u32,
    runners: u32,
    /// The time of all of them on the CPU, one after another, in milliseconds.
    upstream_ms: f64,
    /// None if there is no device.
    rigel_ms: Option<f64>,
}

/// Measures and compares. Returns whether the proofs are the same.
pub fn run(arguments: &Arguments, json: bool) -> Result<bool, Failure> {
    let parameters = arguments.parameters.get()?;
    let device = arguments.place.open()?;
    let progress = Progress::spoken();
    progress.say(&format!("running {} …", arguments.source.name()));
    let input = arguments.source.load()?;
    drop(progress);
    with_channel!(parameters.channel_hash, compare(arguments, parameters, device, input, json))
}

fn compare<MC: CairoChannel>(
    arguments: &Arguments,
    parameters: ProverParameters,
    device: Option<Device>,
    input: Input,
    json: bool,
) -> Result<bool, Failure> {
    let Input { input, steps, times: before } = input;
    let progress = Progress::spoken();
    let measuring = Measuring { input: &input, arguments, progress: &progress };
    progress.say("preparing the CPU: the preprocessed columns are read, or made, and committed to …");
    let on_cpu = CairoProver::<MC>::on_cpu(parameters)?;
    let (upstream, expected) = measuring.proofs(&on_cpu, "upstream's SimdBackend")?;
    let mut stream = None;
    if let Some(runs) = arguments.stream {
        let began = Instant::now();
        for run in 1..=runs {
            progress.say(&format!("run {run} of {runs} on the CPU …"));
            on_cpu.prove(arguments.source.load()?.input)?;
        }
        let upstream_ms = began.elapsed().as_secs_f64() * 1e3;
        stream = Some(Stream { runs, runners: arguments.runners, upstream_ms, rigel_ms: None });
    }
    drop(on_cpu);
    let (mut rigel, mut plan) = (None, None);
    if let Some(device) = device {
        progress.say(&format!("preparing {device} …"));
        let prover = arguments.place.prover::<MC>(&device, parameters)?;
        plan = prover.plan(&input);
        progress.say(&format!("a first proof on {device}, which loads or compiles its kernels …"));
        prover.prove(input.clone())?;
        if background::running() > 0 {
            // The first proof was interpreted.
            background::finish();
            prover.prove(input.clone())?;
        }
        let name = format!("{device} ({})", device.properties().name);
        rigel = Some(measuring.proofs(&prover, &name)?);
        if let Some(stream) = &mut stream {
            progress.say(&format!("proving {} runs on {device} …", stream.runs));
            stream.rigel_ms = Some(prove_stream(&prover, &arguments.source, stream.runs, stream.runners)?);
        }
    }
    progress.say("");
    let equal = rigel.as_ref().map(|(_, proof)| *proof == expected);
    let comparison = Comparison {
        program: &arguments.source.name(),
        steps,
        variant: variant_name(parameters.preprocessed_trace),
        before: &before,
        upstream,
        rigel: rigel.map(|(side, _)| side),
        plan,
        equal,
        stream,
    };
    if json {
        println!("{}", serde_json::to_string_pretty(&comparison)?);
    } else {
        print!("{}", text(&comparison));
    }
    Ok(equal != Some(false))
}

/// Proves several runs of the program. Threads run it and adapt the run, ahead of the proofs by as many runs as there
/// are threads. Returns the time of all, in milliseconds.
fn prove_stream<MC: CairoChannel>(
    prover: &CairoProver<MC>,
    source: &Source,
    runs: u32,
    runners: u32,
) -> Result<f64, Failure> {
    let began = Instant::now();
    let started = AtomicU32::new(0);
    let (sender, inputs) = sync_channel(0);
    thread::scope(|scope| {
        for _ in 0..runners.min(runs) {
            let (sender, started) = (sender.clone(), &started);
            scope.spawn(move || {
                while started.fetch_add(1, Ordering::Relaxed) < runs {
                    let input = source.load().map(|input| input.input).map_err(|error| error.to_string());
                    // The receiver is gone if a proof failed.
                    if sender.send(input).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        // Dropped before the threads are waited for, also if a proof fails.
        let inputs = inputs;
        for input in &inputs {
            prover.prove(input?)?;
        }
        Ok(began.elapsed().as_secs_f64() * 1e3)
    })
}

/// The input and settings of the proofs that are made several times on each side.
struct Measuring<'a> {
    input: &'a ProverInput,
    arguments: &'a Arguments,
    progress: &'a Progress,
}

impl Measuring<'_> {
    /// Proves several times, at least once, and returns the last proof as upstream's files hold it.
    fn proofs<MC: CairoChannel>(&self, prover: &CairoProver<MC>, name: &str) -> Result<(Side, Vec<u8>), Failure> {
        let Arguments { repeat, seconds, .. } = self.arguments;
        let began = Instant::now();
        let (mut milliseconds, mut best, mut proof) = (Vec::new(), Report::default(), Vec::new());
        for number in 1..=*repeat {
            if number > 1 && began.elapsed().as_secs() >= *seconds {
                break;
            }
            self.progress.say(&format!("{name}: proof {number} of {repeat} …"));
            let proven = prover.prove(self.input.clone())?;
            if milliseconds.iter().all(|ms| proven.report.total_ms < *ms) {
                best = proven.report.clone();
            }
            milliseconds.push(proven.report.total_ms);
            proof = serde_json::to_vec(&for_verifier(&proven.proof))?;
        }
        Ok((Side { name: name.to_string(), milliseconds, report: best }, proof))
    }
}

fn text(comparison: &Comparison<'_>) -> String {
    let Comparison { program, steps, variant, upstream, rigel, equal, stream, plan, .. } = comparison;
    let steps = steps.map_or(String::new(), |steps| format!(", {} steps", number(steps as f64)));
    let mut out = format!("{}{steps}, {variant}\n", Paint::Bold.on(program));
    let mut columns = Columns::new(&[Align::Left, Align::Right, Align::Right, Align::Right]);
    columns.row(Paint::Dim, ["prover", "fastest ms", "slowest ms", "speedup"]);
    let slowest = |side: &Side| side.milliseconds.iter().copied().fold(0.0, f64::max);
    for side in std::iter::once(upstream).chain(rigel) {
        let speedup = format!("{}x", number(upstream.report.total_ms / side.report.total_ms));
        let cells = [side.name.clone(), number(side.report.total_ms), number(slowest(side)), speedup];
        columns.row(Paint::Plain, cells);
    }
    out.push_str(&columns.to_text("  "));
    for side in std::iter::once(upstream).chain(rigel) {
        out.push_str(&format!("\n  {}\n{}", side.name, phases(&side.report)));
    }
    if let (Some(plan), Some(rigel)) = (plan, rigel) {
        let peak = Bytes(plan.resident + rigel.report.peak_bytes);
        out.push_str(&format!("  {}; the peak was {peak}\n", plan_line(plan)));
    }
    if let Some(Stream { runs, runners, upstream_ms, rigel_ms }) = stream {
        let upstream = number(*upstream_ms);
        out.push_str(&format!("  {runs} runs, from program to proof: upstream {upstream} ms, one after another"));
        if let Some(ms) = rigel_ms {
            let speedup = number(upstream_ms / ms);
            out.push_str(&format!("; Rigel {} ms with {runners} threads that run them, {speedup}x", number(*ms)));
        }
        out.push('\n');
    }
    match equal {
        Some(true) => out.push_str("  the proofs are the same\n"),
        Some(false) => out.push_str(&format!("  {}\n", Paint::Bad.on("the proofs differ"))),
        None => out.push_str("  no device: only upstream's side was measured\n"),
    }
    out
}
