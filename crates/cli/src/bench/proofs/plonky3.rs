//! What is measured, and what it should reach.

use crate::bench::measure::Size;
use rigel_workloads::{Choice, Field, Fri, Hash, Workload};

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
}

/// At most this many times the bytes of all extended columns in use at once.
pub const PEAK_OVER_EXTENDED: f64 = 2.5;
/// At most this many times the proof's bytes come back.
pub const DOWN_OVER_PROOF: f64 = 4.0;

/// A proof to measure.
#[derive(Clone, Copy)]
pub struct Case {
    pub choice: Choice,
    pub bars: Bars,
}

impl Case {
    pub fn name(&self) -> String {
        self.choice.to_string()
    }

    /// Whether the AIR has few enough columns for a host's compiler to be done with its kernels soon.
    pub fn is_narrow(&self) -> bool {
        matches!(self.choice.workload, Workload::Fibonacci | Workload::Lookups)
    }
}

/// All cases, at full size or at sizes that any machine has done in seconds.
pub fn all(size: Size) -> Vec<Case> {
    use Field::{Goldilocks, KoalaBear};
    let case = |workload, full, quick, field, bars| Case {
        choice: Choice {
            workload,
            log_rows: size.pick(full, quick),
            field,
            hash: Hash::Keccak,
            fri: Fri::default(),
        },
        bars,
    };
    let bars = |host: [f64; 2], resident: [f64; 2]| Bars {
        host_ms: Some(host[0]),
        host_ratio: Some(host[1]),
        resident_ms: Some(resident[0]),
        resident_ratio: Some(resident[1]),
    };
    let none = Bars::default();
    vec![
        case(Workload::Keccak, 17, 6, KoalaBear, bars([100.0, 11.0], [45.0, 25.0])),
        case(Workload::Keccak, 17, 6, Goldilocks, bars([190.0, 12.0], [90.0, 25.0])),
        case(Workload::Poseidon2, 18, 6, KoalaBear, bars([85.0, 12.0], [40.0, 25.0])),
        case(Workload::Lookups, 20, 10, KoalaBear, Bars { host_ratio: Some(12.0), ..none }),
        case(Workload::Fibonacci, 10, 10, KoalaBear, Bars { host_ms: Some(5.0), ..none }),
    ]
}
