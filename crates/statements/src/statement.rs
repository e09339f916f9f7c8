//! The operations of the commands on a statement, independent of its prover, field, hash and AIR.

use std::fmt;
use std::time::Instant;

use rigel_gpu::{Bytes, Device, Report};
use serde::Serialize;

use crate::Failure;
use crate::bounded::Unreadable;

/// Bits of security, by upstream's `p3-security`: of the AIR's composition, the opening and FRI together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Security {
    /// Proven.
    pub proven: usize,
    /// Conjectured by upstream.
    pub conjectured: usize,
}

/// The consequence of a device that fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The proof fails.
    #[default]
    Fail,
    /// The CPU proves instead, and the proof's report says why.
    Cpu,
}

impl OnFailure {
    /// The CPU if it `may_fall_back`.
    pub fn cpu_if(may_fall_back: bool) -> Self {
        if may_fall_back { Self::Cpu } else { Self::Fail }
    }
}

/// A workload of one size over one configuration: generates its witness and its proofs.
///
/// Commands see upstream's types only through this trait; its implementations are compiled for each of them.
pub trait Statement: Send + Sync {
    /// Generates the witness, which is deterministic.
    fn generate(&mut self);

    /// Creates the prover, with the device or with the CPU alone, and what its proofs share.
    fn prepare(&mut self, device: Option<&Device>, on_failure: OnFailure) -> Result<(), Failure>;

    /// Creates the prover as [`Self::prepare`] does, for proofs that several devices make together.
    fn prepare_over(&mut self, devices: &[Device], on_failure: OnFailure) -> Result<(), Failure>;

    /// Compiles the kernels that are generated for this workload, or finds them in the device's cache, and returns
    /// their number. Needs neither witness nor prover, and the device may be one that only compiles.
    fn compile(&self, device: &Device) -> Result<usize, Failure>;

    /// The tables of the witness.
    fn tables(&self) -> Vec<TableShape>;

    /// The public values of each table.
    fn publics(&self) -> Vec<Vec<u64>>;

    /// A proof from the witness on the host.
    fn prove(&self) -> Result<Made, Failure>;

    /// Uploads the witness to the prover's device, or some rows of it to each of its devices, and keeps it there.
    fn keep_on_device(&mut self) -> Result<(), Failure>;

    /// A proof from the witness kept on the device.
    fn prove_resident(&self) -> Result<Made, Failure>;

    /// A proof from the witness' inputs: the prover's device makes the trace, where there is a kernel for it.
    fn prove_inputs(&self) -> Result<Made, Failure> {
        Err(NO_INPUTS.into())
    }

    /// Upstream's own proof, on the threads of the caller's pool, as in upstream's benchmark.
    fn prove_upstream(&self) -> Result<Made, Failure>;

    /// Verifies a proof with upstream's verifier. Needs neither witness nor prover. The deserialized proof may take
    /// `memory` bytes; what the verifier computes of the statement takes as much as its `Choice` says.
    fn verify(&self, proof: &[u8], publics: &[Vec<u64>], memory: usize) -> Result<(), Rejection>;

    /// The security of its proofs by upstream's analysis, where upstream has one.
    fn security(&self) -> Option<Security> {
        None
    }
}

/// The reason why a workload is not proven from its inputs.
pub const NO_INPUTS: &str = "the traces of this workload are made on the host only";

/// A table's size.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TableShape {
    /// The rows, as a power of two.
    pub log_rows: u32,
    /// The columns.
    pub columns: usize,
}

impl TableShape {
    /// Rows times columns.
    pub fn cells(&self) -> usize {
        self.columns << self.log_rows
    }
}

/// A serialized proof, and its cost.
pub struct Made {
    /// Upstream's proof in postcard.
    pub proof: Vec<u8>,
    /// The parts that do not depend on a proof of work: commitments and opened values.
    pub settled: Vec<u8>,
    /// The bytes of all columns that were extended and committed to.
    pub extended_bytes: usize,
    /// The time from the call to the proof.
    pub milliseconds: f64,
    /// The times of the proof's phases and the bytes that it moved.
    pub report: Report,
}

/// The reason why a proof is rejected.
#[derive(Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The proof does not have the shape of a proof of this statement.
    Malformed(String),
    /// Upstream's verifier rejected it, for this reason.
    Refused(String),
    /// The proof takes more memory than this limit.
    Memory(usize),
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(detail) => write!(f, "the proof is malformed: {detail}"),
            Self::Refused(reason) => f.write_str(reason),
            Self::Memory(limit) => write!(f, "the proof takes more than {} of memory", Bytes(*limit)),
        }
    }
}

/// The result of `work` and its milliseconds.
pub fn timed<R>(work: impl FnOnce() -> R) -> (R, f64) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed().as_secs_f64() * 1e3)
}

impl From<Unreadable> for Rejection {
    fn from(unreadable: Unreadable) -> Self {
        match unreadable {
            Unreadable::Memory(limit) => Self::Memory(limit),
            Unreadable::Malformed(detail) => Self::Malformed(detail),
        }
    }
}
