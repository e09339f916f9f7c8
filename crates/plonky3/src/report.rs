//! A proof with what it took.

pub use rigel_gpu::{Fallback, Phase, Report};

/// A proof and what it took.
#[derive(Clone, Debug)]
pub struct Proven<P> {
    /// Upstream's proof.
    pub proof: P,
    /// What it took.
    pub report: Report,
}
