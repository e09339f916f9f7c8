//! Commitments: columns extended to a coset of the larger domain, and a Merkle tree over their rows.

use p3_matrix::Matrix as _;
use p3_matrix::dense::RowMajorMatrix;
use rigel_gpu::Result as GpuResult;
use rigel_kernels::commit::merkle::MerkleTree;
use rigel_kernels::commit::rows::RowsInParts;
use rigel_kernels::field::Field;
use rigel_kernels::layout::permute;
use rigel_kernels::transform::ntt::{self, Order};
use rigel_kernels::{Columns, Matrix};

use crate::config::{Base, DeviceConfig};
use crate::error::Result;
use crate::extended::{Extended, extend};
use crate::prover::Session;
use crate::trace::Resident;

/// Committed matrices: their extended columns, and the tree over their rows.
pub(crate) struct Committed<'a, SC: DeviceConfig> {
    pub(crate) ldes: Vec<Extended<'a, SC>>,
    pub(crate) tree: MerkleTree<SC::Hash>,
}

impl<'a, SC: DeviceConfig> Committed<'a, SC> {
    /// Commits to traces, given on the subgroups of their heights in natural order.
    pub(crate) fn extend(session: &Session<'_, SC>, traces: &[Columns<'_, Base<SC>>]) -> Result<Self> {
        let shift = Base::<SC>::GENERATOR;
        let ldes = session.phase("extend", || {
            let extend = |&trace| extend(session, trace, shift, Order::Natural);
            Ok(traces.iter().map(extend).collect::<GpuResult<_>>()?)
        })?;
        Self::new(session, ldes)
    }

    /// Commits to one trace on the host, in parts: the upload of one part overlaps the extension and hashing of
    /// the previous one.
    pub(crate) fn arriving(session: &Session<'_, SC>, trace: &RowMajorMatrix<SC::Value>) -> Result<Self> {
        let stream = &session.stream;
        let (rows, width) = (trace.height(), trace.width());
        let height = rows << session.log_blowup();
        let mut lde = Matrix::alloc(stream, height, width)?;
        let mut hashing = RowsInParts::<SC::Hash>::new(session.hashing(), height)?;
        let part = part_columns::<SC>(rows, width).min(width);
        // Double buffering: one part is uploaded while the other is read.
        let rooms = (0..if part < width { 2 } else { 1 }).map(|_| stream.alloc(rows * part));
        let mut rooms = rooms.collect::<GpuResult<Vec<_>>>()?;
        let mut free = [stream.record()?, stream.record()?];
        let mut first = 0;
        loop {
            let end = width.min(first + part);
            let turn = first / part % 2;
            let mut room = rooms[turn].range_mut(..rows * (end - first))?;
            session.bring(room.reborrow(), trace, first..end, &free[turn])?;
            session.phase("extend", || {
                let columns = permute::to_columns(stream, room.view(), end - first)?;
                free[turn] = stream.record()?;
                let to = lde.column_range_mut(first, end)?;
                let shift = Base::<SC>::GENERATOR;
                Ok(ntt::extend_into(stream, to, &columns, session.log_blowup(), shift, Order::Natural)?)
            })?;
            let arrived = Columns::new(lde.column_range(first, end)?, height)?;
            if end == width {
                let tree = session.phase("hash", || {
                    Ok(MerkleTree::from_parts(stream, hashing, arrived, session.cap_height())?)
                })?;
                return Ok(Self { ldes: vec![Extended::Whole(lde)], tree });
            }
            session.phase("hash", || Ok(hashing.absorb(stream, arrived)?))?;
            first = end;
        }
    }

    /// Commits to matrices that are already extended.
    pub(crate) fn new(session: &Session<'_, SC>, ldes: Vec<Matrix<Base<SC>>>) -> Result<Self> {
        let tree = session.phase("hash", || {
            let matrices: Vec<Columns<'_, _>> = ldes.iter().map(Into::into).collect();
            Ok(MerkleTree::new(session.hashing(), &matrices, session.cap_height())?)
        })?;
        Ok(Self { ldes: ldes.into_iter().map(Extended::Whole).collect(), tree })
    }

    /// Commits to one trace whose extension does not fit in memory: extends and hashes `batch` columns at a time
    /// and discards them. `batch` is a multiple of the hash's block.
    pub(crate) fn in_batches(
        session: &Session<'_, SC>,
        trace: Resident<'a, SC::Value>,
        batch: usize,
    ) -> Result<Self> {
        let stream = &session.stream;
        let extended = Extended::InBatches { trace, batch, log_blowup: session.log_blowup() };
        let mut hashing = Some(RowsInParts::<SC::Hash>::new(session.hashing(), extended.rows())?);
        let mut tree = None;
        session.phase("extend and hash", || {
            extended.each(session, |first, lde| {
                let mut rows = hashing.take().expect("put back until the last batch");
                if first + lde.columns() < extended.columns() {
                    rows.absorb(stream, lde.into())?;
                    hashing = Some(rows);
                } else {
                    tree = Some(MerkleTree::from_parts(stream, rows, lde.into(), session.cap_height())?);
                }
                Ok(())
            })
        })?;
        let tree = tree.expect("a trace has at least one column");
        Ok(Self { ldes: vec![extended], tree })
    }

    /// A matrix that is extended as a whole.
    pub(crate) fn whole(&self, index: usize) -> &Matrix<Base<SC>> {
        match &self.ldes[index] {
            Extended::Whole(matrix) => matrix,
            Extended::InBatches { .. } => unreachable!("only a single trace is extended in batches"),
        }
    }

    /// The commitment. Waits for the device.
    pub(crate) fn cap(&self, session: &Session<'_, SC>) -> Result<SC::Commitment> {
        cap::<SC>(session, &self.tree)
    }
}

/// The number of columns per part of an upload: a quarter of them, more if that is little data, rounded to the
/// hash's block.
pub(crate) fn part_columns<SC: DeviceConfig>(rows: usize, width: usize) -> usize {
    const PARTS: usize = 4;
    const LEAST_BYTES: usize = 32 << 20;
    let bytes = size_of::<Base<SC>>();
    let block = RowsInParts::<SC::Hash>::block::<Base<SC>>();
    width.div_ceil(PARTS).max(LEAST_BYTES / (rows * bytes)).next_multiple_of(block)
}

/// The commitment to a tree. Waits for the device.
pub(crate) fn cap<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    tree: &MerkleTree<SC::Hash>,
) -> Result<SC::Commitment> {
    Ok(SC::cap(tree.cap(&session.stream, session.cap_height())?))
}
