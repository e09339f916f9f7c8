//! Commitments over several devices: blocks of extended columns, subtrees over their rows, and the top that joins them.

use std::ops::Range;

use rigel_gpu::{Buffer, Event, Piece, exchange};
use rigel_kernels::commit::merkle::MerkleTree;
use rigel_kernels::commit::rows::RowsInParts;
use rigel_kernels::field::Ring;
use rigel_kernels::layout::permute;
use rigel_kernels::transform::ntt::{self, Order};
use rigel_kernels::transform::spread;
use rigel_kernels::{Columns, Matrix};

use super::Team;
use crate::commit::Committed;
use crate::config::{Base, DeviceConfig};
use crate::error::{Error, Result};
use crate::extended::Extended;
use crate::prover::Session;
use crate::trace::Trace;

/// A commitment of which each device has a block of rows.
pub(crate) struct Shares<SC: DeviceConfig> {
    /// By device: the block of each matrix, and the subtree over its rows.
    pub(super) committed: Vec<Committed<'static, SC>>,
    /// The tree above the subtrees, on the first device, if the cap is above them.
    pub(super) top: Option<MerkleTree<SC::Hash>>,
    pub(crate) cap: SC::Commitment,
}

impl<SC: DeviceConfig> Shares<SC> {
    /// Commits to blocks of extended matrices: those of each device.
    pub(super) fn new(team: &Team<'_, SC>, blocks: Vec<Vec<Matrix<Base<SC>>>>) -> Result<Self> {
        let trees = team.phase("hash", || {
            team.each(|(k, session)| {
                let matrices: Vec<Columns<'_, _>> = blocks[k].iter().map(Into::into).collect();
                Ok(MerkleTree::new(session.hashing(), &matrices, subtree_cap(team))?)
            })
        })?;
        Self::joined(team, blocks, trees)
    }

    fn joined(
        team: &Team<'_, SC>,
        blocks: Vec<Vec<Matrix<Base<SC>>>>,
        trees: Vec<MerkleTree<SC::Hash>>,
    ) -> Result<Self> {
        let (top, cap) = join(team, &trees)?;
        let share = |(blocks, tree): (Vec<Matrix<Base<SC>>>, _)| {
            let ldes = blocks.into_iter().map(Extended::Whole).collect();
            Committed { ldes, tree, salts: Vec::new() }
        };
        Ok(Self { committed: blocks.into_iter().zip(trees).map(share).collect(), top, cap })
    }

    /// The number of devices that have a block.
    pub(crate) fn devices(&self) -> usize {
        self.committed.len()
    }

    /// The block of matrix `index` on device k.
    pub(super) fn block(&self, k: usize, index: usize) -> &Matrix<Base<SC>> {
        self.committed[k].whole(index)
    }

    /// The logarithm of the number of rows of all blocks together.
    pub(super) fn log_rows(&self) -> u32 {
        self.block(0, 0).rows().ilog2() + self.devices().ilog2()
    }
}

/// The cap height of a subtree: its root, if the cap of the whole is not below it.
pub(super) fn subtree_cap<SC: DeviceConfig>(team: &Team<'_, SC>) -> u32 {
    team.first().cap_height().saturating_sub(team.log_devices())
}

/// The tree above subtrees, if there is one, and the cap.
pub(super) type Joined<SC> = (Option<MerkleTree<<SC as DeviceConfig>::Hash>>, <SC as DeviceConfig>::Commitment);

/// The tree above subtrees of equal height, one a device, if the cap is above them; and the cap. A single subtree is
/// the whole tree. Waits for the devices.
pub(super) fn join<SC: DeviceConfig>(team: &Team<'_, SC>, trees: &[MerkleTree<SC::Hash>]) -> Result<Joined<SC>> {
    let (first, log_trees) = (team.first(), trees.len().ilog2());
    let below = first.cap_height().saturating_sub(log_trees);
    let mut digests = Vec::with_capacity(trees.len());
    for (tree, stream) in trees.iter().zip(&team.streams) {
        digests.extend(tree.cap(stream, below)?);
    }
    if first.cap_height() >= log_trees {
        return Ok((None, SC::cap(digests)));
    }
    let top = first.phase("hash", || {
        let roots = first.stream.upload(&digests)?;
        Ok(MerkleTree::from_leaves(first.hashing(), &roots)?)
    })?;
    let cap = SC::cap(top.cap(&first.stream, first.cap_height())?);
    Ok((Some(top), cap))
}

/// Commits to a trace, some columns at a time: each device brings and interpolates a share of them, and all are
/// evaluated and hashed on each device's rows.
pub(crate) fn trace<SC: DeviceConfig>(team: &Team<'_, SC>, trace: &Trace<'_, SC::Value>) -> Result<Shares<SC>> {
    let (rows, width) = (trace.height(), trace.width());
    let log_domain = rows.ilog2() + team.first().log_blowup();
    let block_rows = 1usize << (log_domain - team.log_devices());
    let mut blocks = team.each(|(_, session)| Ok(Matrix::alloc(&session.stream, block_rows, width)?))?;
    let mut hashing =
        team.each(|(_, session)| Ok(RowsInParts::<SC::Hash>::new(session.hashing(), block_rows)?))?;
    let part = part_columns::<SC>(rows.min(block_rows), width);
    let parts: Vec<Range<usize>> = (0..width).step_by(part).map(|first| first..width.min(first + part)).collect();
    let mut coming = Coming::new(team, trace, &parts[0])?;
    for (index, columns) in parts.iter().enumerate() {
        let brought = coming.columns(team, trace)?;
        // The next part is uploaded while this one is extended and hashed.
        let next = parts.get(index + 1).map(|columns| Coming::new(team, trace, columns)).transpose()?;
        team.phase("extend", || {
            let coefficients = team.each(|(k, session)| {
                Ok(ntt::inverse(&session.stream, &brought[k], Base::<SC>::ONE, Order::Natural)?)
            })?;
            drop(brought);
            let coefficients: Vec<Columns<'_, _>> = coefficients.iter().map(Into::into).collect();
            let rooms = blocks.iter_mut().map(|block| block.column_range_mut(columns.start, columns.end));
            let rooms = rooms.collect::<rigel_gpu::Result<Vec<_>>>()?;
            Ok(spread::evaluate_into(&team.streams, &coefficients, log_domain, rooms)?)
        })?;
        if let Some(mut next) = next {
            team.phase("hash", || {
                team.each(|(k, session)| {
                    let view = blocks[k].column_range(columns.start, columns.end)?;
                    Ok(hashing[k].absorb(&session.stream, Columns::new(view, block_rows)?)?)
                })
            })?;
            next.send(team, trace)?;
            coming = next;
            continue;
        }
        let mut hashing = hashing.into_iter();
        let trees = team.phase("hash", || {
            team.each(|(k, session)| {
                let view = blocks[k].column_range(columns.start, columns.end)?;
                let rest = Columns::new(view, block_rows)?;
                let hashing = hashing.next().expect("one for each device");
                Ok(MerkleTree::from_parts(&session.stream, hashing, rest, subtree_cap(team))?)
            })
        })?;
        return Shares::joined(team, blocks.into_iter().map(|block| vec![block]).collect(), trees);
    }
    unreachable!("a trace has at least one column")
}

/// A part of the trace on its way to the devices, a share of its columns to each.
struct Coming<SC: DeviceConfig> {
    shares: Vec<Range<usize>>,
    /// For columns from the host, by device: their rows, and the work after which they may be written.
    rooms: Vec<(Buffer<Base<SC>>, Event)>,
    is_sent: bool,
}

impl<SC: DeviceConfig> Coming<SC> {
    /// Allocates memory for some columns.
    fn new(team: &Team<'_, SC>, trace: &Trace<'_, SC::Value>, columns: &Range<usize>) -> Result<Self> {
        let start = |k: usize| columns.start + columns.len() * k / team.sessions.len();
        let shares: Vec<Range<usize>> = (0..team.sessions.len()).map(|k| start(k)..start(k + 1)).collect();
        let rooms = match trace {
            Trace::Host(_) => team.each(|(k, session)| {
                let room = session.stream.alloc(trace.height() * shares[k].len())?;
                Ok((room, session.stream.record()?))
            })?,
            Trace::Device(_) => Vec::new(),
        };
        Ok(Self { shares, rooms, is_sent: false })
    }

    /// Uploads the columns, if they are on the host. Work that the devices are given from now on waits for that.
    fn send(&mut self, team: &Team<'_, SC>, trace: &Trace<'_, SC::Value>) -> Result<()> {
        if let Trace::Host(trace) = trace
            && !std::mem::replace(&mut self.is_sent, true)
        {
            for ((session, (room, free)), columns) in team.sessions.iter().zip(&mut self.rooms).zip(&self.shares) {
                if !columns.is_empty() {
                    session.bring(&mut *room, trace, columns.clone(), free)?;
                }
            }
        }
        Ok(())
    }

    /// The columns on each device, uploaded if they are not yet, or sent by the device that has the trace.
    fn columns(mut self, team: &Team<'_, SC>, trace: &Trace<'_, SC::Value>) -> Result<Vec<Matrix<Base<SC>>>> {
        self.send(team, trace)?;
        let empty = |(k, session): (usize, &Session<'_, SC>)| {
            Ok(Matrix::alloc(&session.stream, trace.height(), self.shares[k].len())?)
        };
        match trace {
            Trace::Host(_) => team.phase("extend", || {
                team.each(|(k, session)| match self.shares[k].len() {
                    0 => empty((k, session)),
                    columns => Ok(permute::to_columns(&session.stream, &self.rooms[k].0, columns)?),
                })
            }),
            Trace::Device(trace) => {
                let device = trace.values().device();
                let Some(from) = team.streams.iter().position(|stream| stream.device().is(&device)) else {
                    return Err(Error::Devices(format!(
                        "the trace is on {device}, which is not one of the proof's devices; copy it to one of them"
                    )));
                };
                team.streams[from].wait_for_uses(trace.values())?;
                let mut matrices = team.each(empty)?;
                let mut pieces = Vec::with_capacity(matrices.len());
                for (to, (matrix, columns)) in matrices.iter_mut().zip(&self.shares).enumerate() {
                    let source = trace.column_range(columns.start, columns.end)?;
                    pieces.push(Piece { from, to, source, target: matrix.values_mut().view_mut() });
                }
                team.phase("exchange", || Ok(exchange(&team.streams, pieces)?))?;
                Ok(matrices)
            }
        }
    }
}

/// The number of columns of a part: a sixteenth of them, so that what devices send each other takes little memory
/// beside their blocks, but more if that is little data, rounded to the hash's block.
fn part_columns<SC: DeviceConfig>(rows: usize, width: usize) -> usize {
    const PARTS: usize = 16;
    const LEAST_BYTES: usize = 4 << 20;
    let block = RowsInParts::<SC::Hash>::block::<Base<SC>>();
    let least = (LEAST_BYTES / (rows * size_of::<Base<SC>>())).min(width);
    width.div_ceil(PARTS).max(least).next_multiple_of(block)
}
