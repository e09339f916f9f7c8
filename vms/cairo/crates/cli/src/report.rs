//! The cost of a proof, as text and as JSON.

use std::fmt::Write;
use std::path::Path;

use rigel_cairo::{MemoryPlan, ProverParameters, Statement, security_bits, variant_name};
use rigel_gpu::{Bytes, Report};
use rigel_terminal::{Align, Columns, Paint, number};
use serde::Serialize;

/// The summary of one proof.
#[derive(Serialize)]
pub struct Summary<'a> {
    /// The program's name.
    pub program: &'a str,
    /// The number of steps of the program's run.
    pub steps: Option<usize>,
    pub parameters: &'a ProverParameters,
    #[serde(flatten)]
    pub statement: &'a Statement,
    /// The device's own name.
    pub device_name: Option<String>,
    /// The time from the program's file to the proof, with the prover's preparation, in milliseconds.
    pub file_to_proof_ms: f64,
    /// Times before the proof, in milliseconds: the run of the program, the adapter, the prover's preparation.
    pub before: &'a [(&'static str, f64)],
    /// Kernel modules that were not in the cache.
    pub kernels_compiled: u64,
    pub proof_bytes: usize,
    pub report: &'a Report,
    /// The device memory that the proof was expected to need.
    pub plan: Option<&'a MemoryPlan>,
    pub file: Option<&'a Path>,
}

impl Summary<'_> {
    pub fn to_text(&self) -> String {
        let Self { program, report, parameters, .. } = self;
        let mut out = Paint::Bold.on(program);
        if let Some(steps) = self.steps {
            let _ = write!(out, ", {} steps", number(steps as f64));
        }
        let _ = writeln!(out, ", {}", variant_name(parameters.preprocessed_trace));
        let device = match &self.device_name {
            Some(name) => format!("{} ({name})", report.device),
            None => "the CPU (upstream's SimdBackend)".to_string(),
        };
        let _ = writeln!(out, "  proved on {device} in {} ms\n", number(report.total_ms));
        out.push_str(&phases(report));
        out.push_str(&self.figures());
        for fallback in &report.fallbacks {
            let text = format!("{} ran on the {}: {}", fallback.part, fallback.ran_on, fallback.reason);
            let _ = writeln!(out, "  {}", Paint::Bad.on(&text));
        }
        if let Some(file) = self.file {
            let file = file.display();
            let _ = writeln!(out, "\nwritten to {file}; check it with: rigel cairo verify {file}");
        }
        out
    }

    fn figures(&self) -> String {
        let report = self.report;
        let bytes = |bytes: usize| Bytes(bytes).to_string();
        let mut columns = Columns::new(&[Align::Left, Align::Left]);
        for (name, ms) in self.before {
            columns.row(Paint::Plain, [name, &*format!("{} ms", number(*ms))]);
        }
        let whole = format!("{} ms", number(self.file_to_proof_ms));
        columns.row(Paint::Plain, ["file to proof", &whole]);
        columns.row(Paint::Plain, ["proof", &bytes(self.proof_bytes)]);
        columns.row(Paint::Plain, ["security", &format!("{} bits", security_bits(&self.parameters.pcs_config))]);
        columns.row(Paint::Plain, ["program hash", &self.statement.program_hash]);
        columns.row(Paint::Plain, ["output", &output(self.statement)]);
        if self.device_name.is_some() {
            let compiled = match self.kernels_compiled {
                0 => "none, all were in the cache".to_string(),
                n => format!("{n} modules, not in the cache before"),
            };
            let traffic = format!("{} / {}", bytes(report.bytes_up as usize), bytes(report.bytes_down as usize));
            columns.row(Paint::Plain, ["bytes up / down", &traffic]);
            let resident = self.plan.map_or(0, |plan| plan.resident);
            let peak =
                format!("{}, {} of it for all proofs", bytes(resident + report.peak_bytes), bytes(resident));
            columns.row(Paint::Plain, ["peak device memory", &peak]);
            columns.row(Paint::Plain, ["kernel launches", &report.launches.to_string()]);
            columns.row(Paint::Plain, ["copies back", &report.downloads.to_string()]);
            columns.row(Paint::Plain, ["kernels compiled", &compiled]);
            if report.interpreted > 0 {
                let interpreted =
                    format!("{} programs; with their kernels, later proofs are faster", report.interpreted);
                columns.row(Paint::Plain, ["interpreted", &interpreted]);
            }
        }
        columns.to_text("  ")
    }
}

/// A plan of device memory in a line.
pub fn plan_line(plan: &MemoryPlan) -> String {
    let bytes = |bytes: usize| Bytes(bytes).to_string();
    format!(
        "device memory: {} at most: {} for all proofs, {} trace, {} lookups, {} trees and polynomials",
        bytes(plan.total()),
        bytes(plan.resident),
        bytes(plan.trace),
        bytes(plan.lookups),
        bytes(plan.commitments)
    )
}

/// The phases, and what is between them.
pub fn phases(report: &Report) -> String {
    rigel_terminal::phases(report.by_phase(), report.total_ms)
}

/// The values of a program's output, the first of them if there are many.
pub fn output(statement: &Statement) -> String {
    const SHOWN: usize = 8;
    let values = &statement.output;
    let shown = values.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match values.len() {
        0 => "none".into(),
        n if n > SHOWN => format!("{shown}, and {} more", n - SHOWN),
        _ => shown,
    }
}
