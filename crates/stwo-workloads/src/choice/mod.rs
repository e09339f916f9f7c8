//! A choice of workload, size, hash and parameters, and its proofs behind the interface that Plonky3's workloads have
//! too, [`rigel_workloads::Statement`].
//!
//! Both provers are compiled for each channel. That is done once, here, and callers see none of upstream's types.

mod shape;
mod statement;

use std::fmt;

use clap::ValueEnum;
use rigel_workloads::Statement;
use serde::{Deserialize, Serialize};
use stwo::core::fri::FriConfig;
use stwo::core::pcs::PcsConfig;
#[cfg(feature = "full")]
use stwo::core::vcs_lifted::blake2_merkle::Blake2sM31MerkleChannel;
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleChannel;
use stwo::prover::backend::simd::SimdBackend;

use crate::{AllWorkloads, Workload, benchmark_config};
use statement::Stwo;

/// The seed of all public values and witnesses.
const SEED: u64 = 1;

/// The maximum length of the extended columns that a verifier has to compute, as a power of two: those of tables and
/// circuits.
const MOST_LOG_EXTENDED: u32 = 28;

/// The bytes of a circuit's gate: its wires, how often they are used, and its value.
const CIRCUIT_BYTES: usize = 32;

/// The bytes of a tree for each of its leaves: the digests of all layers, of 32 bytes each.
const LEAF_BYTES: usize = 64;

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

/// Parameters of the commitment scheme. The defaults are [`benchmark_config`]'s.
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
        let PcsConfig { pow_bits, fri_config, .. } = benchmark_config();
        Self {
            log_blowup: fri_config.log_blowup_factor,
            log_last_layer: fri_config.log_last_layer_degree_bound,
            queries: fri_config.n_queries,
            fold_step: fri_config.fold_step,
            pow_bits,
        }
    }
}

impl Fri {
    /// Checks that every parameter is in its range; the error names the first that is not.
    fn check(&self) -> Result<(), String> {
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

    /// Converts to upstream's type. The parameters must have been checked.
    fn config(&self) -> PcsConfig {
        let fri_config = FriConfig::new(self.log_last_layer, self.log_blowup, self.queries, self.fold_step);
        PcsConfig { pow_bits: self.pow_bits, fri_config, lifting_log_size: None }
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

/// The statement of Stwo that a proof is about, except for its public values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The workload.
    #[serde(with = "by_name")]
    pub workload: Workload,
    /// The size in the workload's unit, as a power of two.
    pub log_size: u32,
    /// The hash.
    pub channel: Channel,
    /// The parameters of the commitment scheme.
    pub fri: Fri,
}

/// The default size, as a power of two.
pub fn default_log_size(workload: Workload) -> u32 {
    match workload {
        Workload::Blake2s => 8,
        _ => 14,
    }
}

impl Choice {
    /// Checks that every parameter is in its range; the error names the first that is not.
    pub fn check(&self) -> Result<(), String> {
        let Self { workload, log_size, fri, .. } = self;
        fri.check()?;
        if !self.is_built() {
            return Err(
                "blake2s-m31 is not in this build, which has blake2s; build with all hashes: cargo run --release \
                 --features full -p rigel"
                    .into(),
            );
        }
        let sizes = workload.log_sizes();
        if !sizes.contains(log_size) {
            let (least, most, unit) = (sizes.start(), sizes.end(), workload.unit());
            return Err(format!(
                "{workload} takes 2^{least} to 2^{most} {unit}, not 2^{log_size}; change --log-rows"
            ));
        }
        if log_size + fri.log_blowup > MOST_LOG_EXTENDED {
            return Err(format!(
                "2^{log_size} {} extended by 2^{} are more than 2^{MOST_LOG_EXTENDED}; lower --log-rows or \
                 --log-blowup",
                workload.unit(),
                fri.log_blowup
            ));
        }
        Ok(())
    }

    /// The memory of what a verifier computes of the statement, in bytes: its circuit, and the preprocessed columns,
    /// extended and hashed.
    pub fn verification_bytes(&self) -> usize {
        let circuit = if self.workload == Workload::Plonk { CIRCUIT_BYTES << self.log_size } else { 0 };
        let (columns, log_columns) = self.workload.preprocessed(self.log_size);
        if columns == 0 {
            return circuit;
        }
        let word = size_of::<u32>();
        // The tree is as high as that of the longest columns.
        let tree = LEAF_BYTES << (self.workload.log_rows(self.log_size).max(log_columns) + self.fri.log_blowup);
        let extended_and_twiddles = ((columns + 3) * word) << (log_columns + self.fri.log_blowup);
        // Columns are made from others twice: in a circuit's order or a table's, and by their interpolation.
        2 * (circuit + ((2 * columns * word) << log_columns) + extended_and_twiddles) + tree
    }

    /// Whether this build has the channel. Each compiles both provers, so the second one takes the feature `full`.
    pub fn is_built(&self) -> bool {
        cfg!(feature = "full") || self.channel == Channel::Blake2s
    }

    /// The statement, without a witness or a device yet.
    pub fn statement(&self, making: Making) -> Result<Box<dyn Statement>, String> {
        self.check()?;
        let statement =
            SimdBackend::statement(self.workload, self.log_size, SEED).map_err(|error| error.to_string())?;
        let Fri { log_last_layer, fold_step, .. } = self.fri;
        let log_rows = statement.log_rows();
        if log_last_layer + fold_step > log_rows {
            return Err(format!(
                "2^{log_rows} rows can't be folded by 2^{fold_step} to 2^{log_last_layer} coefficients; lower \
                 --log-final-poly-len or --fold-step, or raise --log-rows"
            ));
        }
        Ok(match self.channel {
            Channel::Blake2s => Box::new(Stwo::<Blake2sMerkleChannel>::new(*self, statement, making)),
            #[cfg(feature = "full")]
            Channel::Blake2sM31 => Box::new(Stwo::<Blake2sM31MerkleChannel>::new(*self, statement, making)),
            #[cfg(not(feature = "full"))]
            Channel::Blake2sM31 => unreachable!("refused above"),
        })
    }
}

/// `plonk 2^20, mersenne31, blake2s`.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workload, log_size, channel, .. } = self;
        let channel = channel.to_possible_value().expect("none is hidden");
        write!(f, "{workload} 2^{log_size}, mersenne31, {}", channel.get_name())
    }
}

/// (De)serializes a workload as its name.
mod by_name {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::Workload;

    pub(super) fn serialize<S: Serializer>(workload: &Workload, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(workload.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Workload, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
