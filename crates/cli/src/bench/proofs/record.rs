//! The measurements, as serialized to JSON.

use rigel_gpu::Report as ProofReport;
use serde::Serialize;

use super::spans::Segment;
use crate::bench::device::DeviceDescription;
use crate::choice::Choice;
use rigel_statements::TableShape;

/// The version of the format, incremented when a field changes its meaning or is removed.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
pub struct Document {
    pub schema: u32,
    /// Rigel's version.
    pub rigel: &'static str,
    pub suite: &'static str,
    pub reports: Vec<Report>,
}

impl Document {
    pub fn new(suite: &'static str, reports: Vec<Report>) -> Self {
        Self { schema: SCHEMA, rigel: env!("CARGO_PKG_VERSION"), suite, reports }
    }

    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("the report holds strings and finite numbers");
        text.push('\n');
        text
    }
}

/// The measurements on one device.
#[derive(Serialize)]
pub struct Report {
    pub device: DeviceDescription,
    /// `full` or `quick`.
    pub size: &'static str,
    /// The number of proofs per median.
    pub repeat: usize,
    /// The number of threads of upstream's prover.
    pub cpu_threads: usize,
    pub rows: Vec<Row>,
}

/// One case.
#[derive(Serialize)]
pub struct Row {
    pub name: String,
    pub choice: Choice,
    pub tables: Vec<TableShape>,
    pub figures: Option<Figures>,
    pub bars: Vec<Bar>,
    /// The error, if the case failed.
    pub error: Option<String>,
}

#[derive(Serialize)]
pub struct Figures {
    /// The time to generate the trace.
    pub trace_milliseconds: f64,
    /// The time to create the prover and its first proof, including compilation.
    pub first_milliseconds: f64,
    /// Kernel modules that were not in the cache.
    pub kernels_compiled: u64,
    /// The times from the trace on the host; judged by the median.
    pub host: Times,
    /// The times from the trace on the device; judged by the median.
    pub resident: Times,
    /// Upstream on the CPU; judged by the best.
    pub upstream: Option<Times>,
    pub proof_bytes: usize,
    /// The bytes of all columns that were extended and committed to.
    pub extended_bytes: usize,
    /// The parts that were compared with upstream.
    pub check: &'static str,
    /// Whether all bytes were compared and are equal.
    pub equal_bytes: bool,
    /// The report of the median proof from the host.
    pub report: ProofReport,
    pub phases: Vec<PhasePair>,
    /// Upstream's phases in the order of time, in its best run.
    pub upstream_timeline: Vec<Segment>,
    pub stream: Option<Throughput>,
}

impl Figures {
    pub fn host_ratio(&self) -> Option<f64> {
        self.upstream.as_ref().map(|upstream| upstream.best() / self.host.median())
    }

    pub fn resident_ratio(&self) -> Option<f64> {
        self.upstream.as_ref().map(|upstream| upstream.best() / self.resident.median())
    }

    /// The speedup of constraint evaluation over upstream.
    pub fn constraints_ratio(&self) -> Option<f64> {
        let pair = self.phases.iter().find(|pair| pair.name == "constraints")?;
        Some(pair.upstream_milliseconds? / pair.milliseconds?)
    }

    pub fn peak_over_extended(&self) -> f64 {
        self.report.peak_bytes as f64 / self.extended_bytes as f64
    }

    pub fn down_over_proof(&self) -> f64 {
        self.report.bytes_down as f64 / self.proof_bytes as f64
    }
}

/// Milliseconds, in ascending order.
#[derive(Clone, Debug, Serialize)]
pub struct Times {
    pub milliseconds: Vec<f64>,
}

impl Times {
    pub fn new(mut milliseconds: Vec<f64>) -> Self {
        milliseconds.sort_by(f64::total_cmp);
        Self { milliseconds }
    }

    /// The lower of two middle values.
    pub fn median(&self) -> f64 {
        self.milliseconds[(self.milliseconds.len() - 1) / 2]
    }

    pub fn best(&self) -> f64 {
        self.milliseconds[0]
    }
}

/// The time of a phase on both sides.
#[derive(Clone, Debug, Serialize)]
pub struct PhasePair {
    pub name: &'static str,
    pub milliseconds: Option<f64>,
    pub upstream_milliseconds: Option<f64>,
}

/// Many proofs in a row.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Throughput {
    pub proofs: usize,
    /// One after the other.
    pub alone_per_second: f64,
    /// Two at a time.
    pub paired_per_second: f64,
}

impl Throughput {
    pub fn gain(&self) -> f64 {
        self.paired_per_second / self.alone_per_second
    }
}

/// The target for a figure.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

#[derive(Clone, Debug, Serialize)]
pub struct Bar {
    pub figure: &'static str,
    pub value: Option<f64>,
    pub bound: Bound,
    /// Whether it is met; `None` if it was not measured, or does not apply to this device or size.
    pub pass: Option<bool>,
}

impl Bar {
    pub fn new(figure: &'static str, value: Option<f64>, bound: Bound, judged: bool) -> Self {
        let met = |value: f64| match bound {
            Bound::AtMost(most) => value <= most,
            Bound::AtLeast(least) => value >= least,
        };
        Self { figure, value, bound, pass: value.filter(|_| judged).map(met) }
    }

    pub fn words(&self) -> String {
        match self.bound {
            Bound::AtMost(most) => format!("≤ {most}"),
            Bound::AtLeast(least) => format!("≥ {least}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_judged_at_their_edge() {
        let judge = |value, bound| Bar::new("", value, bound, true).pass;
        assert_eq!(judge(Some(2.0), Bound::AtMost(2.0)), Some(true));
        assert_eq!(judge(Some(2.1), Bound::AtMost(2.0)), Some(false));
        assert_eq!(judge(Some(1.9), Bound::AtLeast(2.0)), Some(false));
        assert_eq!(judge(None, Bound::AtLeast(2.0)), None);
        assert_eq!(Bar::new("", Some(1.0), Bound::AtMost(2.0), false).pass, None);
    }

    #[test]
    fn times_are_sorted() {
        let times = Times::new(vec![3.0, 1.0, 2.0]);
        assert_eq!((times.best(), times.median()), (1.0, 2.0));
    }
}
