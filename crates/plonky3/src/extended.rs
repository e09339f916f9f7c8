//! Committed columns on the coset: kept in memory, or recomputed from the trace in batches wherever they are read.

use rigel_gpu::Result as GpuResult;
use rigel_kernels::field::Field;
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
            Self::InBatches { trace, log_blowup, .. } => trace.matrix().rows() << log_blowup,
        }
    }

    pub(crate) fn log_rows(&self) -> u32 {
        self.rows().trailing_zeros()
    }

    pub(crate) fn columns(&self) -> usize {
        match self {
            Self::Whole(matrix) => matrix.columns(),
            Self::InBatches { trace, .. } => trace.matrix().columns(),
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
                let trace = trace.matrix();
                for first in (0..trace.columns()).step_by(*batch) {
                    let end = trace.columns().min(first + batch);
                    let part = Columns::new(trace.column_range(first, end)?, trace.rows())?;
                    work(first, &extend(session, part, Base::<SC>::GENERATOR, Order::Natural)?)?;
                }
                Ok(())
            }
        }
    }

    /// Extends the given columns of a trace that is extended in batches, in the given order.
    pub(crate) fn chosen(
        session: &Session<'_, SC>,
        trace: &Resident<'_, SC::Value>,
        columns: &[usize],
    ) -> Result<Matrix<Base<SC>>> {
        let trace = trace.matrix();
        let mut part = Matrix::alloc(&session.stream, trace.rows(), columns.len())?;
        for (to, &column) in columns.iter().enumerate() {
            session.stream.copy(part.column_range_mut(to, to + 1)?, trace.column(column)?)?;
        }
        Ok(extend(session, (&part).into(), Base::<SC>::GENERATOR, Order::Natural)?)
    }
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
