//! The bounds on the AIRs of users.

use p3_air::Air;
#[cfg(debug_assertions)]
use p3_air::DebugConstraintBuilder;
use p3_batch_stark::folder::ProverConstraintFolderWithLookups;
use p3_lookup::InteractionSymbolicBuilder;
use p3_uni_stark::QuotientAir;

use crate::air::structure::StructureBuilder;
use crate::upstream::config::DeviceConfig;

/// The bounds of upstream's `prove` on an AIR, and [`StructureBuilder`], by which a prover knows an AIR again.
/// Implemented for every AIR that satisfies them, as one that is generic over its builder does.
#[cfg(debug_assertions)]
pub trait CpuAir<SC: DeviceConfig>:
    QuotientAir<SC>
    + for<'a> Air<StructureBuilder<'a, SC::Value, SC::Challenge>>
    + for<'a> Air<DebugConstraintBuilder<'a, SC::Value>>
{
}
#[cfg(debug_assertions)]
impl<SC: DeviceConfig, A> CpuAir<SC> for A where
    A: QuotientAir<SC>
        + for<'a> Air<StructureBuilder<'a, SC::Value, SC::Challenge>>
        + for<'a> Air<DebugConstraintBuilder<'a, SC::Value>>
{
}

/// The bounds of upstream's `prove` on an AIR, and [`StructureBuilder`], by which a prover knows an AIR again.
/// Implemented for every AIR that satisfies them, as one that is generic over its builder does.
#[cfg(not(debug_assertions))]
pub trait CpuAir<SC: DeviceConfig>:
    QuotientAir<SC> + for<'a> Air<StructureBuilder<'a, SC::Value, SC::Challenge>>
{
}
#[cfg(not(debug_assertions))]
impl<SC: DeviceConfig, A> CpuAir<SC> for A where
    A: QuotientAir<SC> + for<'a> Air<StructureBuilder<'a, SC::Value, SC::Challenge>>
{
}

/// The bounds of upstream's `prove_batch` on an AIR, and [`StructureBuilder`]. Implemented for every AIR that satisfies
/// them.
#[cfg(debug_assertions)]
pub trait CpuBatchAir<SC: DeviceConfig>:
    for<'a> Air<DebugConstraintBuilder<'a, SC::Value, SC::Challenge>>
    + Air<InteractionSymbolicBuilder<SC::Value, SC::Challenge>>
    + for<'a> Air<ProverConstraintFolderWithLookups<'a, SC>>
    + for<'a> Air<StructureBuilder<'a, SC::Value, SC::Challenge>>
    + Clone
{
}
#[cfg(debug_assertions)]
impl<SC: DeviceConfig, A> CpuBatchAir<SC> for A where
    A: for<'a> Air<DebugConstraintBuilder<'a, SC::Value, SC::Challenge>>
        + Air<InteractionSymbolicBuilder<SC::Value, SC::Challenge>>
        + for<'a> Air<ProverConstraintFolderWithLookups<'a, SC>>
        + for<'a> Air<StructureBuilder<'a, SC::Value, SC::Challenge>>
        + Clone
{
}

/// The bounds of upstream's `prove_batch` on an AIR, and [`StructureBuilder`]. Implemented for every AIR that satisfies
/// them.
#[cfg(not(debug_assertions))]
pub trait CpuBatchAir<SC: DeviceConfig>:
    Air<InteractionSymbolicBuilder<SC::Value, SC::Challenge>>
    + for<'a> Air<ProverConstraintFolderWithLookups<'a, SC>>
    + for<'a> Air<StructureBuilder<'a, SC::Value, SC::Challenge>>
    + Clone
{
}
#[cfg(not(debug_assertions))]
impl<SC: DeviceConfig, A> CpuBatchAir<SC> for A where
    A: Air<InteractionSymbolicBuilder<SC::Value, SC::Challenge>>
        + for<'a> Air<ProverConstraintFolderWithLookups<'a, SC>>
        + for<'a> Air<StructureBuilder<'a, SC::Value, SC::Challenge>>
        + Clone
{
}
