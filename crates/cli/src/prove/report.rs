//! The cost of a proof, as text and as JSON.

use std::fmt::Write;
use std::path::Path;

use rigel_gpu::{Bytes, Report};
use rigel_proofs::verdict::{MEMORY, limit_for, memory_of};
use serde::Serialize;

use crate::proof_file::Header;
use crate::terminal::{Align, Columns, Paint, number, phases, wrap};
use rigel_statements::TableShape;

/// The summary of one proof.
#[derive(Serialize)]
pub struct Summary<'a> {
    #[serde(flatten)]
    pub header: &'a Header,
    pub tables: Vec<TableShape>,
    /// The device's own name.
    pub device_name: Option<String>,
    /// The time to generate the witness.
    pub trace_milliseconds: f64,
    /// The time to create the prover, including compilation.
    pub prepare_milliseconds: f64,
    /// Kernel modules that were not in the cache.
    pub kernels_compiled: u64,
    pub proof_bytes: usize,
    /// The bytes of all columns that were extended and committed to.
    pub extended_bytes: usize,
    pub report: &'a Report,
    pub file: Option<&'a Path>,
}

impl Summary<'_> {
    pub fn to_text(&self) -> String {
        let Self { header, report, .. } = self;
        let mut out = format!("{}\n", Paint::Bold.on(&header.choice.to_string()));
        let shape = |shape: &TableShape| format!("2^{} x {}", shape.log_rows, shape.columns);
        let tables: Vec<String> = self.tables.iter().map(shape).collect();
        for line in wrap(&format!("tables: {}", tables.join(", ")), 100) {
            let _ = writeln!(out, "  {line}");
        }
        let _ = writeln!(out, "  proved on {} in {} ms\n", self.place(), number(report.total_ms));
        out.push_str(&self.phases());
        out.push_str(&self.figures());
        for fallback in report.fallbacks.iter().filter(|_| self.device_name.is_some()) {
            let text = format!("{} ran on the {}: {}", fallback.part, fallback.ran_on, fallback.reason);
            let _ = writeln!(out, "  {}", Paint::Bad.on(&text));
        }
        if let Some(file) = self.file {
            let check = verification(file, header, self.proof_bytes);
            let _ = writeln!(out, "\nwritten to {}; check it with: {check}", file.display());
        }
        out
    }

    /// The device that made the proof, in words.
    pub fn place(&self) -> String {
        match self.device_name.as_ref().filter(|_| self.report.device != "cpu") {
            Some(name) => format!("{} ({name})", self.report.device),
            None => "the CPU (upstream's prover)".to_string(),
        }
    }

    fn phases(&self) -> String {
        let by_phase = self.report.by_phase();
        if by_phase.is_empty() {
            return String::new();
        }
        phases(by_phase, self.report.total_ms)
    }

    fn figures(&self) -> String {
        let report = self.report;
        let bytes = |bytes: usize| Bytes(bytes).to_string();
        let mut columns = Columns::new(&[Align::Left, Align::Left]);
        columns.row(Paint::Plain, ["proof", &bytes(self.proof_bytes)]);
        columns.row(Paint::Plain, ["trace made in", &format!("{} ms", number(self.trace_milliseconds))]);
        if !report.phases.is_empty() {
            let compiled = match self.kernels_compiled {
                0 => "none, all were in the cache".to_string(),
                n => format!("{n} modules, not in the cache before"),
            };
            let peak = format!(
                "{}, {} x the extended columns",
                bytes(report.peak_bytes),
                number(report.peak_bytes as f64 / self.extended_bytes as f64)
            );
            let traffic = format!("{} / {}", bytes(report.bytes_up as usize), bytes(report.bytes_down as usize));
            columns.row(Paint::Plain, ["bytes up / down", &traffic]);
            columns.row(Paint::Plain, ["peak device memory", &peak]);
            for share in &report.devices {
                let (sent, peak) = (bytes(share.bytes_sent as usize), bytes(share.peak_bytes));
                columns.row(Paint::Plain, [&share.device, &format!("{sent} sent to others, at most {peak}")]);
            }
            let launches = format!("{} in {} submissions", report.launches, report.submissions);
            columns.row(Paint::Plain, ["kernel launches", &launches]);
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

/// The command that verifies a file, with the memory that it has to allow.
pub fn verification(file: &Path, header: &Header, proof_bytes: usize) -> String {
    let needed = memory_of(&header.choice, proof_bytes);
    let more = if needed > MEMORY { format!(" --memory-limit {}", limit_for(needed)) } else { String::new() };
    format!("rigel verify {}{more}", file.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::{Choice, Workload};

    #[test]
    fn a_file_that_takes_more_memory_is_verified_with_more() {
        let Choice::Stwo(plonk) = Workload::Plonk.usual(None).unwrap() else { unreachable!("it is Stwo's") };
        let command = |log_size| {
            let header = Header::new(Choice::Stwo(rigel_proofs::stwo::Choice { log_size, ..plonk }), vec![]);
            verification(Path::new("proof.bin"), &header, 1 << 18)
        };
        assert_eq!(command(17), "rigel verify proof.bin");
        assert_eq!(command(18), "rigel verify proof.bin --memory-limit 94MiB");
    }
}
