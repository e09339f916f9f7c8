//! Committed columns on the coset: kept in memory, or recomputed from the trace in batches wherever they are read.

use std::ops::Range;

use rigel_gpu::{Result as GpuResult, ViewMut};
use rigel_kernels::field::{Field, Ring};
use rigel_kernels::layout::permute;
use rigel_kernels::transform::ntt::{self, Order};
use rigel_kernels::{Columns, Matrix};

use crate::config::{Base, DeviceConfig};
use crate::error::Result;
use crate::prover::Session;
use crate::trace::Resident;

/// The evaluations of a matrix's columns on `g K`, bit-reversed.
pub(crate) enum Extended<'a, SC: DeviceConfig> {
    /// All columns, kept in memory.
    Whole(Matrix<Base<SC>>),
    /// The trace, of which `batch` columns at a time are extended, if the whole extension does not fit.
    InBatches { trace: Resident<'a, SC::Value>, batch: usize, log_blowup: u32 },
}

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
                for first in (0..trace.width()).step_by(*batch) {
                    let part = trace.part(session, first..trace.width().min(first + batch))?;
                    work(first, &extend(session, part.columns(), Base::<SC>::GENERATOR, Order::Natural)?)?;
                }
                Ok(())
            }
        }
    }

    /// Writes some columns.
    pub(crate) fn write(
        &self,
        session: &Session<'_, SC>,
        to: ViewMut<'_, Base<SC>>,
        columns: Range<usize>,
    ) -> Result<()> {
        match self {
            Self::Whole(matrix) => {
                Ok(session.stream.copy(to, matrix.column_range(columns.start, columns.end)?)?)
            }
            Self::InBatches { trace, log_blowup, .. } => {
                let part = trace.part(session, columns)?;
                let (shift, order) = (Base::<SC>::GENERATOR, Order::Natural);
                Ok(ntt::extend_into(&session.stream, to, part.columns(), *log_blowup, shift, order)?)
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

    /// The values of some columns, in the given order, on the coset of 2^`log_size` points, of any size that is not
    /// less than the trace's.
    pub(crate) fn chosen(
        &self,
        session: &Session<'_, SC>,
        columns: &[usize],
        log_size: u32,
    ) -> Result<Matrix<Base<SC>>> {
        match self {
            Self::Whole(matrix) => on_coset(session, matrix, columns, log_size),
            Self::InBatches { trace, .. } => {
                let part = trace.chosen(session, columns)?;
                let added_bits = log_size - trace.rows().trailing_zeros();
                let (shift, natural, reversed) = (Base::<SC>::GENERATOR, Order::Natural, Order::BitReversed);
                Ok(ntt::extend(&session.stream, &part, added_bits, shift, natural, reversed)?)
            }
        }
    }
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
