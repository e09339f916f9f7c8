//! The workloads that Rigel's command line proves and measures, and the configurations in which they can be proved.
//!
//! Upstream's provers and ours are compiled for each combination of field and hash, in a crate for each field below
//! this one. They are behind one trait, [`Statement`], so that callers see none of upstream's types.
//!
//! ```
//! use rigel_statements::OnFailure;
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
//! statement.prepare(None, OnFailure::Fail)?; // the CPU; Some(&device) for a device
//! let made = statement.prove()?;
//! assert_eq!(statement.verify(&made.proof, &statement.publics(), usize::MAX), Ok(()));
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```

use std::fmt;

use clap::ValueEnum;
use rigel_statements::Statement;
use rigel_workloads_tables::{Case, preprocessed_of_lookups};
use serde::{Deserialize, Serialize};

pub use rigel_workloads_tables::{Fri, Hash, Workload};

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

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.to_possible_value().expect("none is hidden").get_name())
    }
}

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

/// Whether a workload can be proved with a field and a hash in a full build. Each combination takes time to compile, so
/// only those that the benchmarks need are offered, and each field and each hash with at least one workload.
fn is_offered(workload: Workload, field: Field, hash: Hash) -> bool {
    match (field, hash) {
        (Field::KoalaBear | Field::Goldilocks, Hash::Keccak) => true,
        (Field::KoalaBear, Hash::Poseidon2) | (Field::BabyBear, Hash::Keccak) => {
            matches!(workload, Workload::Keccak | Workload::Fibonacci | Workload::Lookups)
        }
        (Field::KoalaBear, Hash::Keccak256)
        | (Field::BabyBear | Field::Goldilocks, Hash::Poseidon2)
        | (Field::Goldilocks3, Hash::Keccak) => workload == Workload::Fibonacci,
        _ => false,
    }
}

impl Choice {
    /// Checks that there is such a statement and that its size is supported; the error says why not.
    pub fn check(&self) -> Result<(), String> {
        let Self { workload, log_rows, fri, .. } = self;
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
        let (cells, log_highest) = preprocessed_of_lookups(self.log_rows);
        // The tables, extended columns in two orders, and a tree of digests of 32 bytes; twice, because one is made
        // from another.
        2 * (cells * value + ((2 * cells * value + (64 << log_highest)) << self.fri.log_blowup))
    }

    /// Whether the workload can be proved with the field and the hash in a full build.
    pub fn is_offered(&self) -> bool {
        is_offered(self.workload, self.field, self.hash) && (!self.fri.zk || self.is_hidden())
    }

    /// Whether there is a configuration that hides the trace.
    fn is_hidden(&self) -> bool {
        matches!(self.workload, Workload::Keccak | Workload::Fibonacci)
            && (self.field, self.hash) == (Field::KoalaBear, Hash::Keccak)
    }

    /// Checks that this build has the field and the hash; the error says how to build them. Each compiles both provers,
    /// so all but one take the feature `full`.
    pub fn built(&self) -> Result<(), String> {
        let Self { field, hash, fri, .. } = self;
        if cfg!(feature = "full") || (*field, *hash) == (Field::KoalaBear, Hash::Keccak) && !fri.zk {
            return Ok(());
        }
        Err(format!(
            "{field} with {hash}{zk} is not in this build, which has koala-bear with keccak; build with all fields and \
             hashes: cargo run --release --features full -p rigel",
            zk = if fri.zk { " and --zk" } else { "" }
        ))
    }

    /// The statement, without a witness or a device yet.
    pub fn statement(&self) -> Result<Box<dyn Statement>, String> {
        self.check()?;
        self.built()?;
        let case = Case { workload: self.workload, log_rows: self.log_rows, fri: self.fri };
        let made = match self.field {
            Field::KoalaBear => rigel_workloads_koala_bear::statement(case, self.hash),
            #[cfg(feature = "full")]
            Field::BabyBear => rigel_workloads_baby_bear::statement(case, self.hash),
            #[cfg(feature = "full")]
            Field::Goldilocks => rigel_workloads_goldilocks::statement(case, self.hash),
            #[cfg(feature = "full")]
            Field::Goldilocks3 => rigel_workloads_goldilocks::statement_of_degree_3(case, self.hash),
            #[cfg(not(feature = "full"))]
            _ => None,
        };
        made.ok_or_else(|| self.not_offered())
    }

    fn not_offered(&self) -> String {
        let Self { workload, field, hash, .. } = self;
        if self.fri.zk {
            return "--zk is for keccak and fibonacci, with koala-bear and keccak".into();
        }
        format!("{workload} is not available with {field} and {hash}. Available:\n{}", offered())
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
            let there = Workload::value_variants().iter().filter(|&&workload| is_offered(workload, field, hash));
            let names: Vec<String> = there.map(ToString::to_string).collect();
            if names.is_empty() {
                continue;
            }
            out.push_str(&format!("  --field {field:<12}--hash {hash:<11}{}\n", names.join(", ")));
        }
    }
    out.trim_end().to_string()
}
