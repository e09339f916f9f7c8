//! The constraints of a batch's tables, and the shape of its transcript.

use std::sync::Arc;

use p3_air::BaseAir;
use p3_air::symbolic::{AirLayout, SymbolicExpressionExt};
use p3_batch_stark::BatchShape;
use p3_field::Algebra;
use rigel_gpu::Device;

use crate::air::constraints::Constraints;
use crate::air::provable::CpuBatchAir;
use crate::air::readings::{Kind, Readings};
use crate::door::instance::Instance;
use crate::keys::batch_key::{BatchKey, table_layout};
use crate::prover::Prover;
use crate::upstream::config::DeviceConfig;

/// The layouts and kinds of all tables' constraints.
pub(crate) fn kinds<SC: DeviceConfig, A: BaseAir<SC::Value>>(
    instances: &[Instance<'_, SC, A>],
    key: &BatchKey<SC>,
) -> Vec<(AirLayout, Kind)> {
    let of = |(table, instance): (usize, &Instance<'_, SC, A>)| {
        let layout = table_layout(instance.air, table, key);
        (layout, Kind::new(instance.air, &layout, instance.trace.height(), Some((key.number, table))))
    };
    instances.iter().enumerate().map(of).collect()
}

/// The constraints of all tables, with their kernels and those of their lookups if a device is given. Constraints on
/// batches of columns have kernels of their own.
pub(crate) fn read_constraints<SC, A>(
    readings: &Readings<SC>,
    device: Option<&Device>,
    instances: &[Instance<'_, SC, A>],
    key: &BatchKey<SC>,
    kinds: &[(AirLayout, Kind)],
) -> Vec<Arc<Constraints<SC>>>
where
    SC: DeviceConfig,
    A: CpuBatchAir<SC>,
    SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
{
    let read = |(table, (layout, kind)): (usize, &(AirLayout, Kind))| {
        let Instance { air, trace, .. } = &instances[table];
        readings.of(kind, Readings::<SC>::structure(*air, layout), || {
            let mut constraints =
                Constraints::of_air_and_lookups(*air, *layout, trace.height(), key.lookups(table));
            if let Some(device) = device {
                constraints.compile(device);
            }
            constraints
        })
    };
    // One table after another: each is compiled on all cores.
    kinds.iter().enumerate().map(read).collect()
}

pub(crate) fn shape<SC: DeviceConfig, A: BaseAir<SC::Value>>(
    prover: &Prover<SC>,
    instances: &[Instance<'_, SC, A>],
    key: &BatchKey<SC>,
) -> BatchShape {
    BatchShape {
        trace_widths: instances.iter().map(|instance| instance.air.width()).collect(),
        public_value_counts: instances.iter().map(|instance| instance.public_values.len()).collect(),
        preprocessed_widths: (0..instances.len())
            .map(|table| key.preprocessed_of(table).map_or(0, |meta| meta.width))
            .collect(),
        has_preprocessed_commitment: key.data.common.preprocessed.is_some(),
        num_lookup_instances: key.data.common.lookups.iter().filter(|lookups| !lookups.is_empty()).count(),
        lookup_pow_bits: prover.config().lookup_proof_of_work_bits(),
        has_randomization_commitment: SC::HIDING,
        ood_pow_bits: prover.config().ood_proof_of_work_bits(),
    }
}
