//! Tables of Plonky3 that Rigel's command line proves, and statements about them over any configuration.
//!
//! A [`Case`] is a workload of a size with FRI's parameters. It becomes a [`Statement`] over a configuration of a field
//! and a hash, for which upstream's prover and verifier and Rigel's prover are compiled where it is named: in one crate
//! for each field, `rigel-workloads-koala-bear` and its neighbours.

mod batch;
mod blake3;
pub mod configs;
mod either;
mod fibonacci;
mod fri;
mod keccak;
mod lookups;
mod poseidon2;
mod single;
mod statement;

use std::fmt;

use clap::ValueEnum;
use p3_air::symbolic::SymbolicExpressionExt;
use p3_blake3_air::Blake3Air;
use p3_field::Algebra;
use p3_keccak_air::KeccakAir;
use rigel_statements::Statement;
use serde::{Deserialize, Serialize};

pub use fri::Fri;
pub use lookups::preprocessed as preprocessed_of_lookups;
pub use poseidon2::{PERMUTATIONS, poseidon2_air};
pub use single::{OneTable, ProvableTable, Witness};
pub use statement::Config;

use batch::Batch;
use either::Either;
use fibonacci::Fibonacci;
use single::Single;

/// The seed of all witnesses.
const SEED: u64 = 1;

/// The workload to prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Keccak-f permutations, 24 rows each
    Keccak,
    /// Poseidon2 permutations, 8 per row
    Poseidon2,
    /// Blake3 compressions, one per row
    Blake3,
    /// Fibonacci numbers, with public values
    Fibonacci,
    /// Eight tables connected by 20 lookups
    Lookups,
}

/// The hash of trees and challenges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hash {
    /// Keccak-f as a sponge in the trees, Keccak-256 for challenges
    Keccak,
    /// Keccak-256
    #[value(name = "keccak256")]
    #[serde(rename = "keccak256")]
    Keccak256,
    /// The field's Poseidon2
    #[value(name = "poseidon2")]
    #[serde(rename = "poseidon2")]
    Poseidon2,
}

macro_rules! named {
    ($($type:ty),*) => { $(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.to_possible_value().expect("none is hidden").get_name())
            }
        }
    )* };
}
named!(Workload, Hash);

impl Workload {
    /// The minimum and maximum number of rows, as powers of two.
    pub fn log_rows(self) -> (u32, u32) {
        match self {
            Self::Keccak => (5, 24),
            Self::Poseidon2 | Self::Blake3 => (3, 24),
            Self::Fibonacci => (3, 31),
            // The verifier recomputes the preprocessed tables, which are 2^4 times smaller.
            Self::Lookups => (6, 26),
        }
    }

    /// The default number of rows, as a power of two.
    pub fn default_log_rows(self) -> u32 {
        match self {
            Self::Keccak => 14,
            Self::Poseidon2 | Self::Blake3 => 12,
            Self::Fibonacci => 16,
            Self::Lookups => 16,
        }
    }
}

/// A workload of a size, to be proved over a configuration with these parameters.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The workload.
    pub workload: Workload,
    /// The number of rows, as a power of two; of the highest table, if there are several.
    pub log_rows: u32,
    /// The FRI parameters.
    pub fri: Fri,
}

impl Case {
    /// All workloads; `poseidon2` is the Poseidon2 AIR over the field.
    pub fn all<SC, P>(self, config: fn(&Fri) -> SC, poseidon2: fn() -> P) -> Option<Box<dyn Statement>>
    where
        SC: Config,
        SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
        P: ProvableTable<SC>,
    {
        type Airs<P> = Either<Either<KeccakAir, Fibonacci>, Either<Blake3Air, P>>;
        let air: Airs<P> = match self.workload {
            Workload::Keccak => Either::Left(Either::Left(KeccakAir {})),
            Workload::Fibonacci => Either::Left(Either::Right(Fibonacci)),
            Workload::Blake3 => Either::Right(Either::Left(Blake3Air {})),
            Workload::Poseidon2 => Either::Right(Either::Right(poseidon2())),
            Workload::Lookups => return Some(self.lookups(config)),
        };
        Some(self.single(config, air))
    }

    /// Keccak, Fibonacci and the tables with lookups; none for other workloads.
    pub fn most<SC: Config>(self, config: fn(&Fri) -> SC) -> Option<Box<dyn Statement>>
    where
        SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
    {
        match self.workload {
            Workload::Lookups => Some(self.lookups(config)),
            _ => self.keccak_or_fibonacci(config),
        }
    }

    /// Keccak and Fibonacci; none for other workloads.
    pub fn keccak_or_fibonacci<SC: Config>(self, config: fn(&Fri) -> SC) -> Option<Box<dyn Statement>> {
        let air = match self.workload {
            Workload::Keccak => Either::Left(KeccakAir {}),
            Workload::Fibonacci => Either::Right(Fibonacci),
            Workload::Poseidon2 | Workload::Blake3 | Workload::Lookups => return None,
        };
        Some(self.single(config, air))
    }

    /// Fibonacci; none for other workloads.
    pub fn fibonacci<SC: Config>(self, config: fn(&Fri) -> SC) -> Option<Box<dyn Statement>> {
        (self.workload == Workload::Fibonacci).then(|| self.single(config, Fibonacci))
    }

    fn lookups<SC: Config>(self, config: fn(&Fri) -> SC) -> Box<dyn Statement>
    where
        SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
    {
        Box::new(Batch::new(config(&self.fri), self.fri, self.log_rows))
    }

    fn single<SC: Config>(self, config: fn(&Fri) -> SC, air: impl ProvableTable<SC>) -> Box<dyn Statement> {
        Box::new(Single::new(config, air, self.fri, self.log_rows))
    }
}
