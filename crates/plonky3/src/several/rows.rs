//! Traces in blocks of adjacent rows in natural order, which is how lookups read and write them.

use std::ops::Range;

use rigel_gpu::{Exchange, Piece, Result as GpuResult, exchange};
use rigel_kernels::Matrix;

use super::team::Team;
use crate::base::error::Result;
use crate::upstream::config::{Base, DeviceConfig};

/// A matrix of n rows of which each of the first devices has m adjacent ones, in natural order, and after them the row
/// that follows them (the first row after the last): what reads a row and the next one reads one block.
///
/// All devices have rows if there are enough, or the first device has all.
///
/// In the columns that lookups write, the row after a block is not the one that follows: its fractions would need the
/// row after it, and the running sum after the last block is the total. Only [`Self::gather`] reads these columns, and
/// it leaves this row out.
pub(crate) struct RowBlocks<SC: DeviceConfig> {
    pub(crate) blocks: Vec<Matrix<Base<SC>>>,
}

impl<SC: DeviceConfig> RowBlocks<SC> {
    /// Allocates the blocks of a matrix over the first `devices` devices, or as many as it has rows.
    pub(crate) fn alloc(team: &Team<'_, SC>, rows: usize, width: usize, devices: usize) -> Result<Self> {
        let devices = devices.min(rows);
        let blocks =
            team.among(devices, |(_, session)| Ok(Matrix::alloc(&session.stream, rows / devices + 1, width)?))?;
        Ok(Self { blocks })
    }

    /// The number of rows of a block, without the row that follows it.
    pub(crate) fn block_rows(&self) -> usize {
        self.blocks[0].rows() - 1
    }

    /// The number of rows of all blocks.
    pub(crate) fn rows(&self) -> usize {
        self.block_rows() * self.blocks.len()
    }

    /// The number of columns.
    pub(crate) fn width(&self) -> usize {
        self.blocks[0].columns()
    }

    /// Writes some columns, of which each device has a share as a whole, in the order of devices.
    pub(crate) fn write(
        &mut self,
        team: &Team<'_, SC>,
        columns: &Range<usize>,
        shares: &[Matrix<Base<SC>>],
    ) -> Result<()> {
        let (rows, block_rows, last) = (self.rows(), self.block_rows(), self.blocks.len() - 1);
        team.phase("exchange", || {
            let mut pieces = Vec::with_capacity((self.blocks.len() + 1) * shares.len());
            for (to, block) in self.blocks.iter_mut().enumerate() {
                let first = to * block_rows;
                let ranges = if to == last { [first..rows, 0..1] } else { [first..first + block_rows + 1, 0..0] };
                let mut rest = block.column_range_mut(columns.start, columns.end)?;
                for (from, share) in shares.iter().enumerate() {
                    let (room, tail) = rest.split_at(share.columns() * (block_rows + 1))?;
                    let targets = room.split_runs(block_rows + 1, &ranges.each_ref().map(Range::len))?;
                    for (range, target) in ranges.iter().zip(targets) {
                        let source = share.values().view().runs(rows, range.clone())?;
                        pieces.push(Piece::new(from, to, source, target));
                    }
                    rest = tail;
                }
            }
            Ok(exchange(&team.streams, pieces)?)
        })
    }

    /// Begins to give devices whole columns: `columns[k]`, any of them, to device k.
    pub(crate) fn gather(&self, team: &Team<'_, SC>, columns: &[Range<usize>]) -> Result<Arriving<SC>> {
        Arriving::new(team, &self.blocks.iter().enumerate().collect::<Vec<_>>(), self.block_rows(), columns)
    }
}

/// A block of rows, after the index of the device that has it.
pub(crate) type Placed<'a, SC> = (usize, &'a Matrix<Base<SC>>);

/// Whole columns on their way to devices, from others that have them, or blocks of their rows.
pub(crate) struct Arriving<SC: DeviceConfig> {
    columns: Vec<Matrix<Base<SC>>>,
    exchange: Exchange,
}

impl<SC: DeviceConfig> Arriving<SC> {
    /// Begins to send them: `columns[k]`, any of them, to device k. `blocks` are the blocks in the order of rows, equal
    /// in height, each with the device that has it; their first `rows` rows count.
    pub(crate) fn new(
        team: &Team<'_, SC>,
        blocks: &[Placed<'_, SC>],
        rows: usize,
        columns: &[Range<usize>],
    ) -> Result<Self> {
        team.phase("exchange", || {
            let room = |(to, columns): (usize, &Range<usize>)| {
                Matrix::alloc(&team.streams[to], blocks.len() * rows, columns.len())
            };
            let mut rooms: Vec<Matrix<Base<SC>>> =
                columns.iter().enumerate().map(room).collect::<GpuResult<_>>()?;
            let mut pieces = Vec::with_capacity(blocks.len() * columns.len());
            for (to, (room, columns)) in rooms.iter_mut().zip(columns).enumerate() {
                let targets =
                    room.values_mut().view_mut().split_runs(blocks.len() * rows, &vec![rows; blocks.len()])?;
                for (&(from, block), target) in blocks.iter().zip(targets) {
                    let source = block.column_range(columns.start, columns.end)?.runs(block.rows(), 0..rows)?;
                    pieces.push(Piece::new(from, to, source, target));
                }
            }
            let exchange = Exchange::begin(&team.streams, &team.lanes, pieces)?;
            Ok(Self { columns: rooms, exchange })
        })
    }

    /// The columns. Work that the devices are given from now on waits for them.
    pub(crate) fn join(self, team: &Team<'_, SC>) -> Result<Vec<Matrix<Base<SC>>>> {
        self.exchange.join(&team.streams)?;
        Ok(self.columns)
    }
}
