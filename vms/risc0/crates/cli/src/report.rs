//! The cost of proofs, as text.

use rigel_gpu::{Bytes, Report};
use rigel_risc0::SegmentSummary;
use rigel_terminal::{Align, Columns, Paint, number};

/// The phases of a proof, and what is between them.
pub fn phases(report: &Report) -> String {
    rigel_terminal::phases(report.by_phase(), report.total_ms)
}

/// The stages of all segments, which run on threads beside each other: the time of each stage, when it first began
/// and when it last ended.
pub fn stages(segments: &[SegmentSummary]) -> String {
    let mut columns = Columns::new(&[Align::Left, Align::Right, Align::Right, Align::Right, Align::Right]);
    columns.row(Paint::Dim, ["stage", "ms in all", "ms each", "began", "ended"]);
    for name in ["execute", "preflight", "prove", "verify"] {
        let all: Vec<_> =
            segments.iter().flat_map(|segment| &segment.stages).filter(|stage| stage.name == name).collect();
        let sum: f64 = all.iter().map(|stage| stage.ms).sum();
        let began = all.iter().map(|stage| stage.start_ms).fold(f64::INFINITY, f64::min);
        let ended = all.iter().map(|stage| stage.start_ms + stage.ms).fold(0.0, f64::max);
        let each = sum / all.len().max(1) as f64;
        columns.row(Paint::Plain, [name, &number(sum), &number(each), &number(began), &number(ended)]);
    }
    format!("{}\n", columns.to_text("  "))
}

/// The bytes that a proof moved and held, and the parts that ran on the CPU.
pub fn figures(report: &Report, host_bytes: u64) -> String {
    let bytes = |bytes: usize| Bytes(bytes).to_string();
    let mut columns = Columns::new(&[Align::Left, Align::Left]);
    if report.device != "cpu" {
        let traffic = format!("{} / {}", bytes(report.bytes_up as usize), bytes(report.bytes_down as usize));
        columns.row(Paint::Plain, ["bytes up / down", &traffic]);
        columns.row(Paint::Plain, ["bytes copied by the host", &bytes(host_bytes as usize)]);
        columns.row(Paint::Plain, ["peak device memory", &bytes(report.peak_bytes)]);
        columns.row(Paint::Plain, ["kernel launches", &report.launches.to_string()]);
        columns.row(Paint::Plain, ["copies back", &report.downloads.to_string()]);
        if report.interpreted > 0 {
            let text = format!("{} programs; with their kernels, later proofs are faster", report.interpreted);
            columns.row(Paint::Plain, ["interpreted", &text]);
        }
    }
    let mut text = columns.to_text("  ");
    for fallback in &report.fallbacks {
        let line = format!("{} ran on the {}: {}", fallback.part, fallback.ran_on, fallback.reason);
        text.push_str(&format!("  {}\n", Paint::Bad.on(&line)));
    }
    text
}
