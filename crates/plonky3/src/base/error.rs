//! Errors.

use p3_fri::{FriProverError, HidingFriProverError};

/// The result of a call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a proof or of its setup.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the device or the runtime.
    #[error(transparent)]
    Gpu(#[from] rigel_gpu::Error),

    /// A batch without instances.
    #[error("the batch is empty; give at least one instance")]
    EmptyBatch,

    /// The prover data is for a different number of instances.
    #[error("the prover data was made for {expected} instances, the batch has {found}")]
    BatchLength {
        /// Instances of the prover data.
        expected: usize,
        /// Instances of the batch.
        found: usize,
    },

    /// A trace whose height is not a power of two.
    #[error("table {table}: the trace has {rows} rows; pad it to a power of two")]
    Height {
        /// The instance, 0 for a single proof.
        table: usize,
        /// The number of rows.
        rows: usize,
    },

    /// A trace with the wrong number of columns.
    #[error("table {table}: the trace has {found} columns, the AIR expects {expected}")]
    Width {
        /// The instance.
        table: usize,
        /// The number that the AIR expects.
        expected: usize,
        /// The number in the trace.
        found: usize,
    },

    /// The wrong number of public values.
    #[error("table {table}: {found} public values, the AIR expects {expected}")]
    PublicValues {
        /// The instance.
        table: usize,
        /// The number that the AIR expects.
        expected: usize,
        /// The number given.
        found: usize,
    },

    /// Constraints of a degree so high that the field has no domain for the quotient.
    #[error(
        "table {table}: the constraints need a quotient of 2^{log_chunks} times the trace's 2^{log_rows} rows, the \
         field has domains of at most 2^{log_limit}; lower the degree or the number of rows"
    )]
    Degree {
        /// The instance.
        table: usize,
        /// The height of the trace.
        log_rows: usize,
        /// The logarithm of the quotient's size over the trace's.
        log_chunks: usize,
        /// The logarithm of the largest domain.
        log_limit: usize,
    },

    /// A table of more rows than the field has roots of unity for, or than the device's transforms support; a
    /// policy may prove the latter on the CPU.
    #[error(
        "table {table}: 2^{log_rows} rows with a blowup of 2^{log_blowup} are too many; extended columns can have \
         at most 2^{log_limit} rows"
    )]
    TooManyRows {
        /// The instance.
        table: usize,
        /// The logarithm of the trace's height.
        log_rows: usize,
        /// The blowup.
        log_blowup: usize,
        /// The logarithm of the largest number of rows of an extended column.
        log_limit: usize,
    },

    /// Preprocessed columns that do not fit the AIR or the trace.
    #[error("table {table}: {detail}")]
    Preprocessed {
        /// The instance.
        table: usize,
        /// The mismatch.
        detail: String,
    },

    /// Lookups that can't be proved.
    #[error("table {table}: {detail}")]
    Lookup {
        /// The instance.
        table: usize,
        /// The problem with the lookups.
        detail: String,
    },

    /// A trace that does not satisfy its AIR. Only debug builds check it, as upstream's do; others prove what no
    /// verifier accepts.
    #[error("table {table}: row {row} does not satisfy constraints {constraints}")]
    Unsatisfied {
        /// The instance, 0 for a single proof.
        table: usize,
        /// The first row.
        row: usize,
        /// The constraints, by number and name.
        constraints: String,
    },

    /// A feature of the AIR or of the configuration that neither upstream's prover nor this one supports.
    #[error("{0}")]
    Unsupported(String),

    /// Devices that can't make a proof together.
    #[error("{0}")]
    Devices(String),

    /// The proof does not fit in device memory, according to [`plan`](crate::plan()).
    #[error(
        "the proof needs {needed} on the device (its largest phase is \"{phase}\"), {available} are free; lower the \
         number of rows, or use a policy that falls back to the CPU",
        needed = rigel_gpu::Bytes(*.needed), available = rigel_gpu::Bytes(*.available)
    )]
    DoesNotFit {
        /// Bytes of the largest phase.
        needed: usize,
        /// Bytes available.
        available: usize,
        /// The largest phase.
        phase: &'static str,
    },

    /// The configuration given to [`Prover::new`](crate::Prover::new) and its kernels make different commitments.
    #[error(
        "the configuration and its kernels make different commitments: check that `fri` and `cap_height` are the \
         ones the PCS was made with{0}"
    )]
    Configuration(&'static str),

    /// The proof was ended early, by [`Cancel`](crate::Cancel) or [`Queue::cancel`](crate::Queue::cancel).
    #[error("the proof was cancelled")]
    Cancelled,

    /// Upstream's error for a height that its FRI parameters can't fold.
    #[error(transparent)]
    Fri(#[from] FriProverError),

    /// Upstream's error for a trace that is too short to hide, or for too few random columns.
    #[error(transparent)]
    Hiding(HidingFriProverError),

    /// Upstream's CPU prover failed.
    #[error("upstream's prover: {0}")]
    Upstream(String),
}

impl From<HidingFriProverError> for Error {
    fn from(error: HidingFriProverError) -> Self {
        match error {
            HidingFriProverError::Fri(error) => Self::Fri(error),
            other => Self::Hiding(other),
        }
    }
}
