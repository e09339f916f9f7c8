//! Proofs by upstream and by the device, compared by their bytes.

use p3_air::Air;
use p3_air::symbolic::{SymbolicAirBuilder, SymbolicExpressionExt};
use p3_batch_stark::folder::VerifierConstraintFolderWithLookups;
use p3_batch_stark::{ProverData, StarkInstance, verify_batch};
use p3_field::Algebra;
use p3_matrix::Matrix as _;
use p3_matrix::dense::RowMajorMatrix;
use p3_uni_stark::{VerifierConstraintFolder, verify_with_preprocessed};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rigel_gpu::Device;
use rigel_plonky3::{
    CpuAir, CpuBatchAir, DeviceConfig, Instance, Prover, Report, prove_batch, prove_with_preprocessed,
    setup_batch, setup_preprocessed,
};
use serde::Serialize;

use crate::configs::Fri;

/// A generator with a fixed seed, so that failures are reproducible.
pub(crate) fn rng(seed: u64) -> SmallRng {
    SmallRng::seed_from_u64(seed)
}

/// Runs upstream with one thread, so that its proof of work finds the smallest witness.
pub(crate) fn upstream<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(work)
}

pub(crate) fn bytes(proof: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(proof).unwrap()
}

pub(crate) fn log_rows<V: Clone + Send + Sync>(trace: &RowMajorMatrix<V>) -> usize {
    trace.height().trailing_zeros() as usize
}

pub(crate) fn prover<SC: DeviceConfig>(device: &Device, config: &SC, fri: Fri) -> Prover<SC> {
    Prover::new(device.clone(), config.clone(), &fri.parameters(()), fri.cap_height).unwrap()
}

/// The bytes of upstream's proof of a trace.
pub(crate) fn expected<SC, A>(
    config: &SC,
    air: &A,
    trace: &RowMajorMatrix<SC::Value>,
    publics: &[SC::Value],
) -> Vec<u8>
where
    SC: DeviceConfig + Sync,
    A: CpuAir<SC>,
{
    upstream(|| {
        let preprocessed = p3_uni_stark::setup_preprocessed(config, air, log_rows(trace)).unwrap();
        let data = preprocessed.as_ref().map(|(data, _)| data);
        bytes(&p3_uni_stark::prove_with_preprocessed(config, air, trace.clone(), publics, data).unwrap())
    })
}

/// Asserts that the device's proof of a trace equals upstream's and that upstream's verifier accepts it.
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
    A: CpuAir<SC> + Air<SymbolicAirBuilder<SC::Value>> + for<'a> Air<VerifierConstraintFolder<'a, SC>>,
{
    check_with(&prover(device, config, fri), air, trace, publics)
}

/// [`check`] with an existing prover.
pub(crate) fn check_with<SC, A>(
    prover: &Prover<SC>,
    air: &A,
    trace: &RowMajorMatrix<SC::Value>,
    publics: &[SC::Value],
) -> Report
where
    SC: DeviceConfig + Sync,
    A: CpuAir<SC> + Air<SymbolicAirBuilder<SC::Value>> + for<'a> Air<VerifierConstraintFolder<'a, SC>>,
{
    let config = prover.config();
    let expected = expected(config, air, trace, publics);
    let preprocessed = setup_preprocessed(prover, air, log_rows(trace)).unwrap();
    let proven = prove_with_preprocessed(prover, air, trace, publics, preprocessed.as_ref()).unwrap();
    let key = preprocessed.as_ref().map(|preprocessed| preprocessed.verifier_key());
    let (rows, width) = (trace.height(), trace.width());
    assert!(bytes(&proven.proof) == expected, "the proofs of {rows} rows of {width} columns differ");
    verify_with_preprocessed(config, air, &proven.proof, publics, key).unwrap();
    proven.report
}

/// A table of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Filled<A, V: Clone + Send + Sync> {
    pub(crate) air: A,
    pub(crate) trace: RowMajorMatrix<V>,
    pub(crate) publics: Vec<V>,
}

pub(crate) fn instances<'a, SC: DeviceConfig, A>(tables: &'a [Filled<A, SC::Value>]) -> Vec<Instance<'a, SC, A>> {
    tables.iter().map(|table| Instance::new(&table.air, &table.trace, table.publics.clone())).collect()
}

pub(crate) fn heights<A, V: Clone + Send + Sync>(tables: &[Filled<A, V>]) -> Vec<usize> {
    tables.iter().map(|table| log_rows(&table.trace)).collect()
}

pub(crate) fn airs<A: Clone, V: Clone + Send + Sync>(tables: &[Filled<A, V>]) -> Vec<A> {
    tables.iter().map(|table| table.air.clone()).collect()
}

/// The bytes of upstream's proof of a batch.
pub(crate) fn expected_batch<SC, A>(config: &SC, tables: &[Filled<A, SC::Value>]) -> Vec<u8>
where
    SC: DeviceConfig + Sync,
    A: CpuBatchAir<SC>,
    SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
{
    upstream(|| {
        // Upstream takes the heights of the committed matrices: those of a hiding proof are twice as high.
        let heights: Vec<usize> = heights(tables).iter().map(|height| height + usize::from(SC::HIDING)).collect();
        let data = ProverData::from_airs_and_degrees(config, &airs(tables), &heights).unwrap();
        let mut instances: Vec<StarkInstance<'_, SC, A>> = Vec::with_capacity(tables.len());
        for Filled { air, trace, publics } in tables {
            instances.push(StarkInstance { air, trace, public_values: publics.clone() });
        }
        bytes(&p3_batch_stark::prove_batch(config, &instances, &data).unwrap())
    })
}

/// Asserts that the device's proof of a batch equals upstream's and that upstream's verifier accepts it. Returns
/// the number of lookup columns of each table, without the running sum.
pub(crate) fn check_batch<SC, A>(
    device: &Device,
    config: &SC,
    fri: Fri,
    tables: &[Filled<A, SC::Value>],
) -> Vec<usize>
where
    SC: DeviceConfig + Sync,
    A: CpuBatchAir<SC> + for<'a> Air<VerifierConstraintFolderWithLookups<'a, SC>>,
    SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
{
    check_batch_with(&prover(device, config, fri), tables)
}

/// [`check_batch`] with an existing prover.
pub(crate) fn check_batch_with<SC, A>(prover: &Prover<SC>, tables: &[Filled<A, SC::Value>]) -> Vec<usize>
where
    SC: DeviceConfig + Sync,
    A: CpuBatchAir<SC> + for<'a> Air<VerifierConstraintFolderWithLookups<'a, SC>>,
    SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
{
    let expected = expected_batch(prover.config(), tables);
    let airs = airs(tables);
    let key = setup_batch(prover, &airs, &heights(tables)).unwrap();
    let proven = prove_batch(prover, &instances(tables), &key).unwrap();
    let devices = prover.devices().count();
    assert!(bytes(&proven.proof) == expected, "the proofs of {} tables on {devices} devices differ", tables.len());
    let publics: Vec<Vec<SC::Value>> = tables.iter().map(|table| table.publics.clone()).collect();
    verify_batch(prover.config(), &airs, &proven.proof, &publics, key.common()).unwrap();
    key.common().lookups.iter().map(|lookups| lookups.len()).collect()
}
