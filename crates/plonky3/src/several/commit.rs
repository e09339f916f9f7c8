//! Commitments over several devices: subtrees over the rows of each, and the top that joins them.
//!
//! A matrix whose extended rows are at least as many as the devices is in blocks, and block k is in subtree k: at its
//! leaves, or at the layer of its height. Shorter matrices are on the first device. Their heights lie above the
//! subtrees' roots, so their rows join in the top.

use std::cmp::Reverse;
use std::ops::Range;

use rigel_gpu::{Piece, exchange};
use rigel_kernels::commit::merkle::MerkleTree;
use rigel_kernels::commit::rows::{self, RowsInParts};
use rigel_kernels::field::Field;
use rigel_kernels::{Columns, Matrix};

use super::extend::{Source, devices_of, extend};
use super::rows::RowBlocks;
use super::team::Team;
use crate::base::error::Result;
use crate::columns::extended::Extended;
use crate::columns::trace::Trace;
use crate::prover::Prover;
use crate::upstream::config::{Base, DeviceConfig};

/// A commitment of which each device has a block of rows.
pub(crate) struct Shares<SC: DeviceConfig> {
    /// The blocks of each matrix, one a device, or all of it on the first device.
    matrices: Vec<Vec<Extended<'static, SC>>>,
    /// The subtrees over the devices' blocks, or the whole tree on the first device if no matrix is in blocks.
    pub(crate) trees: Vec<MerkleTree<SC::Hash>>,
    /// The tree above the subtrees, on the first device, if the cap is above them.
    pub(crate) top: Option<MerkleTree<SC::Hash>>,
    pub(crate) cap: SC::Commitment,
}

impl<SC: DeviceConfig> Shares<SC> {
    /// Commits to extended matrices, each given as its blocks, or as a whole on the first device.
    pub(crate) fn new(team: &Team<'_, SC>, matrices: Vec<Vec<Matrix<Base<SC>>>>) -> Result<Self> {
        let in_blocks = |k: usize| -> Vec<Columns<'_, _>> {
            matrices.iter().filter(|blocks| blocks.len() > 1).map(|blocks| (&blocks[k]).into()).collect()
        };
        let whole: Vec<Columns<'_, _>> =
            matrices.iter().filter(|blocks| blocks.len() == 1).map(|blocks| (&blocks[0]).into()).collect();
        let trees = team.phase("hash", || {
            if in_blocks(0).is_empty() {
                let first = team.first();
                return Ok(vec![MerkleTree::new(first.hashing(), &whole, first.cap_height())?]);
            }
            team.each(|(k, session)| Ok(MerkleTree::new(session.hashing(), &in_blocks(k), subtree_cap(team))?))
        })?;
        let (top, cap) = join(team, &trees, &whole)?;
        Ok(Self::made(matrices, trees, (top, cap)))
    }

    fn made(
        matrices: Vec<Vec<Matrix<Base<SC>>>>,
        trees: Vec<MerkleTree<SC::Hash>>,
        (top, cap): Joined<SC>,
    ) -> Self {
        let kept = |blocks: Vec<Matrix<_>>| blocks.into_iter().map(Extended::Whole).collect();
        let matrices = matrices.into_iter().map(kept).collect();
        Self { matrices, trees, top, cap }
    }

    /// The blocks of a matrix, one a device, or all of it on the first device.
    pub(crate) fn blocks(&self, index: usize) -> &[Extended<'static, SC>] {
        &self.matrices[index]
    }

    /// The number of matrices.
    pub(crate) fn len(&self) -> usize {
        self.matrices.len()
    }

    /// The logarithm of the number of rows of all blocks of a matrix together.
    pub(crate) fn log_rows(&self, index: usize) -> u32 {
        self.matrices[index][0].log_rows() + self.matrices[index].len().ilog2()
    }

    /// The logarithm of the number of leaves of the whole tree.
    pub(crate) fn depth(&self) -> u32 {
        self.trees[0].depth() + self.trees.len().ilog2()
    }
}

/// The cap height of a subtree: its root, if the cap of the whole is not below it.
pub(crate) fn subtree_cap<SC: DeviceConfig>(team: &Team<'_, SC>) -> u32 {
    team.first().cap_height().saturating_sub(team.log_devices())
}

/// The tree above subtrees, if there is one, and the cap.
pub(crate) type Joined<SC> = (Option<MerkleTree<<SC as DeviceConfig>::Hash>>, <SC as DeviceConfig>::Commitment);

/// The tree above subtrees of equal height, one a device, if the cap is above them; and the cap. Matrices on the first
/// device that have fewer rows than there are subtrees join there. A single subtree is the whole tree. Waits for the
/// devices.
pub(crate) fn join<SC: DeviceConfig>(
    team: &Team<'_, SC>,
    trees: &[MerkleTree<SC::Hash>],
    short: &[Columns<'_, Base<SC>>],
) -> Result<Joined<SC>> {
    let (first, log_trees) = (team.first(), trees.len().ilog2());
    if first.cap_height() >= log_trees {
        let mut digests = Vec::with_capacity(1 << first.cap_height());
        for (tree, stream) in trees.iter().zip(&team.streams) {
            digests.extend(tree.cap(stream, first.cap_height() - log_trees)?);
        }
        return Ok((None, SC::cap(digests)));
    }
    let mut roots = first.stream.alloc(trees.len())?;
    team.phase("exchange", || {
        let (mut pieces, mut rest) = (Vec::with_capacity(trees.len()), roots.view_mut());
        for (from, tree) in trees.iter().enumerate() {
            let (target, tail) = rest.split_at(1)?;
            pieces.push(Piece::new(from, 0, tree.layer(tree.depth())?, target));
            rest = tail;
        }
        Ok(exchange(&team.streams, pieces)?)
    })?;
    let top = first.phase("hash", || {
        let mut layers = vec![roots];
        let mut tallest_first = short.to_vec();
        tallest_first.sort_by_key(|matrix| Reverse(matrix.rows()));
        for group in tallest_first.chunk_by(|a, b| a.rows() == b.rows()) {
            layers.push(rows::hash(first.hashing(), group)?);
        }
        Ok(MerkleTree::from_digests(first.hashing(), &layers, first.cap_height())?)
    })?;
    let cap = SC::cap(top.cap(&first.stream, first.cap_height())?);
    Ok((Some(top), cap))
}

/// Commits to one trace with at least as many rows as there are devices. Its rows are hashed while its columns arrive.
pub(crate) fn trace<SC: DeviceConfig>(team: &Team<'_, SC>, trace: &Trace<'_, SC::Value>) -> Result<Shares<SC>> {
    let (height, width) = (trace.height(), trace.width());
    let block_rows = (height << team.first().log_blowup()) >> team.log_devices();
    let mut hashing =
        team.each(|(_, session)| Ok(RowsInParts::<SC::Hash>::new(session.hashing(), block_rows)?))?;
    let mut last = 0..0;
    let blocks = extend(team, &Source::Trace(trace), None, |blocks, columns| {
        if columns.end == width {
            last = columns.clone();
            return Ok(());
        }
        team.phase("hash", || {
            team.each(|(k, session)| Ok(hashing[k].absorb(&session.stream, part(&blocks[k], columns)?)?))
        })?;
        Ok(())
    })?;
    let mut hashing = hashing.into_iter();
    let trees = team.phase("hash", || {
        team.each(|(k, session)| {
            let (hashing, rest) = (hashing.next().expect("one for each device"), part(&blocks[k], &last)?);
            Ok(MerkleTree::from_parts(&session.stream, hashing, rest, subtree_cap(team))?)
        })
    })?;
    let joined = join(team, &trees, &[])?;
    Ok(Shares::made(vec![blocks], trees, joined))
}

/// Some columns of a block.
fn part<'a, F: Field>(block: &'a Matrix<F>, columns: &Range<usize>) -> Result<Columns<'a, F>> {
    Ok(Columns::new(block.column_range(columns.start, columns.end)?, block.rows())?)
}

/// A commitment, and of each matrix the rows that lookups read, if they do.
type CommittedTraces<SC> = (Shares<SC>, Vec<Option<RowBlocks<SC>>>);

/// Commits to several traces of any heights. Also returns the traces that lookups read, in blocks of rows.
pub(crate) fn traces<SC: DeviceConfig>(
    team: &Team<'_, SC>,
    traces: &[&Trace<'_, SC::Value>],
    is_looked_up: impl Fn(usize) -> bool,
) -> Result<CommittedTraces<SC>> {
    let (mut extended, mut kept) = (Vec::with_capacity(traces.len()), Vec::with_capacity(traces.len()));
    for (table, trace) in traces.iter().enumerate() {
        let alloc =
            || RowBlocks::alloc(team, trace.height(), trace.width(), devices_of(team.prover(), trace.height()));
        let mut rows = is_looked_up(table).then(alloc).transpose()?;
        extended.push(extend(team, &Source::Trace(trace), rows.as_mut(), |_, _| Ok(()))?);
        kept.push(rows);
    }
    Ok((Shares::new(team, extended)?, kept))
}

/// Commits to matrices in blocks of rows.
pub(crate) fn rows_in_blocks<SC: DeviceConfig>(
    team: &Team<'_, SC>,
    matrices: &[RowBlocks<SC>],
) -> Result<Shares<SC>> {
    let extend = |rows| extend(team, &Source::Rows(rows), None, |_, _| Ok(()));
    Shares::new(team, matrices.iter().map(extend).collect::<Result<_>>()?)
}

/// The preprocessed columns of a batch, shared out.
pub(crate) struct SharedTables<SC: DeviceConfig> {
    pub(crate) shares: Shares<SC>,
    /// The columns before extension, of tables with lookups, which read them.
    pub(crate) rows: Vec<Option<RowBlocks<SC>>>,
}

/// Commits to preprocessed columns.
pub(crate) fn commit_one<SC: DeviceConfig>(
    prover: &Prover<SC>,
    trace: &Trace<'_, SC::Value>,
) -> Result<Shares<SC>> {
    self::trace(&Team::new(prover)?, trace)
}

/// Commits to the preprocessed columns of a batch, given for each table that has any, and keeps the rows of those that
/// lookups may read.
pub(crate) fn commit_tables<SC: DeviceConfig>(
    prover: &Prover<SC>,
    tables: &[Trace<'_, SC::Value>],
    is_looked_up: impl Fn(usize) -> bool,
) -> Result<SharedTables<SC>> {
    let (shares, rows) = traces(&Team::new(prover)?, &tables.iter().collect::<Vec<_>>(), is_looked_up)?;
    Ok(SharedTables { shares, rows })
}
