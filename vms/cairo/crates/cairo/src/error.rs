//! The errors of running, proving and verifying a program.

use std::path::PathBuf;

use rigel_gpu::Bytes;
use stwo_cairo_common::preprocessed_columns::preprocessed_trace::PreProcessedTraceVariant;
use stwo_cairo_prover::prover::ChannelHash;

use crate::parameters::variant_name;

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a program could not be run, proven or verified.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device failed.
    #[error(transparent)]
    Gpu(#[from] rigel_gpu::Error),
    /// A file could not be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        error: std::io::Error,
    },
    /// A file does not have the expected content.
    #[error("{}: {detail}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The problem with the content.
        detail: String,
    },
    /// The program is not one that can be run for a proof.
    #[error("the program cannot be run for a proof: {0}")]
    Program(String),
    /// The program's run failed, for example at an assertion.
    #[error("the program failed: {0}")]
    Run(String),
    /// The program did not end within the allowed number of steps.
    #[error("the program did not end within {limit} steps; allow more with --max-steps, if it ends at all")]
    TooManySteps {
        /// The allowed number of steps.
        limit: usize,
    },
    /// The prover's channel is not that of its parameters.
    #[error("the parameters ask for the channel {asked:?}, the prover was made for {made:?}")]
    Channel {
        /// The parameters' channel.
        asked: ChannelHash,
        /// The prover's channel.
        made: ChannelHash,
    },
    /// A parameter is outside of its range.
    #[error("{name} is {value}; {advice}")]
    Parameter {
        /// The parameter.
        name: &'static str,
        /// The parameter's value.
        value: u64,
        /// The range, and what to do.
        advice: String,
    },
    /// The program uses a builtin that the variant of the preprocessed columns, or upstream's prover, does not have.
    #[error("the program uses {builtin} {instances} times, which {} does not have; {advice}", variant_name(*variant))]
    Builtin {
        /// The builtin.
        builtin: &'static str,
        /// The number of instances that the program uses, with upstream's padding.
        instances: usize,
        /// The variant.
        variant: PreProcessedTraceVariant,
        /// The advice.
        advice: &'static str,
    },
    /// The program's memory is too large for the variant of the preprocessed columns.
    #[error(
        "the program's {what} needs 2^{needed} rows; {} has 2^{available} at most; {advice}", variant_name(*variant)
    )]
    TooLarge {
        /// The table that is too large.
        what: &'static str,
        /// The logarithm of its number of rows.
        needed: u32,
        /// The logarithm of the largest number of rows.
        available: u32,
        /// The variant.
        variant: PreProcessedTraceVariant,
        /// The advice.
        advice: &'static str,
    },
    /// The device does not have the memory that the proof needs.
    #[error(
        "the proof needs {} more on the device, {} are free; prove a smaller run, with fewer preprocessed columns, or \
         on the CPU", Bytes(*needed), Bytes(*available)
    )]
    Memory {
        /// The bytes that the proof needs.
        needed: usize,
        /// The bytes that there are.
        available: usize,
    },
    /// Upstream's preprocessed columns are not those that this version of the crate was made for.
    #[error("the preprocessed columns of {} have the hash {found}, not {expected}", variant_name(*variant))]
    Preprocessed {
        /// The variant.
        variant: PreProcessedTraceVariant,
        /// The hash of the columns.
        found: String,
        /// The hash that they should have.
        expected: &'static str,
    },
    /// A name that is not that of a component which can be left to the host.
    #[error("{name} is not a component that the device makes; those are {known}")]
    Component {
        /// The name.
        name: String,
        /// The components that there are.
        known: String,
    },
    /// The witness code rejects the input.
    #[error("the witness code rejects the input: {0}")]
    Witness(String),
    /// The trace does not satisfy the constraints, or its lookups do not balance.
    #[error("the trace does not satisfy Cairo's AIR: {0}")]
    Unsatisfied(&'static str),
    /// Upstream's prover gave up.
    #[error("upstream's prover gave up: {0}")]
    Upstream(String),
    /// The verifier rejects the proof.
    #[error("the proof is rejected: {0}")]
    Rejected(String),
}
