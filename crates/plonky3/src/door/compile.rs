//! Compiles an AIR's kernels ahead of its first proof.

use std::panic::resume_unwind;
use std::sync::Arc;

use p3_air::symbolic::{AirLayout, SymbolicExpressionExt};
use p3_field::Algebra;
use p3_uni_stark::QuotientAir;
use rigel_codegen::GraphProgram;
use rigel_gpu::Device;

use crate::air::constraints::Constraints;
use crate::air::provable::CpuBatchAir;
use crate::base::error::{Error, Result};
use crate::keys::batch_key::{BatchKey, table_layout};
use crate::prover::Prover;
use crate::upstream::config::{DeviceConfig, Ext};

/// Compiles the kernels of an AIR's constraints for a device, or finds them in its cache, so that no proof waits for a
/// compiler, unless its trace is extended in batches of columns. Returns the number of kernels.
///
/// Calling it is optional. The device may be one that only compiles ([`Device::compile_only`]): the cache is then
/// filled on a machine without a GPU. Kernels that do not depend on the AIR are compiled by [`rigel_kernels::warm`].
pub fn compile<SC: DeviceConfig, A: QuotientAir<SC>>(device: &Device, air: &A) -> Result<usize> {
    // The number of rows matters to the degree, not to kernels; there are at least as many as a column's period.
    let rows = air.periodic_columns().iter().map(Vec::len).max().unwrap_or(1);
    let constraints = Constraints::<SC>::of_air(air, AirLayout::from_air::<SC::Value>(air), rows);
    if constraints.count() == 0 {
        return Ok(0);
    }
    Ok(constraints.program(device)?.compiled(device)?.kernels())
}

/// [`compile`] for the constraints and lookups of a batch. The key may be one of a prover without a device.
pub fn compile_batch<SC, A>(device: &Device, airs: &[A], key: &BatchKey<SC>) -> Result<usize>
where
    SC: DeviceConfig,
    A: CpuBatchAir<SC>,
    SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
{
    if airs.len() != key.log_rows.len() {
        return Err(Error::BatchLength { expected: key.log_rows.len(), found: airs.len() });
    }
    let mut programs = Vec::with_capacity(3 * airs.len());
    for (table, air) in airs.iter().enumerate() {
        let (rows, lookups) = (1 << key.log_rows[table], key.lookups(table));
        let constraints = Constraints::<SC>::of_air_and_lookups(air, table_layout(air, table, key), rows, lookups);
        if constraints.count() > 0 {
            programs.push(constraints.program(device)?);
        }
        if let Some(fractions) = &constraints.fractions {
            programs.push(fractions.denominators(device)?);
            programs.push(fractions.fractions(device)?);
        }
    }
    // All at once: a small table has fewer kernels than the host has cores.
    let compiled: Vec<Result<usize>> = std::thread::scope(|scope| {
        let compile = |program: &Arc<GraphProgram<Ext<SC>>>| Ok(program.compiled(device)?.kernels());
        let running: Vec<_> = programs.iter().map(|program| scope.spawn(move || compile(program))).collect();
        running.into_iter().map(|one| one.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    compiled.into_iter().sum()
}

impl<SC: DeviceConfig> Prover<SC> {
    /// [`compile`] for this prover's device. Nothing is compiled for the CPU.
    pub fn compile<A: QuotientAir<SC>>(&self, air: &A) -> Result<usize> {
        self.device().map_or(Ok(0), |device| compile::<SC, A>(device, air))
    }

    /// [`compile_batch`] for this prover's device: the kernels of all tables at once, before the first trace.
    pub fn compile_batch<A>(&self, airs: &[A], key: &BatchKey<SC>) -> Result<usize>
    where
        A: CpuBatchAir<SC>,
        SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
    {
        self.device().map_or(Ok(0), |device| compile_batch(device, airs, key))
    }
}
