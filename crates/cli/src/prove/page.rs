//! The cost of a proof as a self-contained page.

use std::fmt::Write;

use rigel_gpu::Bytes;

use super::report::Summary;
use crate::bench::proofs::spans::{Segment, sums};
use crate::page::timeline::{self, Span, Track};
use crate::page::{document_of, escape};
use crate::terminal::number;
use rigel_statements::TableShape;

/// The page. On the CPU, the phases are `upstream`'s; on a device, those of the report.
pub fn page(summary: &Summary<'_>, upstream: &[Segment]) -> String {
    let report = summary.report;
    let title = summary.header.choice.to_string();
    let shape = |shape: &TableShape| format!("2^{} x {}", shape.log_rows, shape.columns);
    let tables: Vec<String> = summary.tables.iter().map(shape).collect();
    let place = summary.place();
    let mut out = format!(
        "<h1>{}</h1>\n<p>Proved on {} in {} ms. Tables: {}.</p>\n<div class=\"ceilings\">\n{}</div>\n",
        escape(&title),
        escape(&place),
        number(report.total_ms),
        tables.join(", "),
        cards(summary)
    );
    for fallback in report.fallbacks.iter().filter(|_| summary.device_name.is_some()) {
        let text = format!("{} ran on the {}: {}", fallback.part, fallback.ran_on, fallback.reason);
        let _ = writeln!(out, "<p class=\"miss\">{}</p>", escape(&text));
    }
    let track = match report.phases.is_empty() {
        false => Track::of_report(place, report),
        true => Track {
            name: place,
            total_ms: report.total_ms,
            spans: upstream.iter().map(|at| Span { name: at.name, start_ms: at.start_ms, ms: at.ms }).collect(),
            memory: Vec::new(),
        },
    };
    if track.spans.is_empty() {
        return document_of(&escape(&title), &out);
    }
    let _ = write!(
        out,
        "<h2>Timeline</h2>\n<figure>\n{}</figure>\n<h2>Phases</h2>\n<div class=\"scroll\"><table>\n<thead><tr>\
         <th>phase</th><th class=\"n\">ms</th><th class=\"n\">%</th><th class=\"n\">times</th></tr></thead>\n\
         <tbody>\n{}</tbody>\n</table></div>\n",
        timeline::svg(&title, std::slice::from_ref(&track)),
        rows(summary, &track, upstream)
    );
    if !report.phases.is_empty() {
        out.push_str("<p>Phases on different streams overlap. Between them the device waits for the host.</p>\n");
    }
    document_of(&escape(&title), &out)
}

fn cards(summary: &Summary<'_>) -> String {
    let report = summary.report;
    let bytes = |bytes: usize| Bytes(bytes).to_string();
    let mut cards = vec![
        (format!("{} ms", number(report.total_ms)), "proof"),
        (bytes(summary.proof_bytes), "size of the proof"),
        (format!("{} ms", number(summary.trace_milliseconds)), "to generate the trace"),
    ];
    if !report.phases.is_empty() {
        cards.extend([
            (bytes(report.peak_bytes), "peak device memory"),
            (format!("{} / {}", bytes(report.bytes_up as usize), bytes(report.bytes_down as usize)), "up / down"),
            (report.launches.to_string(), "kernel launches"),
            (format!("{:.0} %", 100.0 * report.busy()), "of the time the device had work"),
        ]);
    }
    cards.iter().map(|(value, name)| format!("<div><b>{value}</b><span>{name}</span></div>\n")).collect()
}

fn rows(summary: &Summary<'_>, track: &Track<'_>, upstream: &[Segment]) -> String {
    let report = summary.report;
    let phases = if report.phases.is_empty() { sums(upstream) } else { report.by_phase() };
    let row = |&(name, ms): &(&str, f64)| {
        format!(
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{:.0}</td><td class=\"n\">{}</td></tr>\n",
            escape(name),
            number(ms),
            100.0 * ms / report.total_ms,
            track.spans.iter().filter(|span| span.name == name).count()
        )
    };
    phases.iter().map(row).collect()
}
