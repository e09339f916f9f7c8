//! The workloads that Rigel's command line proves and measures, and the configurations in which they can be proved.
//!
//! Upstream's provers and ours are compiled for each combination of field and hash. They are behind one trait,
//! [`Statement`], so that this is done once, here, and callers see none of upstream's types.
//!
//! ```
//! use rigel_plonky3::Policy;
//! use rigel_workloads::{Choice, Field, Fri, Hash, Workload};
//!
//! let fri = Fri { pow_bits: 4, batch_pow_bits: 0, ..Fri::default() };
//! let choice = Choice {
//!     workload: Workload::Fibonacci,
//!     log_rows: 4,
//!     field: Field::KoalaBear,
//!     hash: Hash::Keccak,
//!     fri,
//! };
//! let mut statement = choice.statement()?;
//! statement.generate();
//! statement.prepare(None, Policy::default())?; // the CPU; Some(&device) for a device
//! let made = statement.prove()?;
//! assert_eq!(statement.verify(&made.proof, &statement.publics(), usize::MAX), Ok(()));
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```

mod batch;
mod blake3;
pub mod bounded;
mod configs;
mod either;
mod fibonacci;
mod fri;
mod keccak;
mod lookups;
pub mod many;
pub mod panics;
mod poseidon2;
mod single;
mod statement;

use std::fmt;

use clap::ValueEnum;
use p3_air::symbolic::SymbolicExpressionExt;
use p3_blake3_air::Blake3Air;
use p3_field::Algebra;
use p3_keccak_air::KeccakAir;
use serde::{Deserialize, Serialize};

pub use fri::Fri;
pub use statement::{Made, Rejection, Security, Statement, TableShape, timed};

use batch::Batch;
use either::Either;
use fibonacci::Fibonacci;
use poseidon2::WithConstants;
use single::{ProvableTable, Single};
use statement::Config;

/// Why a proof could not be made.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

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

/// The field, and the degree of its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Field {
    /// KoalaBear, extension of degree 4
    KoalaBear,
    /// BabyBear, extension of degree 4
    BabyBear,
    /// Goldilocks, extension of degree 2
    Goldilocks,
    /// Goldilocks, extension of degree 3
    #[value(name = "goldilocks3")]
    #[serde(rename = "goldilocks3")]
    Goldilocks3,
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
named!(Workload, Field, Hash);

/// The statement that a proof is about, except for its public values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The workload.
    pub workload: Workload,
    /// The number of rows, as a power of two; of the highest table, if there are several.
    pub log_rows: u32,
    /// The field.
    pub field: Field,
    /// The hash.
    pub hash: Hash,
    /// The FRI parameters.
    pub fri: Fri,
}

impl Workload {
    /// The minimum and maximum number of rows, as powers of two.
    fn log_rows(self) -> (u32, u32) {
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

    /// Whether it can be proved with a field and a hash in a full build. Each combination takes time to compile, so
    /// only those that the benchmarks need are offered, and each field and each hash with at least one workload.
    fn with(self, field: Field, hash: Hash) -> bool {
        match (field, hash) {
            (Field::KoalaBear | Field::Goldilocks, Hash::Keccak) => true,
            (Field::KoalaBear, Hash::Poseidon2) | (Field::BabyBear, Hash::Keccak) => {
                matches!(self, Self::Keccak | Self::Fibonacci | Self::Lookups)
            }
            (Field::KoalaBear, Hash::Keccak256)
            | (Field::BabyBear | Field::Goldilocks, Hash::Poseidon2)
            | (Field::Goldilocks3, Hash::Keccak) => self == Self::Fibonacci,
            _ => false,
        }
    }
}

impl Choice {
    /// Checks that there is such a statement and that its size is supported; the error says why not.
    pub fn check(&self) -> Result<(), String> {
        let Self { workload, log_rows, field, hash, fri } = self;
        fri.check()?;
        let (least, most) = workload.log_rows();
        if !(least..=most).contains(log_rows) {
            return Err(format!(
                "{workload} takes 2^{least} to 2^{most} rows, not 2^{log_rows}; change --log-rows"
            ));
        }
        if *log_rows as usize <= fri.log_final_poly_len {
            return Err(format!(
                "2^{log_rows} rows can't be folded to 2^{} coefficients; lower --log-final-poly-len or raise \
                 --log-rows",
                fri.log_final_poly_len
            ));
        }
        if !self.is_offered() {
            return Err(self.not_offered());
        }
        if !self.is_built() {
            return Err(format!(
                "{field} with {hash}{zk} is not in this build, which has koala-bear with keccak; build with all \
                 fields and hashes: cargo run --release --features full -p rigel",
                zk = if fri.zk { " and --zk" } else { "" }
            ));
        }
        Ok(())
    }

    /// The memory of what a verifier computes of the statement, in bytes: the preprocessed tables, extended and hashed.
    pub fn verification_bytes(&self) -> usize {
        if self.workload != Workload::Lookups {
            return 0;
        }
        let value = match self.field {
            Field::KoalaBear | Field::BabyBear => 4,
            Field::Goldilocks | Field::Goldilocks3 => 8,
        };
        let (cells, log_highest) = lookups::preprocessed(self.log_rows);
        // The tables, extended columns in two orders, and a tree of digests of 32 bytes; twice, because one is made
        // from another.
        2 * (cells * value + ((2 * cells * value + (64 << log_highest)) << self.fri.log_blowup))
    }

    /// Whether the workload can be proved with the field and the hash in a full build.
    pub fn is_offered(&self) -> bool {
        self.workload.with(self.field, self.hash) && (!self.fri.zk || self.is_hidden())
    }

    /// Whether there is a configuration that hides the trace.
    fn is_hidden(&self) -> bool {
        matches!(self.workload, Workload::Keccak | Workload::Fibonacci)
            && (self.field, self.hash) == (Field::KoalaBear, Hash::Keccak)
    }

    /// Whether this build has the field and the hash. Each compiles both provers, so all of them take the feature
    /// `full`.
    pub fn is_built(&self) -> bool {
        cfg!(feature = "full") || (self.field, self.hash) == (Field::KoalaBear, Hash::Keccak) && !self.fri.zk
    }

    /// The statement, without a witness or a device yet.
    pub fn statement(&self) -> Result<Box<dyn Statement>, String> {
        self.check()?;
        let made = match (self.field, self.hash) {
            #[cfg(feature = "full")]
            (Field::KoalaBear, Hash::Keccak) if self.fri.zk => self.hiding(),
            (Field::KoalaBear, Hash::Keccak) => self.all::<_, poseidon2::KoalaBearAir>(configs::koala_bear_keccak),
            #[cfg(feature = "full")]
            (Field::Goldilocks, Hash::Keccak) => {
                self.all::<_, poseidon2::GoldilocksAir>(configs::goldilocks_keccak)
            }
            #[cfg(feature = "full")]
            (Field::KoalaBear, Hash::Poseidon2) => self.most(configs::koala_bear_poseidon2),
            #[cfg(feature = "full")]
            (Field::BabyBear, Hash::Keccak) => self.most(configs::baby_bear_keccak),
            #[cfg(feature = "full")]
            (Field::KoalaBear, Hash::Keccak256) => self.single(configs::koala_bear_keccak256, Fibonacci),
            #[cfg(feature = "full")]
            (Field::BabyBear, Hash::Poseidon2) => self.single(configs::baby_bear_poseidon2, Fibonacci),
            #[cfg(feature = "full")]
            (Field::Goldilocks, Hash::Poseidon2) => self.single(configs::goldilocks_poseidon2, Fibonacci),
            #[cfg(feature = "full")]
            (Field::Goldilocks3, Hash::Keccak) => self.single(configs::goldilocks3_keccak, Fibonacci),
            _ => return Err(self.not_offered()),
        };
        Ok(made)
    }

    fn not_offered(&self) -> String {
        let Self { workload, field, hash, .. } = self;
        if self.fri.zk {
            return "--zk is for keccak and fibonacci, with koala-bear and keccak".into();
        }
        format!("{workload} is not available with {field} and {hash}. Available:\n{}", offered())
    }

    /// All workloads; `P` is the Poseidon2 AIR over the field.
    fn all<SC, P>(&self, config: fn(&Fri) -> SC) -> Box<dyn Statement>
    where
        SC: Config,
        SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
        P: WithConstants + ProvableTable<SC>,
    {
        type Airs<P> = Either<Either<KeccakAir, Fibonacci>, Either<Blake3Air, P>>;
        let air: Airs<P> = match self.workload {
            Workload::Keccak => Either::Left(Either::Left(KeccakAir {})),
            Workload::Fibonacci => Either::Left(Either::Right(Fibonacci)),
            Workload::Blake3 => Either::Right(Either::Left(Blake3Air {})),
            Workload::Poseidon2 => Either::Right(Either::Right(P::with_constants())),
            Workload::Lookups => return self.lookups(config),
        };
        self.single(config, air)
    }

    /// Proofs that hide the trace.
    #[cfg(feature = "full")]
    fn hiding(&self) -> Box<dyn Statement> {
        let air = match self.workload {
            Workload::Keccak => Either::Left(KeccakAir {}),
            _ => Either::Right(Fibonacci),
        };
        self.single(configs::koala_bear_hiding, air)
    }

    /// All workloads except Poseidon2 and Blake3.
    #[cfg(feature = "full")]
    fn most<SC: Config>(&self, config: fn(&Fri) -> SC) -> Box<dyn Statement>
    where
        SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
    {
        let air = match self.workload {
            Workload::Lookups => return self.lookups(config),
            Workload::Keccak => Either::Left(KeccakAir {}),
            _ => Either::Right(Fibonacci),
        };
        self.single(config, air)
    }

    fn lookups<SC: Config>(&self, config: fn(&Fri) -> SC) -> Box<dyn Statement>
    where
        SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
    {
        Box::new(Batch::new(config(&self.fri), self.fri, self.log_rows))
    }

    fn single<SC: Config>(&self, config: fn(&Fri) -> SC, air: impl ProvableTable<SC>) -> Box<dyn Statement> {
        Box::new(Single::new(config, air, self.fri, self.log_rows))
    }
}

/// `keccak 2^17, koala-bear, keccak`.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workload, log_rows, field, hash, .. } = self;
        write!(f, "{workload} 2^{log_rows}, {field}, {hash}{}", if self.fri.zk { ", zk" } else { "" })
    }
}

/// The workloads that are available with each field and hash, one line per combination.
fn offered() -> String {
    let mut out = String::new();
    for &field in Field::value_variants() {
        for &hash in Hash::value_variants() {
            let there = Workload::value_variants().iter().filter(|workload| workload.with(field, hash));
            let names: Vec<String> = there.map(ToString::to_string).collect();
            if names.is_empty() {
                continue;
            }
            out.push_str(&format!("  --field {field:<12}--hash {hash:<11}{}\n", names.join(", ")));
        }
    }
    out.trim_end().to_string()
}
