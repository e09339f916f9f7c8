//! The report as a self-contained page.

use std::fmt::Write;

use super::json::{Document, Report};
use super::measure::Row;
use super::roofline;
use crate::terminal::number;

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1c2430; --soft: #667085; --line: #e4e7ec; --page: #ffffff; --band: #f8fafc;
  --blue: #2563eb; --good: #15803d; --bad: #c2410c; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ef; --soft: #98a2b3; --line: #2b3442; --page: #11161d; --band: #171d26;
    --blue: #7aa2ff; --good: #4ade80; --bad: #fb923c; } }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif; }
main { max-width: 1140px; margin: 0 auto; padding: 40px 28px 64px; }
h1 { font-size: 26px; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 18px; margin: 36px 0 10px; }
p { margin: 4px 0; color: var(--soft); }
.ceilings { display: flex; flex-wrap: wrap; gap: 12px; margin: 20px 0 8px; }
.ceilings div { border: 1px solid var(--line); border-radius: 10px; padding: 10px 16px; background: var(--band); }
.ceilings b { display: block; font-size: 20px; font-variant-numeric: tabular-nums; }
.ceilings span { color: var(--soft); font-size: 13px; }
figure { margin: 0; border: 1px solid var(--line); border-radius: 10px; padding: 8px; overflow-x: auto; }
svg { display: block; width: 100%; min-width: 760px; height: auto; font: 11px system-ui, sans-serif; }
svg text { fill: var(--ink); }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg .tick { fill: var(--soft); }
svg .axis { fill: var(--soft); font-size: 12.5px; }
svg .roof { fill: none; stroke: var(--ink); stroke-width: 2; stroke-linejoin: round; }
svg .unit { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 5 4; }
svg .roof-name { fill: var(--soft); }
svg .dot { fill: var(--blue); stroke: var(--page); stroke-width: 1.5; }
svg .dot.pass { fill: var(--good); }
svg .dot.miss { fill: var(--bad); }
svg .leader { stroke: var(--soft); stroke-width: 0.6; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--soft); border-bottom: 2px solid var(--line); padding: 6px 10px; }
td { border-bottom: 1px solid var(--line); padding: 5px 10px; white-space: nowrap; }
th.n, td.n { text-align: right; }
tbody tr:hover { background: var(--band); }
.pass { color: var(--good); font-weight: 600; }
.miss { color: var(--bad); font-weight: 600; }
.soft { color: var(--soft); }
";

/// Escapes text for HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A self-contained page.
pub fn document_of(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

pub fn page(document: &Document) -> String {
    document_of("Rigel primitives", &document.reports.iter().map(section).collect::<String>())
}

fn section(report: &Report) -> String {
    let device = &report.device;
    let ceilings = &report.ceilings;
    let giga = |rate: f64| number(rate / 1e9);
    let mut out = format!(
        "<h1>{}</h1>\n<p>{}. Sizes: {}; medians of {}.</p>\n",
        escape(&device.name),
        escape(&device.to_string()),
        report.size,
        report.repeat
    );
    let ceiling =
        |value: String, unit: &str, name: &str| format!("<div><b>{value} {unit}</b><span>{name}</span></div>\n");
    out.push_str("<div class=\"ceilings\">\n");
    out.push_str(&ceiling(number(ceilings.copy_gigabytes_per_second), "GB/s", "device copy, read + write"));
    out.push_str(&ceiling(giga(ceilings.logic_per_second), "G/s", "logic and shift instructions"));
    out.push_str(&ceiling(giga(ceilings.multiply_per_second), "G/s", "multiply-add instructions"));
    out.push_str("</div>\n");
    if let Some(svg) = roofline::svg(report) {
        let _ = write!(
            out,
            "<h2>Roofline</h2>\n<figure>\n{svg}</figure>\n\
             <p>A point on a roof uses the device's full measured rate. Green points meet their bar, orange points \
             miss it. Hover over a point for its name.</p>\n"
        );
    }
    let _ = write!(
        out,
        "<h2>Operations</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th>operation</th><th>shape</th>\
         <th class=\"n\">ms</th><th class=\"n\">floor ms</th><th>bound</th><th class=\"n\">× floor</th>\
         <th class=\"n\">rate</th><th>unit</th><th>bar</th><th></th></tr></thead>\n\
         <tbody>\n{}</tbody>\n</table></div>\n\
         <p>The floor is the minimum time that the ceilings allow for the bytes and instructions that the operation \
         needs; the bound says which of them determines it.</p>\n",
        report.rows.iter().map(table_row).collect::<String>()
    );
    out
}

fn table_row(row: &Row) -> String {
    let text = |text: Option<&str>| format!("<td class=\"soft\">{}</td>", escape(text.unwrap_or_default()));
    let figure = |value: Option<f64>| format!("<td class=\"n\">{}</td>", value.map(number).unwrap_or_default());
    let verdict = match (&row.error, row.pass) {
        (Some(error), _) => format!("<td class=\"miss\" title=\"{}\">FAILED</td>", escape(error)),
        (None, Some(true)) => "<td class=\"pass\">PASS</td>".to_string(),
        (None, Some(false)) => "<td class=\"miss\">MISS</td>".to_string(),
        (None, None) => "<td></td>".to_string(),
    };
    let cells = [
        format!("<td>{}</td>", escape(&row.name)),
        text(Some(&row.shape)),
        figure(row.milliseconds),
        figure(row.floor_milliseconds),
        text(row.bound),
        figure(row.ratio),
        figure(row.rate),
        text(row.unit),
        text(row.bar.as_deref()),
        verdict,
    ];
    format!("<tr>{}</tr>\n", cells.concat())
}
