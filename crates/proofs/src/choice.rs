//! The workload to prove, and the prover.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::stwo;
use rigel_statements::{Security, Statement};
use rigel_workloads::{Field, Fri, Hash, Workload as Plonky3Workload};

/// Upstream's provers that have a device implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Prover {
    /// Plonky3's, over KoalaBear, BabyBear and Goldilocks
    Plonky3,
    /// Stwo's, over Mersenne31
    Stwo,
}

impl Prover {
    /// The prover's name as upstream spells it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Plonky3 => "Plonky3",
            Self::Stwo => "Stwo",
        }
    }

    /// The prover of this name; an error lists the names.
    pub fn named(name: &str) -> Result<Self, String> {
        named("prover", name)
    }

    /// The names of its workloads.
    pub fn workloads(self) -> Vec<&'static str> {
        let named = Workload::value_variants().iter().filter(|workload| workload.provers().contains(&self));
        named.map(|workload| workload.name()).collect()
    }
}

/// The names of all workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Plonky3: Keccak-f permutations, 24 rows each
    Keccak,
    /// Both: Poseidon2 permutations, 8 per row; with Plonky3 unless --prover stwo
    #[value(name = "poseidon2")]
    Poseidon2,
    /// Plonky3: Blake3 compressions, one per row
    #[value(name = "blake3")]
    Blake3,
    /// Plonky3: Fibonacci numbers, with public values
    Fibonacci,
    /// Plonky3: eight tables connected by 20 lookups
    Lookups,
    /// Stwo: sequences of sums of squares, 100 columns
    WideFibonacci,
    /// Stwo: a circuit of additions and multiplications
    Plonk,
    /// Stwo: steps in a plane, with two components
    StateMachine,
    /// Stwo: XORs and sums by table lookups
    Xor,
    /// Stwo: a chain of Blake2s compressions, with twelve components
    #[value(name = "blake2s")]
    Blake2s,
}

impl Workload {
    fn name(self) -> &'static str {
        match self {
            Self::Keccak => "keccak",
            Self::Poseidon2 => "poseidon2",
            Self::Blake3 => "blake3",
            Self::Fibonacci => "fibonacci",
            Self::Lookups => "lookups",
            Self::WideFibonacci => "wide-fibonacci",
            Self::Plonk => "plonk",
            Self::StateMachine => "state-machine",
            Self::Xor => "xor",
            Self::Blake2s => "blake2s",
        }
    }

    /// The workload of this name; an error lists the names.
    pub fn named(name: &str) -> Result<Self, String> {
        named("workload", name)
    }

    /// The statement with the default size and parameters, of the requested prover if it has a workload of this name.
    pub fn usual(self, asked: Option<Prover>) -> Result<Choice, String> {
        match (self.prover(asked)?, self.of_plonky3(), self.of_stwo()) {
            (Prover::Plonky3, Some(workload), _) => Ok(Choice::Plonky3(rigel_workloads::Choice {
                workload,
                log_rows: workload.default_log_rows(),
                field: Field::KoalaBear,
                hash: Hash::Keccak,
                fri: Fri::default(),
            })),
            (Prover::Stwo, _, Some(workload)) => Ok(Choice::Stwo(stwo::Choice {
                workload,
                log_size: stwo::default_log_size(workload),
                channel: stwo::Channel::Blake2s,
                fri: stwo::Fri::default(),
            })),
            _ => unreachable!("Workload::prover names a prover that has the workload"),
        }
    }

    /// Plonky3's workload of this name.
    pub fn of_plonky3(self) -> Option<Plonky3Workload> {
        Plonky3Workload::from_str(self.name(), false).ok()
    }

    /// Stwo's workload of this name.
    pub fn of_stwo(self) -> Option<stwo::Workload> {
        self.name().parse().ok()
    }

    /// The provers that have a workload of this name; the first is the default.
    fn provers(self) -> Vec<Prover> {
        let there = [self.of_plonky3().map(|_| Prover::Plonky3), self.of_stwo().map(|_| Prover::Stwo)];
        there.into_iter().flatten().collect()
    }

    /// The prover to use: the requested one, if it has a workload of this name.
    pub fn prover(self, asked: Option<Prover>) -> Result<Prover, String> {
        let there = self.provers();
        match asked {
            None => Ok(there[0]),
            Some(prover) if there.contains(&prover) => Ok(prover),
            Some(prover) => {
                let line = |prover: &Prover| format!("\n  {}: {}", prover.title(), prover.workloads().join(", "));
                Err(format!(
                    "{} is a workload of {}, not of {}. Available:{}",
                    self.name(),
                    there[0].title(),
                    prover.title(),
                    Prover::value_variants().iter().map(line).collect::<String>()
                ))
            }
        }
    }
}

/// The variant of this name; an error lists the names.
fn named<T: ValueEnum>(what: &str, name: &str) -> Result<T, String> {
    T::from_str(name, false).map_err(|_| {
        let known = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let known: Vec<String> = known.map(|value| value.get_name().to_owned()).collect();
        format!("unknown {what} {name:?}; available: {}", known.join(", "))
    })
}

/// The statement that a proof is about, except for its public values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "prover", rename_all = "kebab-case")]
pub enum Choice {
    /// A statement of Plonky3.
    Plonky3(rigel_workloads::Choice),
    /// A statement of Stwo.
    Stwo(stwo::Choice),
}

impl Choice {
    /// The prover of the statement.
    pub fn prover(&self) -> Prover {
        match self {
            Self::Plonky3(_) => Prover::Plonky3,
            Self::Stwo(_) => Prover::Stwo,
        }
    }

    /// Checks that every parameter is in its range; the error names the first that is not.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Plonky3(choice) => choice.check(),
            Self::Stwo(choice) => choice.check(),
        }
    }

    /// The statement, without a witness or a device yet.
    pub fn statement(&self) -> Result<Box<dyn Statement>, String> {
        match self {
            Self::Plonky3(choice) => choice.statement(),
            Self::Stwo(choice) => choice.statement(stwo::Making::default()),
        }
    }

    /// Whether several proofs of the statement may be made at once on a device. One that hides its trace begins its
    /// randomness anew for each proof, and Stwo's provers have one stream on each device: their proofs take turns.
    pub fn overlaps(&self) -> bool {
        matches!(self, Self::Plonky3(choice) if !choice.fri.zk)
    }

    /// The memory of what a verifier computes of the statement, in bytes: it does not depend on the proof.
    pub fn verification_bytes(&self) -> usize {
        match self {
            Self::Plonky3(choice) => choice.verification_bytes(),
            Self::Stwo(choice) => choice.verification_bytes(),
        }
    }

    /// Checks that this build can prove and verify it; the error says how to build what is missing.
    pub fn built(&self) -> Result<(), String> {
        match self {
            Self::Plonky3(choice) => choice.built(),
            Self::Stwo(choice) => choice.built(),
        }
    }

    /// The security by upstream's analysis of the whole proof. There is none for Stwo.
    pub fn security(&self) -> Option<Security> {
        match self {
            Self::Plonky3(choice) => choice.statement().ok()?.security(),
            Self::Stwo(_) => None,
        }
    }

    /// The security of the queries in bits, by upstream's conjecture.
    pub fn query_bits(&self) -> usize {
        match self {
            Self::Plonky3(choice) => choice.fri.conjectured_bits(),
            Self::Stwo(choice) => choice.fri.conjectured_bits() as usize,
        }
    }
}

/// `keccak 2^17, koala-bear, keccak`.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plonky3(choice) => choice.fmt(f),
            Self::Stwo(choice) => choice.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_has_a_name_here() {
        let plonky3 = Plonky3Workload::value_variants().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(Prover::Plonky3.workloads(), plonky3);
        let mut stwo = stwo::Workload::ALL.map(|workload| workload.name()).to_vec();
        let mut named = Prover::Stwo.workloads();
        stwo.sort_unstable();
        named.sort_unstable();
        assert_eq!(named, stwo);
        for &workload in Workload::value_variants() {
            assert_eq!(workload.to_possible_value().expect("none is hidden").get_name(), workload.name());
            for prover in workload.provers() {
                let usual = workload.usual(Some(prover)).unwrap();
                assert_eq!(usual.prover(), prover);
                usual.check().unwrap();
            }
        }
    }

    #[test]
    fn a_name_that_both_have_is_plonky3s() {
        assert_eq!(Workload::Poseidon2.prover(None), Ok(Prover::Plonky3));
        assert_eq!(Workload::Poseidon2.prover(Some(Prover::Stwo)), Ok(Prover::Stwo));
        assert_eq!(Workload::Plonk.prover(None), Ok(Prover::Stwo));
        assert!(Workload::Keccak.usual(Some(Prover::Stwo)).unwrap_err().contains("not of Stwo"));
        let refusal = Workload::Plonk.prover(Some(Prover::Plonky3)).unwrap_err();
        assert!(
            refusal.contains("plonk is a workload of Stwo, not of Plonky3")
                && refusal.contains("keccak, poseidon2"),
            "{refusal}"
        );
    }
}
