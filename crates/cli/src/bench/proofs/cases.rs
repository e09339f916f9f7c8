//! A proof to measure, and what it should reach.

use crate::choice::Choice;
use crate::stwo::Making;
use rigel_workloads::Statement;

/// What a case should reach on an H200 with 16 cores beside it; nothing where a figure has no bar.
#[derive(Clone, Copy, Default)]
pub struct Bars {
    /// At most this many milliseconds from a trace on the host.
    pub host_ms: Option<f64>,
    /// At least this many times as fast as upstream from there.
    pub host_ratio: Option<f64>,
    /// At most this many milliseconds from a trace on the device.
    pub resident_ms: Option<f64>,
    /// At least this many times as fast as upstream from there.
    pub resident_ratio: Option<f64>,
    /// At least this many times as fast as upstream in the evaluation of constraints alone.
    pub constraints_ratio: Option<f64>,
    /// At most this many times the proof's bytes come back.
    pub down_over_proof: Option<f64>,
}

/// At most this many times the bytes of all extended columns in use at once.
pub const PEAK_OVER_EXTENDED: f64 = 2.5;

/// A proof to measure.
#[derive(Clone, Copy)]
pub struct Case {
    pub choice: Choice,
    /// How Stwo's proofs are made.
    pub making: Making,
    pub bars: Bars,
    /// Whether the AIR is small enough for a host's compiler to be done with its kernels soon.
    pub is_narrow: bool,
}

impl Case {
    /// What tells it from the others of its suite.
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
