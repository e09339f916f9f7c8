//! A proof to measure, and its bars.

use crate::choice::Choice;
use rigel_proofs::stwo::Making;
use rigel_statements::Statement;

/// The bars of a case on an H200 with 16 CPU cores; `None` where a figure has no bar.
#[derive(Clone, Copy, Default)]
pub struct Bars {
    /// The most milliseconds from a trace on the host.
    pub host_ms: Option<f64>,
    /// The least speedup over upstream, from a trace on the host.
    pub host_ratio: Option<f64>,
    /// The most milliseconds from a trace on the device.
    pub resident_ms: Option<f64>,
    /// The least speedup over upstream, from a trace on the device.
    pub resident_ratio: Option<f64>,
    /// The least speedup over upstream in evaluating the constraints.
    pub constraints_ratio: Option<f64>,
    /// The most bytes that are copied back, as a multiple of the proof's.
    pub down_over_proof: Option<f64>,
}

/// Peak device memory is at most this many times the bytes of all extended columns.
pub const PEAK_OVER_EXTENDED: f64 = 2.5;

/// A proof to measure.
#[derive(Clone, Copy)]
pub struct Case {
    pub choice: Choice,
    /// The options of Stwo's proofs.
    pub making: Making,
    pub bars: Bars,
    /// Whether the AIR is small enough for the host's compiler to compile its kernels quickly.
    pub is_narrow: bool,
}

impl Case {
    /// The name that identifies it in its suite.
    pub fn name(&self) -> String {
        match &self.choice {
            Choice::Plonky3(choice) => choice.to_string(),
            Choice::Stwo(choice) => format!("{} 2^{}", choice.workload, choice.log_size),
        }
    }

    pub fn statement(&self) -> Result<Box<dyn Statement>, String> {
        match &self.choice {
            Choice::Plonky3(choice) => choice.statement(),
            Choice::Stwo(choice) => choice.statement(self.making),
        }
    }
}
