//! The report as text.

use rigel_gpu::{Bytes, Modelled};

use super::many::{Many, On};
use super::{LINKS, Model, Report, Row};
use crate::terminal::Align::{Left, Right};
use crate::terminal::{Columns, Paint, number};

pub fn text(report: &Report) -> String {
    let mut out = format!("{}: {}\n\n", Paint::Bold.on(&report.device.name), report.device);
    if !report.rows.is_empty() {
        out.push_str(&times(&report.rows, report.device.device.starts_with("cuda")));
    }
    for row in &report.rows {
        if let Some(model) = &row.model {
            out.push_str(&phases(row, model));
        }
    }
    for many in &report.many {
        out.push_str(&rates(many));
    }
    out
}

/// Milliseconds, and how many times as fast as one device.
fn against(one_ms: f64, ms: f64) -> String {
    format!("{} ({:.2}x)", number(ms), one_ms / ms)
}

fn times(rows: &[Row], on_gpu: bool) -> String {
    let modelled = rows.iter().any(|row| row.model.is_some());
    let mut columns = Columns::new(&[Left, Right, Right, Right, Right, Right, Right, Right, Right]);
    let links = LINKS.map(|links| format!("{} ms", links.name));
    let heads = ["case", "devices", "one ms", "openings ms", "memory"].map(String::from);
    let models = if modelled { links.to_vec() } else { Vec::new() };
    columns.row(Paint::Dim, heads.into_iter().chain(models).chain(["GPUs ms".to_string()]));
    for row in rows {
        let optional = |ms: Option<f64>| ms.map(|ms| against(row.one_ms, ms)).unwrap_or_default();
        let first = [
            row.case.clone(),
            row.devices.to_string(),
            number(row.one_ms),
            optional(row.opened_ms),
            row.memory_over_one.map(|ratio| format!("{ratio:.2} of one")).unwrap_or_default(),
        ];
        let model = |(_, modelled): &(_, Modelled)| against(row.one_ms, modelled.total_ms);
        let models: Vec<String> = row.model.iter().flat_map(|it| &it.on).map(model).collect();
        columns.row(Paint::Plain, first.into_iter().chain(models).chain([optional(row.measured_ms)]));
    }
    let mut out = columns.to_text("");
    out.push_str("openings: all devices are one GPU, or this host; GPUs: measured on as many\n");
    if on_gpu {
        out.push_str(
            "openings of one GPU take turns on it, unless NVIDIA's MPS runs (nvidia-cuda-mps-control -d)\n",
        );
    }
    if modelled {
        out.push_str("under the links' names: the time on as many GPUs, from each device's work alone\n");
    }
    out
}

/// The table of the phases' times on one device, on each of several alone, and by the model.
fn phases(row: &Row, model: &Model) -> String {
    let mut columns = Columns::new(&[Left, Right, Right, Right, Right, Right, Right]);
    let heads = ["phase", "one ms", "longest alone ms", "shortest alone ms"].map(String::from);
    columns.row(Paint::Dim, heads.into_iter().chain(LINKS.map(|links| format!("{} ms", links.name))));
    let mut names: Vec<&str> = model.phases.iter().map(|phase| phase.0).collect();
    for (_, modelled) in &model.on {
        let more = modelled.phases.iter().map(|phase| phase.0).filter(|name| !names.contains(name));
        let more: Vec<&str> = more.collect();
        names.extend(more);
    }
    for name in names {
        let alone = model.phases.iter().find(|phase| phase.0 == name);
        let optional = |ms: Option<f64>| ms.map(number).unwrap_or_default();
        let longest = alone.map(|phase| phase.2.iter().copied().fold(0.0, f64::max));
        let shortest = alone.map(|phase| phase.2.iter().copied().fold(f64::INFINITY, f64::min));
        let first =
            [name.to_string(), optional(alone.and_then(|phase| phase.1)), optional(longest), optional(shortest)];
        let modelled = model.on.iter().map(|(_, modelled)| {
            optional(modelled.phases.iter().find(|phase| phase.0 == name).map(|phase| phase.1))
        });
        columns.row(Paint::Plain, first.into_iter().chain(modelled));
    }
    format!(
        "\n{} on {} devices: {} between them in {} copies\n{}",
        row.case,
        row.devices,
        Bytes(model.bytes_sent as usize),
        model.copies,
        columns.to_text("  ")
    )
}

fn rates(many: &Many) -> String {
    let mut out = format!("\n{}\n", many.case);
    for (threads, rate, core_seconds) in &many.rates {
        let core_ms = 1e3 * core_seconds;
        out.push_str(&format!(
            "  one device, {threads} at a time: {} a second, {} ms of a core each\n",
            number(*rate),
            number(core_ms)
        ));
    }
    let (one, _) = many.best();
    for On { devices, modelled, cores, measured } in &many.on {
        out.push_str(&format!(
            "  {devices} devices, model: {} a second, {:.2}x, with the {} cores of this host; all devices are busy \
             from {cores:.0} cores on{}\n",
            number(*modelled),
            modelled / one,
            many.cores,
            measured.map(|rate| format!("; measured {} a second", number(rate))).unwrap_or_default()
        ));
    }
    out
}
