//! A proof with its report.

pub use rigel_gpu::{DeviceShare, Fallback, Phase, Report};

/// A proof and its report.
#[derive(Clone, Debug)]
pub struct Proven<P> {
    /// Upstream's proof.
    pub proof: P,
    /// Time, memory, transfers and fallbacks.
    pub report: Report,
}
