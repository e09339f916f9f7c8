//! Traces in blocks of adjacent rows in natural order, which is how lookups read and write them.

use std::ops::Range;

use rigel_gpu::{Buffer, Exchange, Piece, Result as GpuResult, Stream, exchange};
use rigel_kernels::Matrix;
use rigel_kernels::layout::permute;

use super::Team;
use crate::config::{Base, DeviceConfig};
use crate::error::Result;

/// A matrix of n rows of which each of the first devices has m adjacent ones, in natural order, and after them the row
/// that follows them (the first row after the last): what reads a row and the next one reads one block.
///
/// All devices have rows if there are enough, or the first device has all.
///
/// In the columns that lookups write, the row after a block is not the one that follows: its fractions would need the
/// row after it, and the running sum after the last block is the total. Only [`Self::gather`] reads these columns, and
/// it leaves this row out.
pub(crate) struct RowBlocks<SC: DeviceConfig> {
    pub(super) blocks: Vec<Matrix<Base<SC>>>,
}

impl<SC: DeviceConfig> RowBlocks<SC> {
    /// Allocates the blocks of a matrix over the first `devices` devices, or as many as it has rows.
    pub(super) fn alloc(team: &Team<'_, SC>, rows: usize, width: usize, devices: usize) -> Result<Self> {
        let devices = devices.min(rows);
        let blocks =
            team.among(devices, |(_, session)| Ok(Matrix::alloc(&session.stream, rows / devices + 1, width)?))?;
        Ok(Self { blocks })
    }

    /// The number of rows of a block, without the row that follows it.
    pub(super) fn block_rows(&self) -> usize {
        self.blocks[0].rows() - 1
    }

    /// The number of rows of all blocks.
    pub(super) fn rows(&self) -> usize {
        self.block_rows() * self.blocks.len()
    }

    /// The number of columns.
    pub(super) fn width(&self) -> usize {
        self.blocks[0].columns()
    }

    /// Writes some columns, of which each device has a share as a whole, in the order of devices.
    pub(super) fn write(
        &mut self,
        team: &Team<'_, SC>,
        columns: &Range<usize>,
        shares: &[Matrix<Base<SC>>],
    ) -> Result<()> {
        let (rows, block_rows, last) = (self.rows(), self.block_rows(), self.blocks.len() - 1);
        team.phase("exchange", || {
            let mut pieces = Vec::with_capacity((self.blocks.len() + 1) * columns.len());
            for (to, block) in self.blocks.iter_mut().enumerate() {
                let mut rest = block.column_range_mut(columns.start, columns.end)?;
                for (from, share) in shares.iter().enumerate() {
                    for column in 0..share.columns() {
                        let column = share.column(column)?;
                        let first = to * block_rows;
                        let ranges =
                            if to == last { [first..rows, 0..1] } else { [first..first + block_rows + 1, 0..0] };
                        for range in ranges {
                            let (target, tail) = rest.split_at(range.len())?;
                            pieces.push(Piece { from, to, source: column.range(range)?, target });
                            rest = tail;
                        }
                    }
                }
            }
            Ok(exchange(&team.streams, pieces)?)
        })
    }

    /// Begins to give devices whole columns: `columns[k]`, any of them, to device k.
    pub(super) fn gather(&self, team: &Team<'_, SC>, columns: &[Range<usize>]) -> Result<Arriving<SC>> {
        Arriving::new(team, &self.blocks.iter().enumerate().collect::<Vec<_>>(), self.block_rows(), columns)
    }
}

/// A block of rows, after the index of the device that has it.
pub(super) type Placed<'a, SC> = (usize, &'a Matrix<Base<SC>>);

/// Whole columns on their way to devices, from others that have them, or blocks of their rows.
pub(super) struct Arriving<SC: DeviceConfig> {
    /// On each device: the blocks of its columns, one after another, and the number of its columns.
    rooms: Vec<(Buffer<Base<SC>>, usize)>,
    blocks: usize,
    /// The rows of a block, with those that do not count and without.
    block_rows: (usize, usize),
    exchange: Exchange,
}

impl<SC: DeviceConfig> Arriving<SC> {
    /// Begins to send them: `columns[k]`, any of them, to device k. `blocks` are the blocks in the order of rows, equal
    /// in height, each with the device that has it; their first `rows` rows count.
    pub(super) fn new(
        team: &Team<'_, SC>,
        blocks: &[Placed<'_, SC>],
        rows: usize,
        columns: &[Range<usize>],
    ) -> Result<Self> {
        team.phase("exchange", || {
            let stride = blocks[0].1.rows();
            let room = |(to, columns): (usize, &Range<usize>)| {
                Ok((team.streams[to].alloc(blocks.len() * columns.len() * stride)?, columns.len()))
            };
            let mut rooms: Vec<(Buffer<Base<SC>>, usize)> =
                columns.iter().enumerate().map(room).collect::<GpuResult<_>>()?;
            let mut pieces = Vec::with_capacity(blocks.len() * columns.len());
            for (to, ((room, _), columns)) in rooms.iter_mut().zip(columns).enumerate() {
                let mut rest = room.view_mut();
                for &(from, block) in blocks {
                    let (target, tail) = rest.split_at(columns.len() * stride)?;
                    let source = block.column_range(columns.start, columns.end)?;
                    pieces.push(Piece { from, to, source, target });
                    rest = tail;
                }
            }
            let exchange = Exchange::begin(&team.streams, &team.lanes, pieces)?;
            Ok(Self { rooms, blocks: blocks.len(), block_rows: (stride, rows), exchange })
        })
    }

    /// The columns. Work that the devices are given from now on waits for them.
    pub(super) fn join(self, team: &Team<'_, SC>) -> Result<Vec<Matrix<Base<SC>>>> {
        self.exchange.join(&team.streams)?;
        let (stride, rows) = self.block_rows;
        let whole = |((room, columns), stream): ((Buffer<Base<SC>>, usize), &Stream)| {
            if columns == 0 || (self.blocks, stride) == (1, rows) {
                Matrix::new(room, self.blocks * rows, columns)
            } else {
                permute::join_rows(stream, room.view(), columns, stride, rows)
            }
        };
        team.phase("extend", || {
            Ok(self.rooms.into_iter().zip(&team.streams).map(whole).collect::<GpuResult<_>>()?)
        })
    }
}
