//! What can go wrong with a proof, as values.

use p3_fri::FriProverError;

/// The result of a call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no proof.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device, or the engine on it.
    #[error(transparent)]
    Gpu(#[from] rigel_gpu::Error),

    /// A batch without instances.
    #[error("the batch is empty; give at least one instance")]
    EmptyBatch,

    /// Two lists of a batch that should go together do not.
    #[error("the prover data was made for {expected} instances, the batch has {found}")]
    BatchLength {
        /// Instances of the prover data.
        expected: usize,
        /// Instances of the batch.
        found: usize,
    },

    /// A trace whose height is no power of two.
    #[error("table {table}: the trace has {rows} rows; pad it to a power of two")]
    Height {
        /// The instance, 0 for a single proof.
        table: usize,
        /// Its rows.
        rows: usize,
    },

    /// A trace with the wrong number of columns.
    #[error("table {table}: the trace has {found} columns, the AIR asks for {expected}")]
    Width {
        /// The instance.
        table: usize,
        /// What the AIR says.
        expected: usize,
        /// What the trace has.
        found: usize,
    },

    /// The wrong number of public values.
    #[error("table {table}: {found} public values, the AIR asks for {expected}")]
    PublicValues {
        /// The instance.
        table: usize,
        /// What the AIR says.
        expected: usize,
        /// What was given.
        found: usize,
    },

    /// Constraints of a degree whose quotient is larger than the extended trace.
    #[error(
        "table {table}: the constraints need a quotient of 2^{log_chunks} times the trace's height, the blowup is \
         2^{log_blowup}; raise log_blowup or lower the degree"
    )]
    Degree {
        /// The instance.
        table: usize,
        /// The quotient's size over the trace's.
        log_chunks: usize,
        /// The commitment's.
        log_blowup: usize,
    },

    /// More rows than the field has roots of unity for, or than the transforms take.
    #[error(
        "table {table}: 2^{log_rows} rows with a blowup of 2^{log_blowup} are too many; extended columns may have \
         2^{log_limit} rows"
    )]
    TooManyRows {
        /// The instance.
        table: usize,
        /// Its height.
        log_rows: usize,
        /// The blowup.
        log_blowup: usize,
        /// The most rows of an extended column.
        log_limit: usize,
    },

    /// Preprocessed columns that do not fit the AIR or the trace.
    #[error("table {table}: {detail}")]
    Preprocessed {
        /// The instance.
        table: usize,
        /// What does not fit.
        detail: String,
    },

    /// Lookups that no proof can be made for.
    #[error("table {table}: {detail}")]
    Lookup {
        /// The instance.
        table: usize,
        /// What is wrong with them.
        detail: String,
    },

    /// A feature of the AIR or of the configuration that neither upstream's prover nor this one has.
    #[error("{0}")]
    Unsupported(String),

    /// The proof does not fit the device, by the plan that [`plan`](crate::plan()) gives.
    #[error(
        "the proof needs {needed} on the device (its largest phase is \"{phase}\"), {available} are free; lower the \
         number of rows, or let the policy take the CPU",
        needed = rigel_gpu::Bytes(*.needed), available = rigel_gpu::Bytes(*.available)
    )]
    DoesNotFit {
        /// Bytes of the largest phase.
        needed: usize,
        /// Bytes there are.
        available: usize,
        /// The largest phase.
        phase: &'static str,
    },

    /// The configuration given to [`Prover::new`](crate::Prover::new) commits otherwise than its kernels.
    #[error(
        "the configuration commits to other digests than its kernels: check that `fri` and `cap_height` are the \
         ones the PCS was made with{0}"
    )]
    Configuration(&'static str),

    /// Upstream's own refusal of a height that its FRI parameters can't fold.
    #[error(transparent)]
    Fri(#[from] FriProverError),

    /// Upstream's CPU prover failed.
    #[error("upstream's prover: {0}")]
    Upstream(String),
}
