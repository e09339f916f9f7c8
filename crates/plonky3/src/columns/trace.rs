//! Traces, on the host or already on the device.

use std::borrow::Cow;
use std::ops::Range;

use p3_matrix::Matrix as _;
use p3_matrix::dense::RowMajorMatrix;
use rigel_gpu::{Buffer, Event, Plain, Stream};
use rigel_kernels::field::Field;
use rigel_kernels::layout::permute;
use rigel_kernels::{Columns, Matrix};

use crate::base::error::{Error, Result};
use crate::columns::batches::Batches;
use crate::columns::parked::{Parked, piece_columns};
use crate::prover::session::Session;
use crate::upstream::config::DeviceConfig;
use crate::upstream::field::DeviceField;

/// The trace of a table: upstream's row-major matrix, or a matrix on the device, or blocks of its rows on several.
#[derive(Debug)]
pub enum Trace<'a, V: DeviceField> {
    /// Upstream's matrix, uploaded when the proof begins.
    Host(Cow<'a, RowMajorMatrix<V>>),
    /// A matrix on the prover's device, which is only read.
    ///
    /// The proof starts, on the device, after all work that has been submitted to Rigel's streams and uses the matrix:
    /// the kernel that fills it may still be running on a stream of yours, and nobody need synchronize. Work that is
    /// submitted later must not write to the matrix until the proof is made; Rust sees to that, as the matrix is
    /// borrowed. For memory that another library writes, call
    /// [`Stream::wait_foreign`](rigel_gpu::Stream::wait_foreign) on the stream on which the matrix was made.
    Device(&'a Matrix<V::Device>),
    /// Blocks of adjacent rows, from the first to the last, equal in height, on devices of a prover over several, for
    /// example as each device has made its own. They are only read, and waited for as a matrix on one device is.
    Blocks(&'a [Matrix<V::Device>]),
}

impl<V: DeviceField> From<RowMajorMatrix<V>> for Trace<'_, V> {
    fn from(trace: RowMajorMatrix<V>) -> Self {
        Self::Host(Cow::Owned(trace))
    }
}

impl<'a, V: DeviceField> From<&'a RowMajorMatrix<V>> for Trace<'a, V> {
    fn from(trace: &'a RowMajorMatrix<V>) -> Self {
        Self::Host(Cow::Borrowed(trace))
    }
}

impl<'a, V: DeviceField> From<&'a Matrix<V::Device>> for Trace<'a, V> {
    fn from(trace: &'a Matrix<V::Device>) -> Self {
        Self::Device(trace)
    }
}

impl<'a, V: DeviceField> From<&'a [Matrix<V::Device>]> for Trace<'a, V> {
    fn from(blocks: &'a [Matrix<V::Device>]) -> Self {
        Self::Blocks(blocks)
    }
}

impl<V: DeviceField> Trace<'_, V> {
    /// The number of rows.
    pub fn height(&self) -> usize {
        match self {
            Self::Host(trace) => trace.height(),
            Self::Device(trace) => trace.rows(),
            Self::Blocks(blocks) => blocks.iter().map(Matrix::rows).sum(),
        }
    }

    /// The number of columns.
    pub fn width(&self) -> usize {
        match self {
            Self::Host(trace) => trace.width(),
            Self::Device(trace) => trace.columns(),
            Self::Blocks(blocks) => blocks.first().map_or(0, Matrix::columns),
        }
    }

    /// Makes a stream wait for the work that fills the trace, if it is on the device.
    pub(crate) fn await_writers(&self, stream: &Stream) -> Result<()> {
        match self {
            Self::Host(_) => Ok(()),
            Self::Device(trace) => Ok(stream.wait_for_uses(trace.values())?),
            Self::Blocks([block]) => Ok(stream.wait_for_uses(block.values())?),
            // A proof over several devices waits where it reads them.
            Self::Blocks(_) => Ok(()),
        }
    }

    /// Upstream's matrix, which is not copied if it is this trace's own.
    pub(crate) fn into_host(self) -> Result<RowMajorMatrix<V>> {
        match self {
            Self::Host(trace) => Ok(trace.into_owned()),
            Self::Device(_) | Self::Blocks(_) => Ok(self.to_host()?.into_owned()),
        }
    }

    /// Upstream's matrix: the trace itself, or a copy downloaded from the device.
    pub(crate) fn to_host(&self) -> Result<Cow<'_, RowMajorMatrix<V>>> {
        match self {
            Self::Host(trace) => Ok(Cow::Borrowed(trace)),
            Self::Device(trace) => Ok(Cow::Owned(RowMajorMatrix::new(rows_of::<V>(trace)?, trace.columns()))),
            Self::Blocks(blocks) => {
                let rows = blocks.iter().map(rows_of::<V>).collect::<Result<Vec<_>>>()?.concat();
                Ok(Cow::Owned(RowMajorMatrix::new(rows, self.width())))
            }
        }
    }

    /// Checks that blocks of rows are of one shape, and as many as a prover's `devices`, if it has any.
    pub(crate) fn check_blocks(&self, devices: usize) -> Result<()> {
        let Self::Blocks(blocks) = self else { return Ok(()) };
        let detail = match blocks.split_first() {
            Some((first, others)) => {
                let shape = |block: &Matrix<V::Device>| (block.rows(), block.columns());
                match others.iter().map(shape).find(|other| *other != shape(first)) {
                    Some(other) => format!("{:?} and {other:?} rows and columns; all must be equal", shape(first)),
                    None if devices > 0 && blocks.len() != devices => {
                        format!("{} for a prover of {devices} devices; one of each is needed", blocks.len())
                    }
                    None => return Ok(()),
                }
            }
            None => "none; there must be one for each device".into(),
        };
        Err(Error::Devices(format!("a trace in blocks of rows: {detail}")))
    }
}

/// The values of a matrix on a device, row by row.
fn rows_of<V: DeviceField>(matrix: &Matrix<V::Device>) -> Result<Vec<V>> {
    let stream = matrix.values().device().compute()?;
    stream.wait_for_uses(matrix.values())?;
    Ok(V::from_device(&permute::to_rows(&stream, matrix)?.to_vec(&stream)?).to_vec())
}

/// The only block of a trace in blocks, where there is one device.
pub(crate) fn only_block<F: Plain>(blocks: &[Matrix<F>]) -> Result<&Matrix<F>> {
    let [block] = blocks else {
        let detail = format!("a trace in {} blocks of rows for one device; there must be one block", blocks.len());
        return Err(Error::Devices(detail));
    };
    Ok(block)
}

/// A trace during a proof: uploaded, borrowed from the caller, or partly left on the host, where there is no room for
/// all of it.
pub(crate) enum Resident<'a, V: DeviceField> {
    Brought(Matrix<V::Device>),
    Lent(&'a Matrix<V::Device>),
    Parked(Parked<'a, V>),
}

impl<'a, V: DeviceField> Resident<'a, V> {
    /// A trace of which some columns at a time are extended, as `batches` says: uploaded, or partly left on the host.
    pub(crate) fn for_batches<SC: DeviceConfig<Value = V>>(
        session: &Session<'_, SC>,
        trace: &'a Trace<'_, V>,
        batches: Batches,
    ) -> Result<Self> {
        match trace {
            Trace::Host(trace) if batches.are_streamed() => {
                Ok(Self::Parked(Parked::new(session, trace, batches.kept_columns(trace.width()))?))
            }
            Trace::Host(trace) => Self::in_parts(session, trace, batches.columns),
            Trace::Device(trace) => Ok(Self::Lent(trace)),
            Trace::Blocks(blocks) => Ok(Self::Lent(only_block(blocks)?)),
        }
    }

    /// Uploads `part` columns at a time, so that not more than twice that many are in memory besides the trace.
    fn in_parts<SC: DeviceConfig<Value = V>>(
        session: &Session<'_, SC>,
        trace: &RowMajorMatrix<V>,
        part: usize,
    ) -> Result<Self> {
        let stream = &session.stream;
        let (rows, width) = (trace.height(), trace.width());
        let mut matrix = Matrix::alloc(stream, rows, width)?;
        let part = part.clamp(1, width);
        let mut room = stream.alloc(rows * part)?;
        for first in (0..width).step_by(part) {
            let end = width.min(first + part);
            let mut here = room.range_mut(..rows * (end - first))?;
            // The part before has been read.
            let free = stream.record()?;
            session.bring(here.reborrow(), trace, first..end, &free)?;
            let columns = permute::to_columns(stream, here.view(), end - first)?;
            stream.copy(matrix.column_range_mut(first, end)?, columns.values())?;
        }
        Ok(Self::Brought(matrix))
    }

    pub(crate) fn new<SC: DeviceConfig<Value = V>>(
        session: &Session<'_, SC>,
        trace: &Trace<'a, V>,
    ) -> Result<Self> {
        let mut room = Self::room(session, trace)?;
        Self::arriving(session, trace, room.as_mut(), &session.stream.record()?)
    }

    /// Allocates memory for a trace that must be uploaded, for [`Self::arriving`].
    pub(crate) fn room<SC: DeviceConfig<Value = V>>(
        session: &Session<'_, SC>,
        trace: &Trace<'a, V>,
    ) -> Result<Option<Buffer<V::Device>>> {
        match trace {
            Trace::Host(trace) => Ok(Some(session.stream.alloc(trace.values.len())?)),
            Trace::Device(_) | Trace::Blocks(_) => Ok(None),
        }
    }

    /// Uploads the trace through `room` once `allocated` has completed.
    pub(crate) fn arriving<SC: DeviceConfig<Value = V>>(
        session: &Session<'_, SC>,
        trace: &Trace<'a, V>,
        room: Option<&mut Buffer<V::Device>>,
        allocated: &Event,
    ) -> Result<Self> {
        match (trace, room) {
            (Trace::Device(trace), _) => Ok(Self::Lent(trace)),
            (Trace::Blocks(blocks), _) => Ok(Self::Lent(only_block(blocks)?)),
            (Trace::Host(_), None) => Self::new(session, trace),
            (Trace::Host(trace), Some(room)) => {
                session.bring(&mut *room, trace, 0..trace.width(), allocated)?;
                Ok(Self::Brought(permute::to_columns(&session.stream, &*room, trace.width())?))
            }
        }
    }

    /// The matrix, if all of it is on the device.
    pub(crate) fn on_device(&self) -> Result<&Matrix<V::Device>, &Parked<'a, V>> {
        match self {
            Self::Brought(matrix) => Ok(matrix),
            Self::Lent(matrix) => Ok(matrix),
            Self::Parked(parked) => Err(parked),
        }
    }

    /// The matrix, where it is known to be on the device.
    pub(crate) fn whole(&self) -> &Matrix<V::Device> {
        self.on_device().unwrap_or_else(|_| unreachable!("this trace is always on the device as a whole"))
    }

    pub(crate) fn rows(&self) -> usize {
        self.on_device().map_or_else(Parked::rows, Matrix::rows)
    }

    pub(crate) fn width(&self) -> usize {
        self.on_device().map_or_else(Parked::width, Matrix::columns)
    }

    /// Lists of adjacent columns that are read at a time, at most `batch`.
    pub(crate) fn pieces(&self, columns: Range<usize>, batch: usize) -> Vec<Vec<usize>> {
        let piece = piece_columns::<V>(self.rows(), batch);
        columns.clone().step_by(piece).map(|first| (first..columns.end.min(first + piece)).collect()).collect()
    }

    /// Calls `work` with the columns of each list, which are in ascending order, and the index of the list. If the
    /// trace is on the host, those of `ahead` lists travel meanwhile.
    pub(crate) fn each<SC: DeviceConfig<Value = V>>(
        &self,
        session: &Session<'_, SC>,
        lists: &[Vec<usize>],
        ahead: usize,
        mut work: impl FnMut(usize, Columns<'_, V::Device>) -> Result<()>,
    ) -> Result<()> {
        let matrix = match self.on_device() {
            Ok(matrix) => matrix,
            Err(parked) => return parked.each(session, lists, ahead, work),
        };
        for (index, columns) in lists.iter().enumerate() {
            let (first, end) = (columns[0], columns[0] + columns.len());
            if columns.last() == Some(&(end - 1)) {
                work(index, Columns::new(matrix.column_range(first, end)?, matrix.rows())?)?;
            } else {
                let chosen = permute::take_columns(&session.stream, matrix, columns, matrix.rows())?;
                work(index, (&chosen).into())?;
            }
        }
        Ok(())
    }
}

/// Adjacent rows of some columns, and the one that follows them, which is the first after the last.
pub(crate) fn rows_and_next<F: Field>(
    stream: &Stream,
    columns: Columns<'_, F>,
    rows: Range<usize>,
) -> Result<Matrix<F>> {
    let next = rows.end % columns.rows();
    let indices: Vec<u32> = rows.chain([next]).map(|row| row as u32).collect();
    let mut out = Matrix::alloc(stream, indices.len(), columns.columns())?;
    let to = out.values_mut().view_mut();
    permute::gather_columns_into(stream, to, columns.values(), columns.rows(), stream.upload(&indices)?.view())?;
    Ok(out)
}

/// Uploads a host matrix, column-major.
pub(crate) fn upload<V: DeviceField>(stream: &Stream, trace: &RowMajorMatrix<V>) -> Result<Matrix<V::Device>> {
    let rows = stream.upload(V::as_device(&trace.values))?;
    Ok(permute::to_columns(stream, &rows, trace.width())?)
}
