//! `rigel bench stwo`: proofs on the device beside those of Stwo's SIMD backend.

use super::cases::{Bars, Case};
use super::spans::Dialect;
use super::{Suite, SuiteArguments};
use crate::Failure;
use crate::bench::Size;
use crate::choice::Choice;
use rigel_proofs::stwo::{self, Channel, Fri, Making, Workload};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    suite: SuiteArguments,
    /// Keep the columns' coefficients in addition to their extended values, on both sides. Where there are a thousand
    /// short columns or more, both keep them anyway
    #[arg(long)]
    store_coefficients: bool,
}

/// Measures and prints. Returns whether every case succeeded with the right proof.
pub fn run(arguments: &Arguments, json: bool) -> Result<bool, Failure> {
    let suite = Suite {
        name: "stwo",
        title: "Rigel and Stwo",
        cases: &|size| all(size, arguments.store_coefficients),
        dialect: DIALECT,
        // The first one is a warm-up.
        cpu_runs: 4,
        stream: 0,
    };
    super::run(&suite, &arguments.suite, json)
}

/// Stwo's spans.
pub const DIALECT: Dialect = Dialect { target: "stwo", phase };

/// All cases, at full size or at sizes that take seconds on any machine.
fn all(size: Size, store_coefficients: bool) -> Vec<Case> {
    use Workload::{Blake2s, Plonk, Poseidon2, StateMachine, WideFibonacci, Xor};
    let case = |workload, full, quick, bars| Case {
        choice: Choice::Stwo(stwo::Choice {
            workload,
            log_size: size.pick(full, quick),
            channel: Channel::Blake2s,
            fri: Fri::default(),
        }),
        // Upstream's own benchmark generates the lookup columns outside the prover, on the CPU.
        making: Making { store_coefficients, recorded_lookups: workload == Poseidon2, unmeasured: false },
        bars,
        is_narrow: workload != Blake2s,
    };
    let none = Bars::default();
    let host = |ms, ratio| Bars { host_ms: Some(ms), host_ratio: Some(ratio), ..none };
    vec![
        case(WideFibonacci, 20, 8, host(35.0, 15.0)),
        case(
            WideFibonacci,
            22,
            9,
            Bars { resident_ms: Some(60.0), resident_ratio: Some(50.0), ..host(120.0, 25.0) },
        ),
        case(Poseidon2, 20, 8, Bars { constraints_ratio: Some(20.0), ..host(100.0, 10.0) }),
        case(Plonk, 20, 8, none),
        case(StateMachine, 20, 8, none),
        case(Xor, 18, 8, none),
        case(Blake2s, 10, 4, none),
    ]
}

/// Our phase to which a span's own time belongs, by its name and those around it, outermost first.
fn phase(path: &[&str]) -> &'static str {
    let known = |name: &&str| match *name {
        "Interpolation for commitment" | "Constraints interpolation" => Some("interpolate"),
        "Extension" => Some("evaluate"),
        "Merkle" => Some("merkle tree"),
        "Constraint Extension" => Some("extend for constraints"),
        "Constraint point-wise eval" => Some("constraints"),
        "Evaluate columns out of domain" => Some("evaluate at points"),
        "Compute FRI quotients" => Some("quotients"),
        // FRI's commit phase; Merkle trees inside it count as trees.
        "commit" => Some("fold"),
        "Grind" => Some("proof of work"),
        _ => None,
    };
    path.iter().rev().find_map(known).unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_belongs_to_the_nearest_known_phase() {
        assert_eq!(phase(&["Commitment", "Commitment", "Extension"]), "evaluate");
        assert_eq!(phase(&["prove_ex", "Composition", "Generation", "Constraint point-wise eval"]), "constraints");
        assert_eq!(phase(&["prove_ex", "commit"]), "fold");
        assert_eq!(phase(&["prove_ex", "commit", "Merkle"]), "merkle tree");
        assert_eq!(phase(&["prove_ex", "Composition"]), "other");
    }
}
