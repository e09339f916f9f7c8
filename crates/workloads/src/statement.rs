//! The operations of the commands on a workload, independent of its field, hash and AIR.

use std::fmt;
use std::time::Instant;

use p3_field::PrimeField64;
use p3_matrix::Matrix as _;
use p3_matrix::dense::RowMajorMatrix;
use rigel_gpu::{Bytes, Device};
use rigel_kernels::Matrix;
use rigel_kernels::layout::permute;
use rigel_plonky3::{DeviceConfig, DeviceField, Policy, Report, Trace};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Failure;
use crate::bounded::{self, Bounds, Unreadable};

/// A workload of one size over one configuration: generates its witness and its proofs.
///
/// Bits of security, by upstream's `p3-security`: of the AIR's composition, the opening and FRI together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Security {
    /// Proven.
    pub proven: usize,
    /// By upstream's conjecture.
    pub conjectured: usize,
}

/// Commands see upstream's types only through this trait; its implementations are compiled for each of them.
pub trait Statement: Send + Sync {
    /// Generates the witness, which is deterministic.
    fn generate(&mut self);

    /// Creates the prover, with the device or with the CPU alone, and what its proofs share.
    fn prepare(&mut self, device: Option<&Device>, policy: Policy) -> Result<(), Failure>;

    /// As [`Self::prepare`], for proofs that several devices make together.
    fn prepare_over(&mut self, devices: &[Device], policy: Policy) -> Result<(), Failure>;

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

/// Why a workload is not proven from its inputs.
pub(crate) const NO_INPUTS: &str = "the traces of this workload are made on the host only";

/// A configuration whose proofs can be made on several threads and serialized.
pub(crate) trait Config: DeviceConfig<Commitment: Serialize + Send> + Send + Sync + 'static {}
impl<SC: DeviceConfig<Commitment: Serialize + Send> + Send + Sync + 'static> Config for SC {}

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
    /// Where the time and the bytes went.
    pub report: Report,
}

/// Why a proof is rejected.
#[derive(Debug, PartialEq, Eq)]
pub enum Rejection {
    /// It does not have the shape of a proof of this statement.
    Malformed(String),
    /// Upstream's verifier rejected it, for this reason.
    Refused(String),
    /// It takes more memory than may be taken, which this is.
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

/// Deserializes upstream's type from the bytes of a proof file.
pub(crate) fn decode<T: Serialize + DeserializeOwned>(proof: &[u8], memory: usize) -> Result<T, Rejection> {
    Ok(bounded::from_bytes(proof, Bounds { memory, largest: u32::MAX })?)
}

pub(crate) fn encode(value: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(value).expect("a proof is plain data")
}

/// Field elements for public values, which must be canonical.
pub(crate) fn elements<V: PrimeField64>(values: &[u64]) -> Result<Vec<V>, Rejection> {
    let element = |&value: &u64| {
        let refuse = || Rejection::Malformed(format!("public value {value} is not below the field's order"));
        if value < V::ORDER_U64 { Ok(V::from_u64(value)) } else { Err(refuse()) }
    };
    values.iter().map(element).collect()
}

/// A copy with capacity for the extension, which upstream's transforms then compute in place.
pub(crate) fn roomy<V: Clone + Send + Sync>(trace: &RowMajorMatrix<V>, log_blowup: usize) -> RowMajorMatrix<V> {
    let mut values = Vec::with_capacity(trace.values.len() << log_blowup);
    values.extend_from_slice(&trace.values);
    RowMajorMatrix::new(values, trace.width)
}

/// A trace, column-major on the device, usable on any of its streams; with several devices, blocks of its rows, or all
/// of it on the first if it has fewer rows than there are devices.
pub(crate) fn upload<'d, V: DeviceField>(
    devices: impl Iterator<Item = &'d Device>,
    trace: &RowMajorMatrix<V>,
) -> Result<Vec<Matrix<V::Device>>, Failure> {
    let devices: Vec<&Device> = devices.collect();
    if devices.is_empty() {
        return Err("the prover has no device".into());
    }
    let blocks = if trace.height() < devices.len() { 1 } else { devices.len() };
    let upload = |(device, rows): (&Device, &[V])| {
        let stream = device.compute()?;
        let rows = stream.upload(V::as_device(rows))?;
        let matrix = permute::to_columns(&stream, &rows, trace.width)?;
        stream.synchronize()?;
        Ok(matrix)
    };
    devices.into_iter().zip(trace.values.chunks(trace.values.len() / blocks)).map(upload).collect()
}

/// The trace of which these are the blocks.
pub(crate) fn resident<V: DeviceField>(blocks: &[Matrix<V::Device>]) -> Trace<'_, V> {
    match blocks {
        [whole] => Trace::Device(whole),
        blocks => Trace::Blocks(blocks),
    }
}
