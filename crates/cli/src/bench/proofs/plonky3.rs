//! `rigel bench plonky3`: proofs on the device beside Plonky3's on the CPU.

use super::cases::{Bars, Case};
use super::spans::Dialect;
use super::{Suite, SuiteArguments};
use crate::Failure;
use crate::bench::Size;
use crate::choice::Choice;
use rigel_proofs::stwo::Making;
use rigel_workloads::{Field, Fri, Hash, Workload};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    suite: SuiteArguments,
    /// Also make N proofs in a row, one and two at a time
    #[arg(long, value_name = "N", default_value_t = 0)]
    stream: usize,
}

/// Measures and prints. Returns whether every case succeeded with the right proof.
pub fn run(arguments: &Arguments, json: bool) -> Result<bool, Failure> {
    let suite = Suite {
        name: "plonky3",
        title: "Rigel and Plonky3",
        cases: &all,
        dialect: DIALECT,
        cpu_runs: 2,
        stream: arguments.stream,
    };
    super::run(&suite, &arguments.suite, json)
}

/// Plonky3's spans.
pub const DIALECT: Dialect = Dialect { target: "p3_", phase };

/// The most bytes that are copied back, as a multiple of the proof's.
const DOWN_OVER_PROOF: f64 = 4.0;

/// All cases, at full size or at sizes that take seconds on any machine.
fn all(size: Size) -> Vec<Case> {
    use Field::{Goldilocks, KoalaBear};
    let with = |workload, full, quick, field, bars, fri| Case {
        choice: Choice::Plonky3(rigel_workloads::Choice {
            workload,
            log_rows: size.pick(full, quick),
            field,
            hash: Hash::Keccak,
            fri,
        }),
        making: Making::default(),
        bars: Bars { down_over_proof: Some(DOWN_OVER_PROOF), ..bars },
        is_narrow: matches!(workload, Workload::Fibonacci | Workload::Lookups),
    };
    let case = |workload, full, quick, field, bars| with(workload, full, quick, field, bars, Fri::default());
    let none = Bars::default();
    let bars = |host: [f64; 2], resident: [f64; 2]| Bars {
        host_ms: Some(host[0]),
        host_ratio: Some(host[1]),
        resident_ms: Some(resident[0]),
        resident_ratio: Some(resident[1]),
        ..none
    };
    let mut cases = vec![
        case(Workload::Keccak, 17, 6, KoalaBear, bars([100.0, 11.0], [45.0, 25.0])),
        case(Workload::Keccak, 17, 6, Goldilocks, bars([190.0, 12.0], [90.0, 25.0])),
        case(Workload::Poseidon2, 18, 6, KoalaBear, bars([85.0, 12.0], [40.0, 25.0])),
        case(Workload::Lookups, 20, 10, KoalaBear, Bars { host_ratio: Some(12.0), ..none }),
        case(Workload::Fibonacci, 10, 10, KoalaBear, Bars { host_ms: Some(5.0), ..none }),
    ];
    // The trace hidden, to be read beside the same without.
    let hidden = Fri { zk: true, ..Fri::default() };
    cases.extend([
        with(Workload::Keccak, 17, 8, KoalaBear, none, hidden),
        with(Workload::Fibonacci, 10, 10, KoalaBear, none, hidden),
    ]);
    if size == Size::Full {
        // Few rows: a wide table, and eight tables of 2^8 to 2^12 rows.
        cases.extend([
            case(Workload::Keccak, 12, 6, KoalaBear, none),
            case(Workload::Lookups, 12, 10, KoalaBear, none),
        ]);
    }
    cases
}

/// Our phase to which a span's own time belongs, by its name and those around it, outermost first.
fn phase(path: &[&str]) -> &'static str {
    if path.contains(&"commit phase") {
        return "fold";
    }
    if path.contains(&"query phase") {
        return "query";
    }
    let known = |name: &&str| match *name {
        "build merkle tree" | "first digest layer" => Some("hash"),
        "generate lookup permutation" => Some("lookups"),
        "quotient_values" | "compute quotient" | "compute quotient polynomial" => Some("constraints"),
        // A batch evaluates its tables' constraints on the pool's threads while this thread waits in its own span.
        "prove_batch" => Some("constraints"),
        "check constraints" | "infer log of constraint degree" => Some("other"),
        "compute_inverse_denominators" => Some("denominators"),
        "compute opened values with Lagrange interpolation" | "evaluate matrix" | "open" => Some("open"),
        "reduce matrix quotient" | "compress mat" => Some("reduce"),
        "FRI prover" => Some("fold"),
        "commit to trace data" | "commit to quotient poly chunks" => Some("extend"),
        name if name.starts_with("grind") => Some("proof of work"),
        name if name.contains("lde") || name.contains("dft") => Some("extend"),
        _ => None,
    };
    path.iter().rev().find_map(known).unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_belongs_to_the_nearest_known_phase() {
        assert_eq!(phase(&["prove", "commit to trace data"]), "extend");
        assert_eq!(phase(&["prove", "commit to trace data", "build merkle tree", "first digest layer"]), "hash");
        assert_eq!(phase(&["prove", "open", "FRI prover", "commit phase", "build merkle tree"]), "fold");
        assert_eq!(phase(&["prove"]), "other");
    }
}
