//! Commitments: columns extended to the coset of the large domain, and a tree over their rows.

use rigel_gpu::Result as GpuResult;
use rigel_kernels::field::Field;
use rigel_kernels::merkle::MerkleTree;
use rigel_kernels::ntt::{self, Order};
use rigel_kernels::{Columns, Matrix};

use crate::config::{Base, DeviceConfig};
use crate::error::Result;
use crate::prover::Session;

/// Committed matrices: their evaluations on `g K`, bit-reversed, and the tree over their rows.
pub(crate) struct Committed<SC: DeviceConfig> {
    pub(crate) ldes: Vec<Matrix<Base<SC>>>,
    pub(crate) tree: MerkleTree<SC::Hash>,
}

impl<SC: DeviceConfig> Committed<SC> {
    /// Commits to traces, given on the subgroups of their heights in natural order.
    pub(crate) fn extend(session: &Session<'_, SC>, traces: &[Columns<'_, Base<SC>>]) -> Result<Self> {
        let shift = Base::<SC>::GENERATOR;
        let ldes = session.phase("extend", || {
            let extend = |&trace| extended(session, trace, shift, Order::Natural);
            Ok(traces.iter().map(extend).collect::<GpuResult<_>>()?)
        })?;
        Self::new(session, ldes)
    }

    /// Commits to matrices that are already extended.
    pub(crate) fn new(session: &Session<'_, SC>, ldes: Vec<Matrix<Base<SC>>>) -> Result<Self> {
        let tree = session.phase("hash", || {
            let matrices: Vec<Columns<'_, _>> = ldes.iter().map(Into::into).collect();
            Ok(MerkleTree::new(&session.stream, &matrices)?)
        })?;
        Ok(Self { ldes, tree })
    }

    /// The commitment. Waits for the device.
    pub(crate) fn cap(&self, session: &Session<'_, SC>) -> Result<SC::Commitment> {
        cap::<SC>(session, &self.tree)
    }
}

/// The commitment to a tree. Waits for the device.
pub(crate) fn cap<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    tree: &MerkleTree<SC::Hash>,
) -> Result<SC::Commitment> {
    Ok(SC::cap(tree.cap(&session.stream, session.prover.cap_height as u32)?))
}

/// The evaluations on `shift` times the large subgroup, bit-reversed.
pub(crate) fn extended<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    evaluations: Columns<'_, Base<SC>>,
    shift: Base<SC>,
    order: Order,
) -> GpuResult<Matrix<Base<SC>>> {
    ntt::extend(&session.stream, evaluations, session.log_blowup(), shift, order, Order::BitReversed)
}
