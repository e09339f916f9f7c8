//! The report as text.

use std::fmt::Write;

use rigel_gpu::Bytes;

use super::record::{Bar, Figures, Report, Row};
use crate::terminal::Align::{Left, Right};
use crate::terminal::{Columns, Paint, number};
use rigel_statements::TableShape;

/// The device, and how it was measured.
pub fn heading(report: &Report) -> String {
    let Report { device, repeat, cpu_threads, .. } = report;
    format!(
        "{}: {device}\nmedians of {repeat}; upstream's prover on {cpu_threads} threads, its best run\n",
        Paint::Bold.on(&device.name)
    )
}

/// Times, then bars, then phases side by side.
pub fn rows(report: &Report) -> String {
    let mut out = times(report);
    out.push_str(&failures(report));
    out.push_str(&bars(report));
    for row in &report.rows {
        if let Some(figures) = &row.figures {
            out.push_str(&phases(row, figures));
        }
    }
    out
}

/// `2^17 x 2633`, or the number and sizes of the tables.
pub fn shape(tables: &[TableShape]) -> String {
    match tables {
        [] => String::new(),
        [table] => format!("2^{} x {}", table.log_rows, table.columns),
        tables => {
            let logs = || tables.iter().map(|table| table.log_rows);
            format!("{} tables, 2^{} to 2^{}", tables.len(), logs().min().unwrap_or(0), logs().max().unwrap_or(0))
        }
    }
}

fn times(report: &Report) -> String {
    let mut columns = Columns::new(&[Left, Left, Right, Right, Right, Right, Right, Right, Right, Left]);
    let heads = [
        "case",
        "trace",
        "first ms",
        "host ms",
        "resident ms",
        "upstream ms",
        "host x",
        "resident x",
        "proof KiB",
    ];
    columns.row(Paint::Dim, heads.into_iter().chain(["check"]));
    for row in &report.rows {
        let Some(figures) = &row.figures else {
            columns.painted_row([(row.name.clone(), Paint::Plain), ("FAILED".into(), Paint::Bad)]);
            continue;
        };
        let optional = |value: Option<f64>| value.map(number).unwrap_or_default();
        columns.row(
            Paint::Plain,
            [
                row.name.clone(),
                shape(&row.tables),
                number(figures.first_milliseconds),
                number(figures.host.median()),
                number(figures.resident.median()),
                optional(figures.upstream.as_ref().map(super::record::Times::best)),
                optional(figures.host_ratio()),
                optional(figures.resident_ratio()),
                number(figures.proof_bytes as f64 / 1024.0),
                figures.check.to_string(),
            ],
        );
    }
    let mut out = columns.to_text("");
    for row in &report.rows {
        if let Some(stream) = row.figures.as_ref().and_then(|figures| figures.stream) {
            let _ = writeln!(
                out,
                "{}: {} proofs in a row, {} a second one at a time, {} two at a time, {} x",
                row.name,
                stream.proofs,
                number(stream.alone_per_second),
                number(stream.paired_per_second),
                number(stream.gain())
            );
        }
    }
    out
}

fn failures(report: &Report) -> String {
    let mut out = String::new();
    for row in &report.rows {
        if let Some(error) = &row.error {
            // A compiler's log can be long; the JSON has all of it.
            let first: Vec<&str> = error.lines().take(4).collect();
            let _ = writeln!(out, "{}: {}", Paint::Bad.on(&row.name), first.join("\n  "));
        }
    }
    out
}

/// The text and colour for the result of a bar.
pub fn verdict(bar: &Bar) -> (&'static str, Paint) {
    match bar.pass {
        Some(true) => ("PASS", Paint::Good),
        Some(false) => ("MISS", Paint::Bad),
        None => ("", Paint::Plain),
    }
}

fn bars(report: &Report) -> String {
    let mut columns = Columns::new(&[Left, Left, Right, Left, Left]);
    columns.row(Paint::Dim, ["case", "figure", "value", "bar", ""]);
    let (mut met, mut judged) = (0, 0);
    for row in &report.rows {
        for bar in &row.bars {
            let (word, paint) = verdict(bar);
            let plain = |text: String| (text, Paint::Plain);
            let value = bar.value.map(number).unwrap_or_default();
            let cells = [row.name.clone(), bar.figure.into(), value, bar.words()].map(plain);
            columns.painted_row(cells.into_iter().chain([(word.to_string(), paint)]));
            judged += usize::from(bar.pass.is_some());
            met += usize::from(bar.pass == Some(true));
        }
    }
    let summary = match judged {
        0 => "Bars are for a GPU at full size; none was judged here.".to_string(),
        _ => format!("{met} of {judged} bars met"),
    };
    format!("\n{}\n{summary}\n", columns.to_text(""))
}

/// The device's work in a proof from the host.
pub fn work(figures: &Figures) -> String {
    let report = &figures.report;
    format!(
        "{} launches in {} submissions, {} copies back, at most {} of device memory, {} x the extended columns",
        report.launches,
        report.submissions,
        report.downloads,
        Bytes(report.peak_bytes),
        number(figures.peak_over_extended())
    )
}

fn phases(row: &Row, figures: &Figures) -> String {
    let mut columns = Columns::new(&[Left, Right, Right, Right]);
    columns.row(Paint::Dim, ["phase", "ms", "upstream ms", "x"]);
    let optional = |value: Option<f64>| value.map(number).unwrap_or_default();
    for pair in &figures.phases {
        let ratio = pair.milliseconds.zip(pair.upstream_milliseconds).filter(|(ours, _)| *ours > 0.0);
        columns.row(
            Paint::Plain,
            [
                pair.name.to_string(),
                optional(pair.milliseconds),
                optional(pair.upstream_milliseconds),
                optional(ratio.map(|(ours, upstream)| upstream / ours)),
            ],
        );
    }
    format!("\n{}, from the host: {}\n{}", row.name, work(figures), columns.to_text("  "))
}
