//! Committed columns on the coset: kept in memory, or recomputed from the trace in batches wherever they are read.

use std::ops::Range;

use rigel_gpu::{Result as GpuResult, ViewMut};
use rigel_kernels::field::{Field, Ring};
use rigel_kernels::layout::permute;
use rigel_kernels::transform::ntt::{self, Order};
use rigel_kernels::transform::short::{self, Extension};
use rigel_kernels::{Columns, Matrix};

use crate::base::error::Result;
use crate::columns::parked::AHEAD;
use crate::columns::trace::Resident;
use crate::prover::session::Session;
use crate::upstream::config::{Base, DeviceConfig};

/// The evaluations of a matrix's columns on `g K`, bit-reversed.
pub(crate) enum Extended<'a, SC: DeviceConfig> {
    /// All columns, kept in memory.
    Whole(Matrix<Base<SC>>),
    /// The trace, of which `batch` columns at a time are extended, if the whole extension does not fit.
    InBatches { trace: Resident<'a, SC::Value>, batch: usize, log_blowup: u32 },
}

/// Writes columns to memory that has room for exactly these.
type Write<'a, SC> = dyn FnMut(ViewMut<'_, Base<SC>>) -> Result<()> + 'a;

impl<SC: DeviceConfig> Extended<'_, SC> {
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Whole(matrix) => matrix.rows(),
            Self::InBatches { trace, log_blowup, .. } => trace.rows() << log_blowup,
        }
    }

    /// The matrix, where it is known to be kept in memory.
    pub(crate) fn whole(&self) -> &Matrix<Base<SC>> {
        match self {
            Self::Whole(matrix) => matrix,
            Self::InBatches { .. } => unreachable!("this matrix is always extended as a whole"),
        }
    }

    pub(crate) fn log_rows(&self) -> u32 {
        self.rows().trailing_zeros()
    }

    pub(crate) fn columns(&self) -> usize {
        match self {
            Self::Whole(matrix) => matrix.columns(),
            Self::InBatches { trace, .. } => trace.width(),
        }
    }

    /// Calls `work` with each batch of columns, in order, and the index of its first column.
    pub(crate) fn each(
        &self,
        session: &Session<'_, SC>,
        mut work: impl FnMut(usize, &Matrix<Base<SC>>) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Whole(matrix) => work(0, matrix),
            Self::InBatches { trace, batch, .. } => {
                let pieces = trace.pieces(0..trace.width(), *batch);
                trace.each(session, &pieces, AHEAD, |index, columns| {
                    work(pieces[index][0], &extend(session, columns, Base::<SC>::GENERATOR, Order::Natural)?)
                })
            }
        }
    }

    /// Writes all columns in order, some at a time: `place` is called with their number and with what writes them. No
    /// columns are written together that `first` columns, and `batch` after `batch` after them, separate.
    pub(crate) fn write_each(
        &self,
        session: &Session<'_, SC>,
        first: usize,
        batch: usize,
        mut place: impl FnMut(usize, &mut Write<'_, SC>) -> Result<()>,
    ) -> Result<()> {
        let stream = &session.stream;
        let ends = (first..self.columns()).step_by(batch).chain([self.columns()]);
        let batches = ends.scan(0, |start, end| Some(std::mem::replace(start, end)..end));
        let batches = batches.filter(|columns| !columns.is_empty());
        match self {
            Self::Whole(matrix) => {
                for Range { start, end } in batches {
                    let columns = matrix.column_range(start, end)?;
                    place(end - start, &mut |to| Ok(stream.copy(to, columns)?))?;
                }
                Ok(())
            }
            Self::InBatches { trace, log_blowup, .. } => {
                let pieces: Vec<Vec<usize>> = batches.flat_map(|columns| trace.pieces(columns, batch)).collect();
                trace.each(session, &pieces, AHEAD, |_, columns| {
                    let (shift, order) = (Base::<SC>::GENERATOR, Order::Natural);
                    place(columns.columns(), &mut |to| {
                        Ok(ntt::extend_into(stream, to, columns, *log_blowup, shift, order)?)
                    })
                })
            }
        }
    }

    /// The trace before the extension, if it is extended in batches.
    pub(crate) fn trace(&self) -> Option<&Resident<'_, SC::Value>> {
        match self {
            Self::Whole(_) => None,
            Self::InBatches { trace, .. } => Some(trace),
        }
    }

    /// The values of some columns, in ascending order, on the coset of 2^`log_size` points, of any size that is not
    /// less than the trace's.
    pub(crate) fn chosen(
        &self,
        session: &Session<'_, SC>,
        columns: &[usize],
        log_size: u32,
    ) -> Result<Matrix<Base<SC>>> {
        let trace = match self {
            Self::Whole(matrix) => return on_coset(session, matrix, columns, log_size),
            Self::InBatches { trace, .. } => trace,
        };
        let mut chosen = None;
        trace.each(session, &[columns.to_vec()], 1, |_, columns| {
            chosen = Some(extend_to(session, columns, log_size)?);
            Ok(())
        })?;
        Ok(chosen.expect("one list gives one matrix"))
    }
}

/// The values of columns of a trace on the coset of 2^`log_size` points, bit-reversed.
pub(crate) fn extend_to<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    columns: Columns<'_, Base<SC>>,
    log_size: u32,
) -> Result<Matrix<Base<SC>>> {
    let added_bits = log_size - columns.rows().trailing_zeros();
    let (shift, natural, reversed) = (Base::<SC>::GENERATOR, Order::Natural, Order::BitReversed);
    Ok(ntt::extend(&session.stream, columns, added_bits, shift, natural, reversed)?)
}

/// The values of some columns of an extended matrix on the coset of 2^`log_size` points. If that is larger than the
/// matrix, they are extrapolated: the first rows, in bit-reversed order, are the values on a coset of the trace's size.
pub(crate) fn on_coset<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    matrix: &Matrix<Base<SC>>,
    columns: &[usize],
    log_size: u32,
) -> Result<Matrix<Base<SC>>> {
    let (stream, log_rows) = (&session.stream, matrix.rows().trailing_zeros());
    if log_size <= log_rows {
        return Ok(permute::take_columns(stream, matrix, columns, 1 << log_size)?);
    }
    let log_rows = log_rows - session.log_blowup();
    let part = permute::take_columns(stream, matrix, columns, 1 << log_rows)?;
    let order = Order::BitReversed;
    Ok(ntt::extend(stream, &part, log_size - log_rows, Base::<SC>::ONE, order, order)?)
}

/// The evaluations on the coset `shift * K` of the large subgroup, bit-reversed.
pub(crate) fn extend<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    evaluations: Columns<'_, Base<SC>>,
    shift: Base<SC>,
    order: Order,
) -> GpuResult<Matrix<Base<SC>>> {
    ntt::extend(&session.stream, evaluations, session.log_blowup(), shift, order, Order::BitReversed)
}

/// Extends many matrices as [`extend`] does, each with a shift of its own.
pub(crate) fn extend_all<'a, SC: DeviceConfig>(
    session: &Session<'_, SC>,
    matrices: impl IntoIterator<Item = (Columns<'a, Base<SC>>, Base<SC>)>,
    order: Order,
) -> GpuResult<Vec<Matrix<Base<SC>>>> {
    let extension = |(evaluations, shift)| Extension { evaluations, order, shift };
    let extensions: Vec<_> = matrices.into_iter().map(extension).collect();
    short::extend_all(&session.stream, &extensions, session.log_blowup())
}
