//! Commitments: columns extended to a coset of the larger domain, and a Merkle tree over their rows.

use std::cmp::Reverse;
use std::ops::Range;

use p3_matrix::Matrix as _;
use p3_matrix::dense::RowMajorMatrix;
use rigel_gpu::{Buffer, Fetch, Result as GpuResult};
use rigel_kernels::commit::merkle::MerkleTree;
use rigel_kernels::commit::rows::RowsInParts;
use rigel_kernels::field::Field;
use rigel_kernels::layout::parts::Parts;
use rigel_kernels::layout::permute;
use rigel_kernels::transform::ntt::{self, Order};
use rigel_kernels::{Columns, Matrix};

use crate::base::error::Result;
use crate::columns::extended::{Extended, extend_all};
use crate::columns::masks;
use crate::columns::masks::{Masked, Trees};
use crate::columns::parked::Parking;
use crate::columns::trace::Resident;
use crate::prover::session::Session;
use crate::upstream::config::{Base, DeviceConfig, Digest};

/// Committed matrices: their extended columns, and the tree over their rows.
pub(crate) struct Committed<'a, SC: DeviceConfig> {
    pub(crate) ldes: Vec<Extended<'a, SC>>,
    pub(crate) tree: MerkleTree<SC::Hash>,
    /// The random columns of each matrix that only its tree contains, if the commitment hides.
    pub(crate) salts: Vec<Matrix<Base<SC>>>,
    /// The cap on its way to the host, until it is asked for: the launch that sends it is submitted with the tree's.
    cap: Option<Fetch<Digest<SC>>>,
}

impl<'a, SC: DeviceConfig> Committed<'a, SC> {
    /// Commits to traces, given on the subgroups of their heights in natural order. With masks, if the configuration
    /// hides.
    pub(crate) fn extend(session: &Session<'_, SC>, traces: &[Columns<'_, Base<SC>>]) -> Result<Self> {
        let ldes = session.phase("extend", || extend_traces(session, traces))?;
        Self::new(session, ldes)
    }

    /// [`Self::extend`] for preprocessed columns, which are never masked.
    pub(crate) fn public(session: &Session<'_, SC>, traces: &[Columns<'_, Base<SC>>]) -> Result<Self> {
        if !SC::HIDING {
            return Self::extend(session, traces);
        }
        let extend = |&trace| Masked::public(session, trace)?.extend(session);
        let ldes = session.phase("extend", || traces.iter().map(extend).collect::<Result<_>>())?;
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
        let mut parts = parts::<SC>(rows, width);
        // Double buffering: one part is uploaded while the other is read.
        let largest = parts.largest();
        let rooms = (0..if largest < width { 2 } else { 1 }).map(|_| stream.alloc(rows * largest));
        let mut rooms = rooms.collect::<GpuResult<Vec<_>>>()?;
        let mut free = [stream.record()?, stream.record()?];
        let mut uploading = session.turn_to_upload(size_of_val(&trace.values[..]));
        let mut turn = 0;
        loop {
            let Range { start: first, end } = parts.next().expect("the last part returns");
            let mut room = rooms[turn].range_mut(..rows * (end - first))?;
            session.bring(room.reborrow(), trace, first..end, &free[turn])?;
            if end == width {
                drop(uploading.take());
            }
            session.phase("extend", || {
                let columns = permute::to_columns(stream, room.view(), end - first)?;
                free[turn] = stream.record()?;
                let to = lde.column_range_mut(first, end)?;
                let shift = Base::<SC>::GENERATOR;
                Ok(ntt::extend_into(stream, to, &columns, session.log_blowup(), shift, Order::Natural)?)
            })?;
            let arrived = Columns::new(lde.column_range(first, end)?, height)?;
            if end == width {
                let (tree, cap) = session.phase("hash", || {
                    let tree = MerkleTree::from_parts(stream, hashing, arrived, session.cap_height())?;
                    let cap = tree.fetch_cap(stream, session.cap_height())?;
                    Ok((tree, Some(cap)))
                })?;
                return Ok(Self { ldes: vec![Extended::Whole(lde)], tree, salts: Vec::new(), cap });
            }
            session.phase("hash", || Ok(hashing.absorb(stream, arrived)?))?;
            turn = 1 - turn;
        }
    }

    /// Commits to matrices that are already extended.
    pub(crate) fn new(session: &Session<'_, SC>, ldes: Vec<Matrix<Base<SC>>>) -> Result<Self> {
        let (tree, salts, cap) = session.phase("hash", || {
            let salts = ldes.iter().map(|lde| masks::salts(session, Trees::Input, lde.rows()));
            let salts: Vec<Option<Matrix<_>>> = salts.collect::<Result<_>>()?;
            // A leaf has the row of each matrix, followed by its salt.
            let with_salts = ldes.iter().zip(&salts).flat_map(|(lde, salts)| std::iter::once(lde).chain(salts));
            let matrices: Vec<Columns<'_, _>> = with_salts.map(Into::into).collect();
            let tree = MerkleTree::new(session.hashing(), &matrices, session.cap_height())?;
            let cap = tree.fetch_cap(&session.stream, session.cap_height())?;
            Ok((tree, salts.into_iter().flatten().collect(), Some(cap)))
        })?;
        Ok(Self { ldes: ldes.into_iter().map(Extended::Whole).collect(), tree, salts, cap })
    }

    /// Commits to traces whose extensions do not fit in memory: extends and hashes `batch` columns at a time and
    /// discards them. `batch` is a multiple of the hash's block.
    pub(crate) fn in_batches(
        session: &Session<'_, SC>,
        traces: Vec<Resident<'a, SC::Value>>,
        batch: usize,
    ) -> Result<Self> {
        let log_blowup = session.log_blowup();
        let extended = |trace| Extended::InBatches { trace, batch, log_blowup };
        let shape = |trace: &Resident<'_, _>| trace.on_device().err().map(|it| (it.rows(), it.width()));
        let parked: Vec<(usize, usize)> = traces.iter().filter_map(shape).collect();
        let mut parking = match parked.is_empty() {
            true => None,
            false => Some(Parking::new(session, &parked, batch)?),
        };
        let mut ldes: Vec<Extended<'a, SC>> = traces.into_iter().map(extended).collect();
        let salts = ldes.iter().map(|lde| masks::salts(session, Trees::Input, lde.rows()));
        let salts: Vec<Option<Extended<'a, SC>>> =
            salts.map(|salts| Ok(salts?.map(Extended::Whole))).collect::<Result<_>>()?;
        let mut heights: Vec<usize> = ldes.iter().map(Extended::rows).collect();
        heights.sort_unstable_by_key(|&rows| Reverse(rows));
        heights.dedup();
        let tree = session.phase("extend and hash", || {
            // Traces on the host of one height arrive while those of the height before are extended and hashed.
            let of_height = |&rows: &usize| {
                for lde in ldes.iter_mut().filter(|lde| lde.rows() == rows) {
                    if let (Extended::InBatches { trace: Resident::Parked(parked), .. }, Some(parking)) =
                        (lde, &mut parking)
                    {
                        parked.fill(session, parking)?;
                    }
                }
                let with_salts = ldes.iter().zip(&salts).filter(|(lde, _)| lde.rows() == rows);
                let row: Vec<_> = with_salts.flat_map(|(lde, salts)| std::iter::once(lde).chain(salts)).collect();
                hash_in_batches(session, &row, batch)
            };
            let digests = heights.iter().map(of_height).collect::<Result<Vec<_>>>()?;
            drop(parking);
            Ok(MerkleTree::from_digests(session.hashing(), &digests, session.cap_height())?)
        })?;
        let salts = salts.into_iter().flatten().map(|salts| match salts {
            Extended::Whole(matrix) => matrix,
            Extended::InBatches { .. } => unreachable!("salts are made as a whole"),
        });
        let salts = salts.collect();
        Ok(Self { ldes, tree, salts, cap: None })
    }

    /// A matrix that is extended as a whole.
    pub(crate) fn whole(&self, index: usize) -> &Matrix<Base<SC>> {
        self.ldes[index].whole()
    }

    /// The commitment. Waits for the device.
    pub(crate) fn cap(&mut self, session: &Session<'_, SC>) -> Result<SC::Commitment> {
        match self.cap.take() {
            Some(cap) => Ok(SC::cap(cap.wait()?)),
            None => cap::<SC>(session, &self.tree),
        }
    }
}

/// Traces on the coset, with masks if the configuration hides.
pub(crate) fn extend_traces<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    traces: &[Columns<'_, Base<SC>>],
) -> Result<Vec<Matrix<Base<SC>>>> {
    if let Some(hiding) = session.prover.hiding_streams() {
        return traces.iter().map(|&trace| Masked::new(session, hiding, trace)?.extend(session)).collect();
    }
    let matrices = traces.iter().map(|&trace| (trace, Base::<SC>::GENERATOR));
    Ok(extend_all(session, matrices, Order::Natural)?)
}

/// The digests of the rows of matrices of one height, one after the other, `batch` columns at a time.
fn hash_in_batches<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    matrices: &[&Extended<'_, SC>],
    batch: usize,
) -> Result<Buffer<Digest<SC>>> {
    let (stream, rows) = (&session.stream, matrices[0].rows());
    let mut missing: usize = matrices.iter().map(|matrix| matrix.columns()).sum();
    let mut hashing = RowsInParts::<SC::Hash>::new(session.hashing(), rows)?;
    let mut part = Matrix::alloc(stream, rows, batch.min(missing))?;
    let mut filled = 0;
    for matrix in matrices {
        // The columns of a batch may be of several matrices.
        matrix.write_each(session, batch - filled, batch, |columns, write| {
            write(part.column_range_mut(filled, filled + columns)?)?;
            (filled, missing) = (filled + columns, missing - columns);
            if filled == batch && missing > 0 {
                hashing.absorb(stream, (&part).into())?;
                filled = 0;
            }
            Ok(())
        })?;
    }
    Ok(hashing.finish(stream, Columns::new(part.column_range(0, filled)?, rows)?)?)
}

/// The parts in which a trace of one table is uploaded, in whole blocks of the hash.
pub(crate) fn parts<SC: DeviceConfig>(rows: usize, width: usize) -> Parts {
    Parts::new(width, rows * size_of::<Base<SC>>(), RowsInParts::<SC::Hash>::block::<Base<SC>>())
}

/// The commitment to a tree. Waits for the device.
pub(crate) fn cap<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    tree: &MerkleTree<SC::Hash>,
) -> Result<SC::Commitment> {
    Ok(SC::cap(tree.cap(&session.stream, session.cap_height())?))
}
