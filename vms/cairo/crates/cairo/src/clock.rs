//! Phases of a proof.

use std::cell::RefCell;
use std::time::Instant;

use rigel_gpu::{Phase, Report};

/// The record of a proof's phases.
pub(crate) enum Clock {
    /// The report of the device, which has the device's own phases too.
    Device,
    /// A list of phases by the host's clock.
    Host { began: Instant, phases: RefCell<Vec<Phase>> },
}

impl Clock {
    /// A clock for a proof on the CPU.
    pub(crate) fn host() -> Self {
        Self::Host { began: Instant::now(), phases: RefCell::default() }
    }

    /// Notes a phase that runs on the host.
    pub(crate) fn on_host<R>(&self, name: &'static str, work: impl FnOnce() -> R) -> R {
        match self {
            Self::Device => rigel_stwo::in_phase(name, work),
            Self::Host { began, phases } => {
                let start_ms = began.elapsed().as_secs_f64() * 1e3;
                let result = work();
                let ms = began.elapsed().as_secs_f64() * 1e3 - start_ms;
                phases.borrow_mut().push(Phase::of_host(name, start_ms, ms));
                result
            }
        }
    }

    /// Notes a phase of the backend, unless the backend notes its own.
    pub(crate) fn on_backend<R>(&self, name: &'static str, work: impl FnOnce() -> R) -> R {
        match self {
            Self::Device => work(),
            Self::Host { .. } => self.on_host(name, work),
        }
    }

    /// The report of a proof on the CPU.
    pub(crate) fn report(self) -> Report {
        match self {
            Self::Device => Report::default(),
            Self::Host { began, phases } => {
                let total_ms = began.elapsed().as_secs_f64() * 1e3;
                Report { device: "cpu".into(), total_ms, phases: phases.into_inner(), ..Report::default() }
            }
        }
    }
}
