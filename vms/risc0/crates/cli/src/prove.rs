//! `rigel risc0 prove`: runs a program, proves the run, and reports the cost.

use std::path::PathBuf;

use rigel_gpu::{Phase, Report, background};
use rigel_risc0::{Proven, SegmentSummary};
use rigel_terminal::{Paint, Progress, number};
use serde::Serialize;

use crate::Failure;
use crate::options::{Place, Source, write};
use crate::report::{figures, phases, stages};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    place: Place,
    /// Write the receipt to a file, as upstream's programs do (bincode)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the journal to a file
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
}

/// The summary of one proof.
#[derive(Serialize)]
struct Summary<'a> {
    program: &'a str,
    image_id: String,
    exit_code: String,
    journal: String,
    user_cycles: u64,
    total_cycles: u64,
    total_ms: f64,
    execute_ms: f64,
    receipt_bytes: usize,
    segments: Vec<Segment<'a>>,
}

#[derive(Serialize)]
struct Segment<'a> {
    po2: u32,
    cycles: u32,
    /// The segment's stages, in milliseconds after the start.
    stages: &'a [Phase],
    report: &'a Report,
    /// The bytes that the host copied between upstream's prover and buffers.
    host_bytes: u64,
}

/// Proves and reports.
pub fn run(arguments: &Arguments, json: bool) -> Result<bool, Failure> {
    let prover = arguments.place.prover()?;
    let (program, options) = arguments.source.load_for(&prover)?;
    let progress = Progress::spoken();
    let names: Vec<String> = prover.devices().iter().map(ToString::to_string).collect();
    let place = if names.is_empty() { "the CPU".into() } else { names.join(", ") };
    progress.say(&format!("running {} and proving on {place} …", arguments.source.name()));
    let proven = prover.prove(&program, &options)?;
    progress.say("");
    let Proven { receipt, run, segments, total_ms, execute_ms } = &proven;
    let bytes = bincode::serialize(receipt)?;
    if let Some(path) = &arguments.output {
        write(path, &bytes)?;
    }
    if let Some(path) = &arguments.journal {
        write(path, &run.journal)?;
    }
    let summary = Summary {
        program: &arguments.source.name(),
        image_id: program.image_id().to_string(),
        exit_code: format!("{:?}", run.exit_code),
        journal: hex::encode(&run.journal),
        user_cycles: run.user_cycles,
        total_cycles: run.total_cycles,
        total_ms: *total_ms,
        execute_ms: *execute_ms,
        receipt_bytes: bytes.len(),
        segments: segments
            .iter()
            .map(|segment| Segment {
                po2: segment.po2,
                cycles: segment.cycles,
                stages: &segment.stages,
                report: &segment.report,
                host_bytes: segment.host_bytes,
            })
            .collect(),
    };
    if json {
        println!("{}", serde_json::to_string_pretty(&summary)?);
    } else {
        print!("{}", text(&summary, segments, arguments));
    }
    if background::running() > 0 {
        progress.say("the proof is done; compiling its kernels for later proofs …");
        background::finish();
        progress.say("");
    }
    Ok(true)
}

fn text(summary: &Summary<'_>, segments: &[SegmentSummary], arguments: &Arguments) -> String {
    let mut out = format!(
        "{}, {} cycles in {} segments, {}\n  image id {}\n  journal  {}\n  proved in {} ms ({} kHz); \
         the run took {} ms\n",
        Paint::Bold.on(summary.program),
        number(summary.user_cycles as f64),
        summary.segments.len(),
        summary.exit_code,
        summary.image_id,
        shortened(&summary.journal),
        number(summary.total_ms),
        number(summary.user_cycles as f64 / summary.total_ms),
        number(summary.execute_ms),
    );
    out.push_str(&format!("\n{}", stages(segments)));
    if let Some(last) = summary.segments.iter().max_by_key(|segment| segment.cycles) {
        out.push_str(&format!(
            "  the largest segment: 2^{} rows, {} cycles, on {} in {} ms\n\n",
            last.po2,
            number(last.cycles.into()),
            last.report.device,
            number(last.report.total_ms),
        ));
        out.push_str(&phases(last.report));
        out.push_str(&figures(last.report, last.host_bytes));
    }
    if let Some(path) = &arguments.output {
        let (file, id) = (path.display(), &summary.image_id);
        out.push_str(&format!("\nwritten to {file}; check it with: rigel risc0 verify {file} --image-id {id}\n"));
    }
    out
}

/// The first bytes of a long journal.
pub fn shortened(journal: &str) -> String {
    const SHOWN: usize = 64;
    match journal.len() {
        0 => "empty".into(),
        n if n > SHOWN => format!("{}… ({} bytes)", &journal[..SHOWN], n / 2),
        _ => journal.into(),
    }
}
