//! `rigel risc0 bench`: one segment, from its preflight to the seal, and the whole program, from the file to the
//! receipt.

use std::time::Instant;

use rigel_gpu::{Bytes, Phase, Report, background};
use rigel_risc0::{Preflight, Prover, SegmentSummary, verify, verify_seal};
use rigel_terminal::{Align, Columns, Paint, Progress, number};
use serde::Serialize;

use crate::Failure;
use crate::options::{Place, Source};
use crate::report::{figures, phases, stages};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    place: Place,
    /// Proofs of the segment, after one that compiles and loads kernels
    #[arg(long, default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Prove only the first segment, not the whole program
    #[arg(long)]
    segment_only: bool,
    /// Prove the segment with upstream's CPU prover too, and compare the seals
    #[arg(long)]
    compare: bool,
}

#[derive(Serialize)]
struct Measured {
    program: String,
    segment: SegmentRow,
    whole: Option<WholeRow>,
}

#[derive(Serialize)]
struct SegmentRow {
    po2: u32,
    cycles: u32,
    preflight_ms: f64,
    /// The time of each proof, in milliseconds, from the preflight to the seal.
    milliseconds: Vec<f64>,
    /// Upstream's time on the CPU, if it was asked for.
    upstream_ms: Option<f64>,
    /// Whether both seals are the same.
    equal: Option<bool>,
    /// The time of upstream's verifier.
    verify_ms: f64,
    /// The report of the fastest.
    report: Report,
    /// The bytes that the host copied between upstream's prover and buffers.
    host_bytes: u64,
    /// The most device memory that was in use at once, with what stays for the next proof.
    device_bytes: usize,
}

#[derive(Serialize)]
struct WholeRow {
    cycles: u64,
    segments: usize,
    total_ms: f64,
    execute_ms: f64,
    /// The stages of each segment, in milliseconds after the start.
    stages: Vec<Vec<Phase>>,
}

/// Measures and reports. Returns whether the seals are the same, if they were compared.
pub fn run(arguments: &Arguments, json: bool) -> Result<bool, Failure> {
    let prover = arguments.place.prover()?;
    let (program, options) = arguments.source.load_for(&prover)?;
    let progress = Progress::spoken();
    progress.say("running the program …");
    let mut first = None;
    program.run(&options, |segment| {
        first.get_or_insert(segment);
        Ok(())
    })?;
    let began = Instant::now();
    let preflight = Preflight::new(&first.ok_or("the program has no segments")?)?;
    let preflight_ms = began.elapsed().as_secs_f64() * 1e3;
    progress.say(&format!("proving a segment of 2^{} rows …", preflight.po2()));
    let segment = SegmentRow { preflight_ms, ..measure(arguments, &prover, &preflight)? };
    let mut summaries = Vec::new();
    let whole = match arguments.segment_only {
        true => None,
        false => {
            progress.say("proving the program …");
            let proven = prover.prove(&program, &options)?;
            verify(&proven.receipt, program.image_id())?;
            summaries = proven.segments;
            Some(WholeRow {
                cycles: proven.run.user_cycles,
                segments: summaries.len(),
                total_ms: proven.total_ms,
                execute_ms: proven.execute_ms,
                stages: summaries.iter().map(|segment| segment.stages.clone()).collect(),
            })
        }
    };
    progress.say("");
    let measured = Measured { program: arguments.source.name(), segment, whole };
    if json {
        println!("{}", serde_json::to_string_pretty(&measured)?);
    } else {
        print!("{}", text(&measured, &summaries));
    }
    Ok(measured.segment.equal != Some(false))
}

fn measure(arguments: &Arguments, prover: &Prover, preflight: &Preflight) -> Result<SegmentRow, Failure> {
    let mut seal = prover.prove_preflight(preflight)?.seal;
    verify_seal(&seal)?;
    if background::running() > 0 {
        // The first proof was interpreted.
        background::finish();
        prover.prove_preflight(preflight)?;
    }
    let (mut milliseconds, mut report, mut host_bytes) = (Vec::new(), Report::default(), 0);
    for _ in 0..arguments.repeat {
        let proven = prover.prove_preflight(preflight)?;
        if milliseconds.iter().all(|ms| proven.report.total_ms < *ms) {
            report = proven.report.clone();
        }
        milliseconds.push(proven.report.total_ms);
        (seal, host_bytes) = (proven.seal, proven.host_bytes);
    }
    let began = Instant::now();
    verify_seal(&seal)?;
    let verify_ms = began.elapsed().as_secs_f64() * 1e3;
    let (mut upstream_ms, mut equal) = (None, None);
    if arguments.compare {
        let theirs = Prover::on_cpu().prove_preflight(preflight)?;
        upstream_ms = Some(theirs.report.total_ms);
        equal = Some(theirs.seal == seal);
    }
    Ok(SegmentRow {
        po2: preflight.po2(),
        cycles: preflight.cycles(),
        preflight_ms: 0.0,
        milliseconds,
        upstream_ms,
        equal,
        verify_ms,
        report,
        host_bytes,
        device_bytes: prover.devices().iter().map(|device| device.memory_stats().peak).max().unwrap_or(0),
    })
}

fn text(measured: &Measured, summaries: &[SegmentSummary]) -> String {
    let SegmentRow { po2, cycles, milliseconds, upstream_ms, equal, report, .. } = &measured.segment;
    let mut out = format!("{}\n", Paint::Bold.on(&measured.program));
    let mut columns = Columns::new(&[Align::Left, Align::Right, Align::Right, Align::Right]);
    columns.row(Paint::Dim, ["what", "cycles", "ms", "MHz"]);
    let mhz = |cycles: f64, ms: f64| number(cycles / ms / 1e3);
    let slowest = milliseconds.iter().copied().fold(0.0, f64::max);
    let cells = |what: String, cycles: f64, ms: f64| [what, number(cycles), number(ms), mhz(cycles, ms)];
    let cycle_count = f64::from(*cycles);
    columns.row(Paint::Plain, cells(format!("segment of 2^{po2} rows, fastest"), cycle_count, report.total_ms));
    columns.row(Paint::Plain, cells(format!("segment of 2^{po2} rows, slowest"), cycle_count, slowest));
    columns.row(Paint::Plain, cells("its preflight".into(), cycle_count, measured.segment.preflight_ms));
    columns.row(Paint::Plain, cells("upstream's verifier".into(), cycle_count, measured.segment.verify_ms));
    if let Some(ms) = upstream_ms {
        columns.row(Paint::Plain, cells("upstream's prover on the CPU".into(), cycle_count, *ms));
    }
    if let Some(whole) = &measured.whole {
        let what = format!("program to receipt, {} segments", whole.segments);
        columns.row(Paint::Plain, cells(what, whole.cycles as f64, whole.total_ms));
        columns.row(Paint::Plain, cells("its run alone".into(), whole.cycles as f64, whole.execute_ms));
    }
    out.push_str(&columns.to_text("  "));
    if !summaries.is_empty() {
        out.push_str(&format!("\n  the program's segments\n{}", stages(summaries)));
    }
    let figures = figures(report, measured.segment.host_bytes);
    out.push_str(&format!("\n  the fastest proof of the segment\n{}{figures}", phases(report)));
    if measured.segment.device_bytes > 0 {
        let bytes = Bytes(measured.segment.device_bytes);
        out.push_str(&format!("  {bytes} of device memory at most, with what stays for the next proof\n"));
    }
    match equal {
        Some(true) => out.push_str("  the seals are the same\n"),
        Some(false) => out.push_str(&format!("  {}\n", Paint::Bad.on("the seals differ"))),
        None => {}
    }
    out
}
