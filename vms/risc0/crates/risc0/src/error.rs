//! The errors of running, proving and verifying a program.

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a program could not be run, proven or verified.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device failed.
    #[error(transparent)]
    Gpu(#[from] rigel_gpu::Error),
    /// A prover was asked for on no device.
    #[error("no devices to prove on; pass at least one, or prove with `Prover::on_cpu`")]
    NoDevices,
    /// A device was given twice.
    #[error("{0} is given twice; a device proves one segment at a time, so name each once")]
    SameDevice(String),
    /// The file is no program for RISC Zero's virtual machine.
    #[error("the program cannot be loaded: {0}")]
    Program(String),
    /// The program's run failed.
    #[error("the program failed: {0}")]
    Run(String),
    /// The program did not end within the allowed number of cycles.
    #[error("the program did not end within {limit} cycles; allow more with --max-cycles, if it ends at all")]
    TooManyCycles {
        /// The allowed number of cycles.
        limit: u64,
    },
    /// A segment's size is outside of what upstream's prover supports.
    #[error("segments of 2^{po2} rows; supported are 2^{} to 2^{}", crate::MIN_PO2, crate::MAX_PO2)]
    SegmentSize {
        /// The logarithm of the number of rows.
        po2: u32,
    },
    /// A segment does not fit on the device.
    #[error("a segment of 2^{po2} rows needs {needed} on the device, {available} are free; lower --segment-po2")]
    Memory {
        /// The logarithm of the number of rows.
        po2: u32,
        /// The memory that its proof needs at once.
        needed: rigel_gpu::Bytes,
        /// The memory that is available.
        available: rigel_gpu::Bytes,
    },
    /// Upstream's executor or preflight rejects a segment.
    #[error("upstream's preflight failed: {0}")]
    Preflight(String),
    /// Upstream's prover, or an operation of its HAL, failed.
    #[error("the prover failed: {0}")]
    Prover(String),
    /// Upstream's circuit does not have the form that this version of Rigel knows.
    #[error("upstream's circuit is not the expected one: {0}")]
    Circuit(String),
    /// The verifier rejects a seal or a receipt.
    #[error("the receipt is rejected: {0}")]
    Rejected(String),
}
