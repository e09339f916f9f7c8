//! The report as text.

use super::json::Report;
use super::measure::Row;
use crate::terminal::{Align, Columns, Paint, number};

/// The device and its ceilings, which precede the rows.
pub fn heading(report: &Report) -> String {
    let ceilings = &report.ceilings;
    let mut columns = Columns::new(&[Align::Left, Align::Right, Align::Left]);
    columns.row(Paint::Plain, ["device copy, read + write", &number(ceilings.copy_gigabytes_per_second), "GB/s"]);
    let rate = |per_second: f64| number(per_second / 1e9);
    columns.row(Paint::Plain, ["logic and shifts, 32-bit", &rate(ceilings.logic_per_second), "G instructions/s"]);
    columns.row(Paint::Plain, ["multiply-add, 32-bit", &rate(ceilings.multiply_per_second), "G instructions/s"]);
    let (name, device) = (Paint::Bold.on(&report.device.name), &report.device);
    format!("{name}: {device}\n\nCeilings, measured\n{}", columns.to_text("  "))
}

/// One line per row, then the errors and the number of bars met.
pub fn rows(report: &Report) -> String {
    use Align::{Left, Right};
    let mut columns = Columns::new(&[Left, Left, Right, Right, Left, Right, Right, Left, Left, Left]);
    columns
        .row(Paint::Dim, ["operation", "shape", "ms", "floor ms", "bound", "x floor", "rate", "unit", "bar", ""]);
    for row in &report.rows {
        columns.painted_row(cells(row));
    }
    let mut out = columns.to_text("");
    for row in &report.rows {
        if let Some(error) = &row.error {
            // A compiler's log can be long; the JSON has all of it.
            let first: Vec<&str> = error.lines().take(4).collect();
            out.push_str(&format!("{}: {}\n", Paint::Bad.on(&row.name), first.join("\n  ")));
        }
    }
    let judged = report.rows.iter().filter_map(|row| row.pass);
    let (met, missed) =
        judged.fold((0, 0), |(met, missed), pass| (met + u32::from(pass), missed + u32::from(!pass)));
    if met + missed > 0 {
        out.push_str(&format!("\n{met} of {} bars met\n", met + missed));
    } else if report.rows.iter().any(|row| row.bar.is_some()) {
        out.push_str("\nBars are for a GPU at full size; none was judged here.\n");
    }
    out
}

fn cells(row: &Row) -> [(String, Paint); 10] {
    let figure = |value: Option<f64>| (value.map(number).unwrap_or_default(), Paint::Plain);
    let text = |value: Option<&str>| (value.unwrap_or_default().to_string(), Paint::Plain);
    [
        text(Some(&row.name)),
        text(Some(&row.shape)),
        figure(row.milliseconds),
        figure(row.floor_milliseconds),
        text(row.bound),
        figure(row.ratio),
        figure(row.rate),
        text(row.unit),
        text(row.bar.as_deref()),
        match (row.pass, &row.error) {
            (_, Some(_)) => ("FAILED".to_string(), Paint::Bad),
            (Some(true), None) => ("PASS".to_string(), Paint::Good),
            (Some(false), None) => ("MISS".to_string(), Paint::Bad),
            (None, None) => (String::new(), Paint::Plain),
        },
    ]
}
