//! Parts that the statements of one table and of several share: the encoding of proofs and public values, and traces on
//! devices.

use p3_field::PrimeField64;
use p3_matrix::Matrix as _;
use p3_matrix::dense::RowMajorMatrix;
use rigel_gpu::Device;
use rigel_kernels::Matrix;
use rigel_kernels::layout::permute;
use rigel_plonky3::{DeviceConfig, DeviceField, Error, Policy, Trace};
use rigel_statements::bounded::{self, Bounds};
use rigel_statements::{Failure, OnFailure, Rejection};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A configuration whose proofs can be made on several threads and serialized.
pub trait Config: DeviceConfig<Commitment: Serialize + Send> + Send + Sync + 'static {}
impl<SC: DeviceConfig<Commitment: Serialize + Send> + Send + Sync + 'static> Config for SC {}

/// The prover's policy.
pub(crate) fn policy(on_failure: OnFailure) -> Policy {
    Policy { cpu_on_failure: on_failure == OnFailure::Cpu, ..Policy::default() }
}

/// The failure of a call of the prover. An error of the device is the engine's own type, as other provers' are.
pub(crate) fn failure(error: Error) -> Failure {
    match error {
        Error::Gpu(error) => error.into(),
        other => other.into(),
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
