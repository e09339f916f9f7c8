//! Statements of Stwo. Their names and parameters are in every build, their prover where the feature `stwo` is.

use std::fmt;

use clap::ValueEnum;
use rigel_statements::Statement;
use serde::{Deserialize, Serialize};

pub use rigel_statements::stwo::{Channel, Fri, Making, UnknownWorkload, Workload};

/// The maximum length of the extended columns that a verifier has to compute, as a power of two: those of tables and
/// circuits.
const MOST_LOG_EXTENDED: u32 = 28;

/// The bytes of a circuit's gate: its wires, how often they are used, and its value.
const CIRCUIT_BYTES: usize = 32;

/// The bytes of a tree for each of its leaves: the digests of all layers, of 32 bytes each.
const LEAF_BYTES: usize = 64;

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

    /// A workload at its default size, with the default parameters.
    pub fn usual(workload: Workload) -> Self {
        Self { workload, log_size: default_log_size(workload), channel: Channel::Blake2s, fri: Fri::default() }
    }

    /// Checks that this build has Stwo and the channel; the error says how to build them. Each channel compiles both
    /// provers, so the first takes the feature `stwo`, and the second `full`.
    pub fn built(&self) -> Result<(), String> {
        if !cfg!(feature = "stwo") {
            let build = "build with it: cargo run --release --features stwo -p rigel";
            return Err(format!("Stwo is not in this build, which has Plonky3; {build}"));
        }
        if !cfg!(feature = "full") && self.channel != Channel::Blake2s {
            let build = "build with all hashes: cargo run --release --features full -p rigel";
            return Err(format!("blake2s-m31 is not in this build, which has blake2s; {build}"));
        }
        Ok(())
    }

    /// The statement, without a witness or a device yet.
    #[cfg_attr(not(feature = "stwo"), expect(unused_variables, reason = "there is none in this build"))]
    pub fn statement(&self, making: Making) -> Result<Box<dyn Statement>, String> {
        self.check()?;
        self.built()?;
        #[cfg(feature = "stwo")]
        return rigel_stwo_workloads::choice::statement(
            self.workload,
            self.log_size,
            self.channel,
            self.fri,
            making,
        );
        #[cfg(not(feature = "stwo"))]
        unreachable!("`built` is an error without the feature")
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

    use super::Workload;

    pub(super) fn serialize<S: Serializer>(workload: &Workload, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(workload.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Workload, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
