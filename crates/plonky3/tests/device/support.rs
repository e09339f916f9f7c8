//! Proofs on both sides, and their bytes.

use p3_air::Air;
use p3_air::symbolic::SymbolicAirBuilder;
use p3_matrix::dense::RowMajorMatrix;
use p3_uni_stark::{Proof, VerifierConstraintFolder, verify};
use rigel_gpu::Device;
use rigel_plonky3::{CpuAir, DeviceConfig, Prover, Report, prove};
use serde::Serialize;

use crate::configs::Fri;

/// Runs upstream with one thread, so that its proof of work finds the smallest witness.
pub(crate) fn upstream<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(work)
}

pub(crate) fn bytes(proof: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(proof).unwrap()
}

pub(crate) fn prover<SC: DeviceConfig>(device: &Device, config: &SC, fri: Fri) -> Prover<SC> {
    Prover::new(device.clone(), config.clone(), &fri.parameters(()), fri.cap_height).unwrap()
}

/// Asserts that the device's proof of a trace is upstream's, and that upstream's verifier takes it.
pub(crate) fn check<SC, A>(
    device: &Device,
    config: &SC,
    fri: Fri,
    air: &A,
    trace: &RowMajorMatrix<SC::Value>,
    publics: &[SC::Value],
) -> Report
where
    SC: DeviceConfig + Sync,
    A: CpuAir<SC> + Air<SymbolicAirBuilder<SC::Value>> + for<'a> Air<VerifierConstraintFolder<'a, SC>> + Sync,
    Proof<SC>: Serialize + Send,
{
    let expected = upstream(|| p3_uni_stark::prove(config, air, trace.clone(), publics).unwrap());
    let proven = prove(&prover(device, config, fri), air, trace, publics).unwrap();
    verify(config, air, &proven.proof, publics).unwrap();
    assert_eq!(bytes(&proven.proof), bytes(&expected), "on {device} with {fri:?}");
    proven.report
}
