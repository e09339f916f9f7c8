//! The report as a self-contained page.

use std::fmt::Write;

use super::json::{Document, Report};
use super::measure::Row;
use super::roofline;
use crate::page::{document_of, escape};
use crate::terminal::number;

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
    if let Some(svg) = roofline::svg(&device.name, ceilings, &report.rows) {
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
