//! Names and parameters of Stwo's workloads, without Stwo: a build that leaves its prover out still reads them.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The permutations in a row of [`Workload::Poseidon2`], as a power of two.
pub const LOG_PERMUTATIONS: u32 = 3;

/// The bits of a limb in the tables of [`Workload::Blake2s`].
pub const LIMB_BITS: u32 = 8;

/// The columns of an XOR table.
pub const TABLE_COLUMNS: usize = 3;

/// The preprocessed columns of [`Workload::Plonk`]: three wires and the operation.
pub const CIRCUIT_COLUMNS: usize = 4;

/// The bits of a limb of [`Workload::Xor`]: 8, or fewer if the tables would be higher than the component that looks
/// into them.
pub fn limb_bits(log_rows: u32) -> u32 {
    (log_rows.saturating_sub(1) / 2).clamp(2, 8)
}

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Workload {
    /// Sequences of sums of squares, one per row.
    WideFibonacci,
    /// A chain of Poseidon2 permutations, 8 per row.
    Poseidon2,
    /// A circuit of additions and multiplications.
    Plonk,
    /// Steps in a plane, with two components.
    StateMachine,
    /// XORs and sums by table lookups.
    Xor,
    /// A chain of Blake2s compressions, with twelve components.
    Blake2s,
}

impl Workload {
    /// All workloads.
    pub const ALL: [Self; 6] =
        [Self::WideFibonacci, Self::Poseidon2, Self::Plonk, Self::StateMachine, Self::Xor, Self::Blake2s];

    /// The workload's name, as in `Display` and `FromStr`.
    pub fn name(self) -> &'static str {
        match self {
            Self::WideFibonacci => "wide-fibonacci",
            Self::Poseidon2 => "poseidon2",
            Self::Plonk => "plonk",
            Self::StateMachine => "state-machine",
            Self::Xor => "xor",
            Self::Blake2s => "blake2s",
        }
    }

    /// The unit of its size.
    pub fn unit(self) -> &'static str {
        match self {
            Self::WideFibonacci | Self::Xor => "rows",
            Self::Poseidon2 => "permutations",
            Self::Plonk => "gates",
            Self::StateMachine => "steps",
            Self::Blake2s => "compressions",
        }
    }

    /// The rows of the highest component, as a power of two, for 2^`log_size` units.
    pub fn log_rows(self, log_size: u32) -> u32 {
        match self {
            Self::WideFibonacci | Self::Plonk | Self::StateMachine => log_size,
            Self::Poseidon2 => log_size - LOG_PERMUTATIONS,
            Self::Xor => log_size.max(2 * limb_bits(log_size)),
            Self::Blake2s => log_size.max(2 * LIMB_BITS),
        }
    }

    /// The number of preprocessed columns and their rows, as a power of two, for 2^`log_size` units.
    pub fn preprocessed(self, log_size: u32) -> (usize, u32) {
        match self {
            Self::WideFibonacci | Self::Poseidon2 | Self::StateMachine => (0, 0),
            Self::Plonk => (CIRCUIT_COLUMNS, log_size),
            Self::Xor => (TABLE_COLUMNS, 2 * limb_bits(log_size)),
            Self::Blake2s => (TABLE_COLUMNS, 2 * LIMB_BITS),
        }
    }

    /// The smallest and largest size, as powers of two. A component has at least 16 rows, one vector of upstream's
    /// SIMD backend.
    pub fn log_sizes(self) -> RangeInclusive<u32> {
        match self {
            Self::WideFibonacci | Self::Xor => 4..=26,
            Self::Poseidon2 => 4 + LOG_PERMUTATIONS..=26,
            Self::Plonk => 4..=26,
            Self::StateMachine => 5..=26,
            Self::Blake2s => 4..=20,
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Workload {
    type Err = UnknownWorkload;

    fn from_str(name: &str) -> Result<Self, UnknownWorkload> {
        let named = Self::ALL.into_iter().find(|workload| workload.name() == name);
        named.ok_or_else(|| UnknownWorkload(name.to_string()))
    }
}

/// An unknown workload name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown workload {0:?}; available: {names}", names = Workload::ALL.map(Workload::name).join(", "))]
pub struct UnknownWorkload(String);

/// The hash of trees and challenges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Channel {
    /// Blake2s
    #[value(name = "blake2s")]
    #[serde(rename = "blake2s")]
    Blake2s,
    /// Blake2s, each word of a digest reduced to a field element
    #[value(name = "blake2s-m31")]
    #[serde(rename = "blake2s-m31")]
    Blake2sM31,
}

/// Parameters of the commitment scheme. The defaults are those of the benchmarks: blowup 2, 64
/// queries and 10 bits of proof of work, hence 74 bits of conjectured security; FRI folds by 2 down to a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fri {
    /// Extended columns are 2^this times as long as the trace.
    pub log_blowup: u32,
    /// Folding ends at a polynomial of 2^this coefficients.
    pub log_last_layer: u32,
    /// The number of queries.
    pub queries: usize,
    /// A fold reduces 2^this elements to one.
    pub fold_step: u32,
    /// Proof of work before the queries.
    pub pow_bits: u32,
}

impl Default for Fri {
    fn default() -> Self {
        Self { log_blowup: 1, log_last_layer: 0, queries: 64, fold_step: 1, pow_bits: 10 }
    }
}

impl Fri {
    /// Checks that every parameter is in its range; the error names the first that is not.
    pub fn check(&self) -> Result<(), String> {
        let within = [
            ("--log-blowup", self.log_blowup as usize, 1, 8),
            ("--log-final-poly-len", self.log_last_layer as usize, 0, 10),
            ("--queries", self.queries, 1, 1000),
            ("--fold-step", self.fold_step as usize, 1, 8),
            ("--pow-bits", self.pow_bits as usize, 0, 30),
        ];
        for (name, value, least, most) in within {
            if !(least..=most).contains(&value) {
                return Err(format!("{name} is {value}; with Stwo it must be from {least} to {most}"));
            }
        }
        Ok(())
    }

    /// The security in bits, by upstream's conjecture.
    pub fn conjectured_bits(&self) -> u32 {
        self.log_blowup * self.queries as u32 + self.pow_bits
    }
}

/// The options of a proof on which its bytes do not depend.
#[derive(Clone, Copy, Debug, Default)]
pub struct Making {
    /// Keep the columns' coefficients in addition to their extended values. They are kept anyway of a thousand columns
    /// or more that have 2^12 rows or fewer on average.
    pub store_coefficients: bool,
    /// Generate the lookup columns with the witness, not during the proof.
    pub recorded_lookups: bool,
    /// Take no report of a proof from the host's columns on a device, as most callers of upstream's prover don't.
    pub unmeasured: bool,
}
