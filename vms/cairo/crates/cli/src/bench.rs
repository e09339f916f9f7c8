//! `rigel cairo bench`: upstream's prover on the CPU beside Rigel on a device, for the same run and the same proof.

use rigel_cairo::{CairoChannel, CairoProver, ProverInput, ProverParameters, for_verifier, variant_name};
use rigel_gpu::{Device, Report, background};
use rigel_terminal::{Align, Columns, Paint, Progress, number};
use serde::Serialize;

use crate::Failure;
use crate::options::{Input, Parameters, Place, Source, with_channel};
use crate::report::phases;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    place: Place,
    /// Proofs on each side, after one on the device that compiles and loads its kernels
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
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
    /// Whether both proofs are the same, as upstream's files hold them.
    equal: Option<bool>,
}

/// Measures and compares. Returns whether the proofs are the same.
pub fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let parameters = arguments.parameters.get()?;
    let device = arguments.place.open()?;
    let progress = Progress::spoken();
    progress.say(&format!("running {} …", arguments.source.name()));
    let input = arguments.source.load()?;
    with_channel!(parameters.channel_hash, compare(arguments, parameters, device, input, &progress))
}

fn compare<MC: CairoChannel>(
    arguments: &Arguments,
    parameters: ProverParameters,
    device: Option<Device>,
    input: Input,
    progress: &Progress,
) -> Result<bool, Failure> {
    let Input { input, steps, times: before } = input;
    progress.say("proving on the CPU …");
    let on_cpu = CairoProver::<MC>::on_cpu(parameters)?;
    let (upstream, expected) = measure(&on_cpu, &input, "upstream's SimdBackend", arguments.repeat)?;
    drop(on_cpu);
    let mut rigel = None;
    if let Some(device) = device {
        progress.say(&format!("proving on {device} …"));
        let prover = CairoProver::<MC>::new(&device, parameters)?;
        prover.prove(input.clone())?;
        if background::running() > 0 {
            // The first proof was interpreted.
            background::finish();
            prover.prove(input.clone())?;
        }
        let name = format!("{device} ({})", device.properties().name);
        rigel = Some(measure(&prover, &input, &name, arguments.repeat)?);
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
        equal,
    };
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&comparison)?);
    } else {
        print!("{}", text(&comparison));
    }
    Ok(equal != Some(false))
}

/// Proves several times, and returns the last proof as upstream's files hold it.
fn measure<MC: CairoChannel>(
    prover: &CairoProver<MC>,
    input: &ProverInput,
    name: &str,
    repeat: u32,
) -> Result<(Side, Vec<u8>), Failure> {
    let (mut milliseconds, mut best, mut proof) = (Vec::new(), Report::default(), Vec::new());
    for _ in 0..repeat {
        let proven = prover.prove(input.clone())?;
        if milliseconds.iter().all(|ms| proven.report.total_ms < *ms) {
            best = proven.report.clone();
        }
        milliseconds.push(proven.report.total_ms);
        proof = serde_json::to_vec(&for_verifier(&proven.proof))?;
    }
    Ok((Side { name: name.to_string(), milliseconds, report: best }, proof))
}

fn text(comparison: &Comparison<'_>) -> String {
    let Comparison { program, steps, variant, upstream, rigel, equal, .. } = comparison;
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
    match equal {
        Some(true) => out.push_str("  the proofs are the same\n"),
        Some(false) => out.push_str(&format!("  {}\n", Paint::Bad.on("the proofs differ"))),
        None => out.push_str("  no device: only upstream's side was measured\n"),
    }
    out
}
