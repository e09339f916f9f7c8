//! Commitments: columns extended to the coset of the large domain, and a tree over their rows.

use std::ops::Range;

use p3_matrix::Matrix as _;
use p3_matrix::dense::RowMajorMatrix;
use rigel_gpu::Result as GpuResult;
use rigel_kernels::field::Field;
use rigel_kernels::merkle::MerkleTree;
use rigel_kernels::ntt::{self, Order};
use rigel_kernels::rows::RowsInParts;
use rigel_kernels::{Columns, Matrix, permute};

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

    /// Commits to one trace on the host, in parts: while some columns travel, those before them are extended and
    /// hashed.
    pub(crate) fn arriving(session: &Session<'_, SC>, trace: &RowMajorMatrix<SC::Value>) -> Result<Self> {
        let stream = &session.stream;
        let (rows, width) = (trace.height(), trace.width());
        let height = rows << session.log_blowup();
        let mut lde = Matrix::alloc(stream, height, width)?;
        let mut hashing = RowsInParts::<SC::Hash>::new(stream, height)?;
        let part = part_columns::<SC>(rows, width);
        let mut first = 0;
        while width - first > part {
            extend_part(session, trace, first..first + part, &mut lde)?;
            session.phase("hash", || {
                Ok(hashing.absorb(stream, Columns::new(lde.column_range(first, first + part)?, height)?)?)
            })?;
            first += part;
        }
        extend_part(session, trace, first..width, &mut lde)?;
        let tree = session.phase("hash", || {
            let rest = Columns::new(lde.column_range(first, width)?, height)?;
            Ok(MerkleTree::from_parts(stream, hashing, rest)?)
        })?;
        Ok(Self { ldes: vec![lde], tree })
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

/// The columns of a part of a trace: an eighth, more where that is little to send, in whole blocks of the hash.
fn part_columns<SC: DeviceConfig>(rows: usize, width: usize) -> usize {
    const PARTS: usize = 8;
    const LEAST_BYTES: usize = 32 << 20;
    let bytes = size_of::<Base<SC>>();
    let block = RowsInParts::<SC::Hash>::block::<Base<SC>>();
    width.div_ceil(PARTS).max(LEAST_BYTES / (rows * bytes)).next_multiple_of(block)
}

/// Brings some columns of a trace and extends them in their place.
fn extend_part<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    trace: &RowMajorMatrix<SC::Value>,
    columns: Range<usize>,
    lde: &mut Matrix<Base<SC>>,
) -> Result<()> {
    let stream = &session.stream;
    let arriving = session.bring(trace, columns.clone())?;
    session.phase("extend", || {
        let part = permute::to_columns(stream, &arriving, columns.len())?;
        let to = lde.column_range_mut(columns.start, columns.end)?;
        Ok(ntt::extend_into(stream, to, &part, session.log_blowup(), Base::<SC>::GENERATOR, Order::Natural)?)
    })
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
