//! The report as a self-contained page.

use std::fmt::Write;

use super::record::{Bar, Document, Figures, PhasePair, Report, Row, Times};
use super::table::{shape, verdict, work};
use crate::page::timeline::{self, Span, Track};
use crate::page::{document_of, escape};
use crate::terminal::number;

pub fn page(title: &str, document: &Document) -> String {
    document_of(title, &document.reports.iter().map(section).collect::<String>())
}

fn section(report: &Report) -> String {
    let Report { device, size, repeat, cpu_threads, rows } = report;
    let mut out = format!(
        "<h1>{}</h1>\n<p>{}. Sizes: {size}; medians of {repeat}. Upstream's prover on {cpu_threads} threads, its best \
         run.</p>\n<h2>Proofs</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th>case</th><th>trace</th>\
         <th class=\"n\">first ms</th><th class=\"n\">host ms</th><th class=\"n\">resident ms</th>\
         <th class=\"n\">upstream ms</th><th class=\"n\">host ×</th><th class=\"n\">resident ×</th>\
         <th class=\"n\">proof KiB</th><th>check</th></tr></thead>\n<tbody>\n",
        escape(&device.name),
        escape(&device.to_string()),
    );
    rows.iter().for_each(|row| out.push_str(&times(row)));
    out.push_str(
        "</tbody>\n</table></div>\n<h2>Bars</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th>case</th>\
         <th>figure</th><th class=\"n\">value</th><th>bar</th><th></th></tr></thead>\n<tbody>\n",
    );
    for row in rows {
        row.bars.iter().for_each(|one| out.push_str(&bar(row, one)));
    }
    out.push_str("</tbody>\n</table></div>\n");
    for row in rows {
        if let Some(figures) = &row.figures {
            let _ = write!(
                out,
                "<h2>{}</h2>\n<figure>\n{}</figure>\n<h3>Phases</h3>\n<figure>\n{}</figure>\n{}",
                escape(&row.name),
                timelines(report, row, figures),
                chart(&figures.phases),
                footer(figures)
            );
        }
    }
    out
}

fn figure(value: Option<f64>) -> String {
    format!("<td class=\"n\">{}</td>", value.map(number).unwrap_or_default())
}

fn times(row: &Row) -> String {
    let Some(figures) = &row.figures else {
        let error = escape(row.error.as_deref().unwrap_or_default());
        return format!(
            "<tr><td>{}</td><td class=\"miss\" title=\"{error}\">FAILED</td></tr>\n",
            escape(&row.name)
        );
    };
    let cells = [
        format!("<td>{}</td><td class=\"soft\">{}</td>", escape(&row.name), shape(&row.tables)),
        figure(Some(figures.first_milliseconds)),
        figure(Some(figures.host.median())),
        figure(Some(figures.resident.median())),
        figure(figures.upstream.as_ref().map(Times::best)),
        figure(figures.host_ratio()),
        figure(figures.resident_ratio()),
        figure(Some(figures.proof_bytes as f64 / 1024.0)),
        format!("<td class=\"soft\">{}</td>", figures.check),
    ];
    format!("<tr>{}</tr>\n", cells.concat())
}

fn bar(row: &Row, bar: &Bar) -> String {
    let (word, _) = verdict(bar);
    format!(
        "<tr><td>{}</td><td>{}</td>{}<td class=\"soft\">{}</td><td class=\"{}\">{word}</td></tr>\n",
        escape(&row.name),
        bar.figure,
        figure(bar.value),
        bar.words(),
        word.to_lowercase(),
    )
}

fn footer(figures: &Figures) -> String {
    let stream = figures.stream.map(|stream| {
        format!(
            "<p>{} proofs in a row: {} a second one at a time, {} two at a time.</p>\n",
            stream.proofs,
            number(stream.alone_per_second),
            number(stream.paired_per_second)
        )
    });
    format!(
        "<p>Milliseconds on the device from a trace on the host (blue), and upstream's on the CPU (grey). The device \
         had work {:.0} % of the time: {}.</p>\n{}",
        100.0 * figures.report.busy(),
        work(figures),
        stream.unwrap_or_default()
    )
}

/// The proof from a trace on the host, beside upstream's.
fn timelines(report: &Report, row: &Row, figures: &Figures) -> String {
    let ours = Track::of_report(format!("Rigel on {}", report.device.name), &figures.report);
    let upstream = figures.upstream.as_ref().map(|times| Track {
        name: format!("upstream on {} CPU threads", report.cpu_threads),
        total_ms: times.best(),
        spans: figures
            .upstream_timeline
            .iter()
            .map(|segment| Span { name: segment.name, start_ms: segment.start_ms, ms: segment.ms })
            .collect(),
        memory: Vec::new(),
    });
    let title = format!("{}, from a trace on the host", row.name);
    timeline::svg(&title, &std::iter::once(ours).chain(upstream).collect::<Vec<_>>())
}

const WIDTH: f64 = 1060.0;
const NAMES: f64 = 150.0;
const FIGURES: f64 = 80.0;
const BAR: f64 = 11.0;
const STEP: f64 = 34.0;

/// Two bars per phase, ours above upstream's, on one linear scale.
fn chart(phases: &[PhasePair]) -> String {
    let all = phases.iter().flat_map(|pair| [pair.milliseconds, pair.upstream_milliseconds]).flatten();
    let longest = all.fold(1e-9, f64::max);
    let height = STEP * phases.len() as f64 + 10.0;
    let mut out = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n");
    for (i, pair) in phases.iter().enumerate() {
        let top = 8.0 + STEP * i as f64;
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            NAMES - 8.0,
            top + 15.0,
            pair.name
        );
        let sides = [("--blue", pair.milliseconds, top), ("--soft", pair.upstream_milliseconds, top + BAR + 1.0)];
        for (colour, value, y) in sides {
            let Some(value) = value else { continue };
            let length = (WIDTH - NAMES - FIGURES) * value / longest;
            let _ = writeln!(
                out,
                "<rect x=\"{NAMES}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"{BAR}\" rx=\"2\" \
                 style=\"fill: var({colour})\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                NAMES + length + 5.0,
                y + BAR - 1.5,
                number(value)
            );
        }
    }
    out.push_str("</svg>\n");
    out
}
