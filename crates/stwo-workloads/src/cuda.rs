//! The workloads on a CUDA device.

use rigel_gpu::Device;
use rigel_stwo::{BaseColumn, ComponentSize, CudaBackend, ProofSize, or_fail, start_interaction_trace};
use stwo::core::fields::qm31::SecureField;
use stwo::core::pcs::PcsConfig;
use stwo::prover::poly::circle::CircleCoefficients;
use stwo::prover::poly::twiddles::TwiddleTree;
use stwo_constraint_framework::{FrameworkComponent, FrameworkEval};

use crate::logup::{LogUp, PendingLogUp};
use crate::lookup::Elements;
use crate::prove::FromHost;
use crate::statement::{Provable, Prover, lifted};
use crate::witness::{Evaluation, HostColumn};

impl FromHost for CudaBackend {
    /// # Panics
    /// If the device is out of memory or lost; see [`rigel_stwo::catch`].
    fn adopt(columns: &[HostColumn]) -> Vec<Evaluation<Self>> {
        or_fail(rigel_stwo::upload(columns), "upload columns")
    }

    /// # Panics
    /// As [`FromHost::adopt`].
    fn adopt_polynomials(
        columns: &[HostColumn],
        log_blowup_factor: u32,
        twiddles: &TwiddleTree<Self>,
    ) -> Vec<CircleCoefficients<Self>> {
        or_fail(rigel_stwo::upload_polynomials(columns, log_blowup_factor, twiddles), "upload columns")
    }
}

impl<E: FrameworkEval> LogUp<CudaBackend> for E {
    /// # Panics
    /// As [`FromHost::adopt`].
    fn logup(&self, columns: [Vec<&Evaluation<CudaBackend>>; 2]) -> PendingLogUp<CudaBackend> {
        const WHAT: &str = "make interaction columns";
        let [preprocessed, trace] = columns
            .map(|columns| -> Vec<&BaseColumn> { columns.into_iter().map(|column| &column.values).collect() });
        let pending = or_fail(start_interaction_trace(self, &preprocessed, &trace), WHAT);
        Box::new(|| or_fail(pending.finish(), WHAT))
    }
}

impl<E: FrameworkEval> Prover<CudaBackend> for FrameworkComponent<E> {
    fn compile(&self, device: &Device, preprocessed: &[u32]) -> rigel_gpu::Result<usize> {
        rigel_stwo::compile(device, self, preprocessed)
    }

    fn size(&self, device: &Device) -> Option<ComponentSize> {
        Some(ComponentSize::of(device, self))
    }
}

/// The facts that determine the device memory of a statement's proof.
pub fn proof_size(
    statement: &dyn Provable<CudaBackend>,
    device: &Device,
    config: PcsConfig,
    store_coefficients: bool,
) -> ProofSize {
    // Not in the base field, and all different, as the values of a proof are.
    let elements = Elements::placeholder(statement.relations());
    let sums: Vec<SecureField> =
        (0..statement.log_sizes().len() as u32).map(|i| SecureField::from_u32_unchecked(i, 5, 6, 7)).collect();
    let provers = statement.provers(&elements, &sums);
    ProofSize {
        config: lifted(statement, config),
        preprocessed: statement.preprocessed().iter().map(|column| column.domain.log_size()).collect(),
        components: provers.iter().filter_map(|prover| prover.size(device)).collect(),
        store_coefficients,
    }
}
