//! The workloads on a CUDA device.

use rigel_gpu::Device;
use rigel_stwo::{BaseColumn, CudaBackend, or_fail, start_interaction_trace};
use stwo_constraint_framework::{FrameworkComponent, FrameworkEval, ORIGINAL_TRACE_IDX};

use crate::logup::{LogUp, PendingLogUp};
use crate::prove::FromHost;
use crate::witness::{Adopted, Evaluation, HostColumn};

impl FromHost for CudaBackend {
    /// # Panics
    /// If the device is out of memory or lost; see [`rigel_stwo::catch`].
    fn adopt(columns: &[HostColumn]) -> Vec<Evaluation<Self>> {
        or_fail(rigel_stwo::upload(columns), "upload columns")
    }
}

impl<E: FrameworkEval> LogUp<CudaBackend> for FrameworkComponent<E> {
    /// # Panics
    /// As [`FromHost::adopt`].
    fn logup(&self, columns: &Adopted<CudaBackend>) -> PendingLogUp<CudaBackend> {
        let span = self.trace_locations()[ORIGINAL_TRACE_IDX];
        let trace: Vec<&BaseColumn> =
            columns.trace[span.col_start..span.col_end].iter().map(|column| &column.values).collect();
        let preprocessed: Vec<&BaseColumn> =
            self.preprocessed_column_indices().iter().map(|&index| &columns.preprocessed[index].values).collect();
        const WHAT: &str = "make interaction columns";
        let pending = or_fail(start_interaction_trace(&**self, &preprocessed, &trace), WHAT);
        Box::new(|| or_fail(pending.finish(), WHAT))
    }

    fn compile(&self, device: &Device, preprocessed: &[u32]) -> rigel_gpu::Result<usize> {
        rigel_stwo::compile(device, self, preprocessed)
    }
}
