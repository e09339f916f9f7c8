//! Compiles an AIR's kernels ahead of its first proof.

use p3_air::symbolic::{AirLayout, SymbolicExpressionExt};
use p3_field::Algebra;
use p3_uni_stark::QuotientAir;
use rigel_gpu::Device;

use crate::batch_key::{BatchKey, table_layout};
use crate::config::DeviceConfig;
use crate::constraints::Constraints;
use crate::error::{Error, Result};
use crate::fallback::CpuBatchAir;

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
    let mut kernels = 0;
    for (table, air) in airs.iter().enumerate() {
        let (rows, lookups) = (1 << key.log_rows[table], key.lookups(table));
        let constraints = Constraints::<SC>::of_air_and_lookups(air, table_layout(air, table, key), rows, lookups);
        if constraints.count() > 0 {
            kernels += constraints.program(device)?.compiled(device)?.kernels();
        }
        if let Some(fractions) = &constraints.fractions {
            kernels += fractions.denominators(device)?.compiled(device)?.kernels();
            kernels += fractions.fractions(device)?.compiled(device)?.kernels();
        }
    }
    Ok(kernels)
}
