//! LogUp over several devices: each computes the fractions of its rows of the trace, in natural order, and their
//! running sum, which begins with the sum of the devices before it. What devices send each other is one element a
//! table, through the host. See [`crate::phases::lookup`].

use p3_field::{BasedVectorSpace, PrimeCharacteristicRing};
use rigel_gpu::Stream;
use rigel_kernels::Matrix;
use rigel_kernels::domain::selectors;
use rigel_kernels::field::Element;
use rigel_kernels::layout::permute;
use rigel_kernels::vector::scan::{self, Bound};

use super::rows::RowBlocks;
use super::team::Team;
use crate::air::fractions::Fractions;
use crate::air::program::Parameters;
use crate::base::error::Result;
use crate::phases::lookup::{LookupInputs, fractions_of, parameters};
use crate::upstream::config::{Base, DeviceConfig, Ext};
use crate::upstream::field::{DeviceExtension, DeviceField};

/// The inputs of a table's lookups.
pub(crate) struct SplitInputs<'a, SC: DeviceConfig> {
    pub(crate) main: &'a RowBlocks<SC>,
    pub(crate) preprocessed: Option<&'a RowBlocks<SC>>,
    pub(crate) publics: &'a [SC::Value],
    pub(crate) challenges: &'a [SC::Challenge],
}

/// The columns of a table's lookups on one device, without what comes from the devices before it.
struct Block<SC: DeviceConfig> {
    /// The running sum and one fraction per lookup.
    columns: Matrix<Base<SC>>,
    /// The sums of the fractions of each row, one row further down. The first row is for the sum of all rows before the
    /// block; it is zero until `finish`.
    terms: Matrix<Base<SC>>,
    running: Matrix<Base<SC>>,
}

/// Lookups of a table whose work is enqueued.
pub(crate) struct Pending<SC: DeviceConfig> {
    blocks: Vec<Block<SC>>,
}

impl<SC: DeviceConfig> Pending<SC> {
    /// Enqueues the fractions and their running sum within each block.
    pub(crate) fn new(
        team: &Team<'_, SC>,
        fractions: &Fractions<SC>,
        inputs: &SplitInputs<'_, SC>,
    ) -> Result<Self> {
        let elements = [parameters::<SC>(inputs.challenges)];
        let (devices, log_rows) = (inputs.main.blocks.len(), inputs.main.rows().ilog2());
        let blocks = team.phase("lookups", || {
            team.among(devices, |(k, session)| {
                let stream = &session.stream;
                let parameters =
                    Parameters::<SC>::upload(stream, &elements, &[SC::Value::as_device(inputs.publics)])?;
                let of_device = LookupInputs {
                    preprocessed: inputs.preprocessed.map(|rows| &rows.blocks[k]),
                    publics: parameters.words(1)?,
                    challenges: parameters.elements(0)?,
                };
                let selectors = selectors_of(stream, log_rows, k, devices)?;
                // The last row is the next block's first, and what it gives is not used: its own next row is not here.
                let main = (&inputs.main.blocks[k]).into();
                let [columns, sums] = fractions_of(session, fractions, main, &of_device, &selectors)?;
                let mut terms = Matrix::zeros(stream, sums.rows(), sums.columns())?;
                for d in 0..sums.columns() {
                    let column = terms.column_range_mut(d, d + 1)?;
                    stream.copy(column.range(1..)?, sums.column(d)?.range(..sums.rows() - 1)?)?;
                }
                let running = scan::prefix_sums(stream, &terms, Bound::Inclusive)?;
                Ok(Block { columns, terms, running })
            })
        })?;
        Ok(Self { blocks })
    }

    /// Completes the columns, but for the row after each block, and returns the table's terminal. Waits for the
    /// devices.
    pub(crate) fn finish(self, team: &Team<'_, SC>) -> Result<(RowBlocks<SC>, SC::Challenge)> {
        let mut before = SC::Challenge::ZERO;
        let mut finished = Vec::with_capacity(self.blocks.len());
        for (k, Block { mut columns, mut terms, mut running }) in self.blocks.into_iter().enumerate() {
            let stream = &team.streams[k];
            let last = running.rows() as u32 - 1;
            let total = permute::gather_rows_at(stream, &running, &[last])?.to_vec(stream)?;
            if k > 0 {
                let carry = stream.upload(SC::Value::as_device(before.as_basis_coefficients_slice()))?;
                for d in 0..terms.columns() {
                    stream.copy(terms.column_range_mut(d, d + 1)?.range(..1)?, carry.range(d..d + 1)?)?;
                }
                scan::prefix_sums_assign(stream, &mut terms, Bound::Inclusive)?;
                running = terms;
            }
            stream.copy(columns.column_range_mut(0, Ext::<SC>::DEGREE)?, running.values().view())?;
            before += SC::Challenge::from_words(&total)[0];
            finished.push(columns);
        }
        Ok((RowBlocks { blocks: finished }, before))
    }
}

/// The selectors of a trace on block k of its rows, and on the row that follows.
fn selectors_of<F: rigel_kernels::field::Field>(
    stream: &Stream,
    log_rows: u32,
    k: usize,
    blocks: usize,
) -> Result<Matrix<F>> {
    let (whole, rows) = (selectors::kept_on_trace::<F>(stream, log_rows)?, (1usize << log_rows) / blocks);
    let mut block = Matrix::alloc(stream, rows + 1, whole.columns())?;
    for column in 0..whole.columns() {
        let (from, next) = (whole.column(column)?, (k + 1) % blocks * rows);
        let (here, follows) = block.column_range_mut(column, column + 1)?.split_at(rows)?;
        stream.copy(here, from.range(k * rows..(k + 1) * rows)?)?;
        stream.copy(follows, from.range(next..next + 1)?)?;
    }
    Ok(block)
}
