//! A trace that does not fit on the device: some of its columns are there, the others in pinned memory of the host.
//!
//! The trace is uploaded once, some rows at a time, and transposed on the device. From there the columns that there is
//! no room for go back to the host, into pinned memory. Copies from it run at the rate of the link and take none of
//! the host's time, and they are of just the columns that are read; from upstream's matrix the host would pick the
//! values of a column out of all rows.
//!
//! ```text
//! a block of rows   | kept columns, one after another |        on the device
//!                   | the others, one after another   |        in pinned memory
//! ```

use std::collections::VecDeque;
use std::ops::Range;

use p3_matrix::Matrix as _;
use p3_matrix::dense::RowMajorMatrix;
use rigel_gpu::{Buffer, Event, PinnedBuffer, Stream, ViewMut};
use rigel_kernels::layout::permute;
use rigel_kernels::{Columns, Matrix};

use crate::base::error::Result;
use crate::prover::session::Session;
use crate::upstream::config::DeviceConfig;
use crate::upstream::field::DeviceField;

/// The most bytes of a block of rows. A large copy is quicker than many small ones.
const BLOCK_BYTES: usize = 256 << 20;

/// The bytes of columns that are enough for a copy, or for work on them, to run at full speed.
const PIECE_BYTES: usize = 16 << 20;

/// The number of lists of columns that travel at a time, if they are pieces.
pub(crate) const AHEAD: usize = 2;

/// The most values of a block of rows, where the highest trace has `rows` rows: as many as `columns` columns of it.
pub(crate) fn block_values<V: DeviceField>(rows: usize, columns: usize) -> usize {
    (rows * columns).min(BLOCK_BYTES / size_of::<V>())
}

/// The number of rows of a block of at most so many values, a power of two.
pub(crate) fn block_rows(rows: usize, width: usize, values: usize) -> usize {
    1 << (values / width.max(1)).clamp(1, rows).ilog2()
}

/// The number of columns of `rows` values that are read at a time, at most `columns`.
pub(crate) fn piece_columns<V: DeviceField>(rows: usize, columns: usize) -> usize {
    (PIECE_BYTES / (rows * size_of::<V>())).clamp(1, columns.max(1))
}

/// A trace in blocks of rows, with its first columns on the device.
pub(crate) struct Parked<'a, V: DeviceField> {
    trace: &'a RowMajorMatrix<V>,
    /// The number of columns on the device.
    kept: usize,
    on_device: Buffer<V::Device>,
    /// The blocks of rows, after [`Self::fill`].
    on_host: Vec<PinnedBuffer<V::Device>>,
    block_rows: usize,
}

/// The streams and buffers with which traces are uploaded, transposed and sent back, beside the work of the proof.
pub(crate) struct Parking<V: DeviceField> {
    stream: Stream,
    lane: Stream,
    /// Double buffering: one block is uploaded while the other is transposed and sent back.
    rooms: [Buffer<V::Device>; 2],
    block_values: usize,
}

impl<V: DeviceField> Parking<V> {
    /// Allocates the buffers for traces of these heights and widths. A block of rows has at most as many values as
    /// `columns` columns of the highest one.
    pub(crate) fn new<SC: DeviceConfig<Value = V>>(
        session: &Session<'_, SC>,
        shapes: &[(usize, usize)],
        columns: usize,
    ) -> Result<Self> {
        let highest = shapes.iter().map(|(rows, _)| *rows).max().unwrap_or(0);
        let block_values = block_values::<V>(highest, columns);
        let values = shapes.iter().map(|&(rows, width)| block_rows(rows, width, block_values) * width);
        let values = values.max().unwrap_or(0);
        let device = session.stream.device();
        let (stream, lane) = (device.new_stream()?, device.new_stream()?);
        let rooms = [stream.alloc(values)?, stream.alloc(values)?];
        Ok(Self { stream, lane, rooms, block_values })
    }
}

/// Columns on their way to the device, in blocks of rows.
struct Sent<V: DeviceField> {
    columns: Vec<usize>,
    blocks: Buffer<V::Device>,
    arrived: Event,
}

/// Columns of the trace, in ascending order, as one matrix.
struct Present<'l, V: DeviceField> {
    columns: &'l [usize],
    matrix: Matrix<V::Device>,
}

impl<'a, V: DeviceField> Parked<'a, V> {
    /// A trace of which the first `kept` columns will be on the device.
    pub(crate) fn new<SC: DeviceConfig<Value = V>>(
        session: &Session<'_, SC>,
        trace: &'a RowMajorMatrix<V>,
        kept: usize,
    ) -> Result<Self> {
        let on_device = session.stream.alloc(trace.height() * kept)?;
        Ok(Self { trace, kept, on_device, on_host: Vec::new(), block_rows: trace.height() })
    }

    /// Uploads the trace. What the session's stream does from now on waits for it; what it was given before runs beside
    /// it.
    pub(crate) fn fill<SC: DeviceConfig<Value = V>>(
        &mut self,
        session: &Session<'_, SC>,
        parking: &mut Parking<V>,
    ) -> Result<()> {
        let Parking { stream, lane, rooms, block_values } = parking;
        let (rows, width, kept) = (self.rows(), self.width(), self.kept);
        let count = block_rows(rows, width, *block_values);
        self.block_rows = count;
        let mut free = [stream.record()?, stream.record()?];
        for (index, first) in (0..rows).step_by(count).enumerate() {
            let turn = index % 2;
            let mut room = rooms[turn].range_mut(..count * width)?;
            let arrived =
                session.send_rows(lane, room.reborrow(), self.trace, first..first + count, &free[turn])?;
            stream.wait(&arrived)?;
            let block = permute::to_columns(stream, room.view(), width)?;
            free[turn] = stream.record()?;
            let to = self.on_device.range_mut(first * kept..(first + count) * kept)?;
            stream.copy(to, block.column_range(0, kept)?)?;
            self.on_host.push(stream.download_pinned(block.column_range(kept, width)?)?);
        }
        Ok(session.stream.wait_for(stream)?)
    }

    pub(crate) fn rows(&self) -> usize {
        self.trace.height()
    }

    pub(crate) fn width(&self) -> usize {
        self.trace.width()
    }

    /// Calls `work` with the columns of each list, which are in ascending order, and the index of the list. Those of
    /// `ahead` lists travel meanwhile, except those that are on the device or that the list before has, too.
    pub(crate) fn each<SC: DeviceConfig<Value = V>>(
        &self,
        session: &Session<'_, SC>,
        lists: &[Vec<usize>],
        ahead: usize,
        mut work: impl FnMut(usize, Columns<'_, V::Device>) -> Result<()>,
    ) -> Result<()> {
        let mut before: Option<Present<'_, V>> = None;
        let mut sent = VecDeque::new();
        let mut rest = lists.iter().enumerate();
        let mut last: &[usize] = &[];
        let mut send_more = |sent: &mut VecDeque<(usize, Sent<V>)>| -> Result<()> {
            while sent.len() < ahead {
                let Some((index, columns)) = rest.next() else { break };
                sent.extend(self.send(session, columns, last)?.map(|columns| (index, columns)));
                last = columns;
            }
            Ok(())
        };
        for (index, columns) in lists.iter().enumerate() {
            send_more(&mut sent)?;
            let arriving = sent.pop_front_if(|(of, _)| *of == index).map(|(_, sent)| sent);
            let matrix = self.gather(session, columns, before.take(), arriving)?;
            send_more(&mut sent)?;
            work(index, (&matrix).into())?;
            before = Some(Present { columns, matrix });
        }
        Ok(())
    }

    /// Sends those columns that are neither kept on the device nor among the `present` ones.
    fn send<SC: DeviceConfig<Value = V>>(
        &self,
        session: &Session<'_, SC>,
        columns: &[usize],
        present: &[usize],
    ) -> Result<Option<Sent<V>>> {
        let is_missing = |column: &usize| *column >= self.kept && present.binary_search(column).is_err();
        let columns: Vec<usize> = columns.iter().copied().filter(is_missing).collect();
        if columns.is_empty() {
            return Ok(None);
        }
        let mut blocks = session.stream.alloc(self.rows() * columns.len())?;
        let arrived = session.send(&session.stream.record()?, |lane| {
            let rows = self.block_rows;
            for (index, block) in self.on_host.iter().enumerate() {
                let first = index * columns.len();
                for stretch in stretches(&columns, |column| Some(column - self.kept)) {
                    let to =
                        blocks.range_mut((first + stretch.at.start) * rows..(first + stretch.at.end) * rows)?;
                    lane.write_pinned_from(to, block, stretch.first * rows)?;
                }
            }
            Ok(())
        })?;
        Ok(Some(Sent { columns, blocks, arrived }))
    }

    /// The matrix of some columns, from those on the device, those of the matrix before, and those that were sent.
    fn gather<SC: DeviceConfig<Value = V>>(
        &self,
        session: &Session<'_, SC>,
        columns: &[usize],
        before: Option<Present<'_, V>>,
        sent: Option<Sent<V>>,
    ) -> Result<Matrix<V::Device>> {
        let (stream, rows) = (&session.stream, self.block_rows);
        let mut out = Matrix::alloc(stream, self.rows(), columns.len())?;
        let join = |to: ViewMut<'_, V::Device>, blocks: &Buffer<V::Device>, of: usize, chosen: Range<usize>| {
            permute::join_rows_into(stream, to, blocks.view(), (of, chosen), rows, rows)
        };
        for stretch in stretches(columns, |column| (column < self.kept).then_some(column)) {
            let to = out.column_range_mut(stretch.at.start, stretch.at.end)?;
            join(to, &self.on_device, self.kept, stretch.source())?;
        }
        if let Some(Present { columns: there, matrix }) = &before {
            let place = |column| there.binary_search(&column).ok().filter(|_| column >= self.kept);
            for stretch in stretches(columns, place) {
                let from = matrix.column_range(stretch.first, stretch.source().end)?;
                stream.copy(out.column_range_mut(stretch.at.start, stretch.at.end)?, from)?;
            }
        }
        if let Some(Sent { columns: there, blocks, arrived }) = &sent {
            stream.wait(arrived)?;
            for stretch in stretches(columns, |column| there.binary_search(&column).ok()) {
                let to = out.column_range_mut(stretch.at.start, stretch.at.end)?;
                join(to, blocks, there.len(), stretch.source())?;
            }
        }
        Ok(out)
    }

    /// Adjacent rows, and the one that follows them, which is the first after the last.
    pub(crate) fn rows_and_next<SC: DeviceConfig<Value = V>>(
        &self,
        session: &Session<'_, SC>,
        rows: Range<usize>,
    ) -> Result<Matrix<V::Device>> {
        let (stream, width, next) = (&session.stream, self.width(), rows.end % self.rows());
        let mut room = stream.alloc((rows.len() + 1) * width)?;
        let (here, follows) = room.view_mut().split_at(rows.len() * width)?;
        let allocated = stream.record()?;
        session.bring_rows(here, self.trace, rows, &allocated)?;
        session.bring_rows(follows, self.trace, next..next + 1, &allocated)?;
        Ok(permute::to_columns(stream, &room, width)?)
    }
}

/// Adjacent places of a list whose columns are adjacent in a source, too.
struct Stretch {
    at: Range<usize>,
    /// The place of the first one in the source.
    first: usize,
}

impl Stretch {
    fn source(&self) -> Range<usize> {
        self.first..self.first + self.at.len()
    }
}

/// The longest stretches of those columns that have a place in a source.
fn stretches(columns: &[usize], place: impl Fn(usize) -> Option<usize>) -> Vec<Stretch> {
    let mut stretches: Vec<Stretch> = Vec::new();
    for (at, &column) in columns.iter().enumerate() {
        let Some(first) = place(column) else { continue };
        match stretches.last_mut() {
            Some(stretch) if stretch.at.end == at && stretch.source().end == first => stretch.at.end += 1,
            _ => stretches.push(Stretch { at: at..at + 1, first }),
        }
    }
    stretches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_adjacent_in_both() {
        let found = |columns: &[usize], place: &dyn Fn(usize) -> Option<usize>| -> Vec<(Range<usize>, usize)> {
            stretches(columns, place).into_iter().map(|stretch| (stretch.at, stretch.first)).collect()
        };
        assert_eq!(found(&[2, 3, 4, 7, 8], &Some), [(0..3, 2), (3..5, 7)]);
        assert_eq!(found(&[2, 3, 4, 5], &|column| (column != 3).then_some(column)), [(0..1, 2), (2..4, 4)]);
        assert_eq!(found(&[1, 2, 3], &|column| Some(2 * column)), [(0..1, 2), (1..2, 4), (2..3, 6)]);
        assert_eq!(found(&[], &Some), []);
    }

    #[test]
    fn blocks_and_pieces_are_bounded() {
        type V = p3_koala_bear::KoalaBear;
        for (rows, width, columns) in
            [(1, 1, 1), (8, 300, 16), (1 << 10, 300, 16), (1 << 20, 3, 8), (1 << 22, 2633, 34)]
        {
            let values = block_values::<V>(rows, columns);
            assert!(values <= rows * columns && values * 4 <= BLOCK_BYTES);
            let block = block_rows(rows, width, values);
            assert!(block.is_power_of_two() && rows.is_multiple_of(block));
            assert!(block == 1 || block * width <= values, "{rows} {width} {columns}");
            let piece = piece_columns::<V>(rows, columns);
            assert!((1..=columns).contains(&piece));
            assert!(piece == 1 || piece * rows * 4 <= PIECE_BYTES, "{rows} {columns}");
        }
    }
}
