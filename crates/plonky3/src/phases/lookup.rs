//! LogUp on the device.
//!
//! For lookup c of a table with terms `m_j / (alpha - e_j)`, where `e_j` combines the tuple's elements by powers
//! of beta,
//!
//! ```text
//! f_c[r] = sum_j m_j(r) / (alpha - e_j(r))         (for exclusive branches, only the selected fraction)
//! acc[0] = 0,   acc[r + 1] = acc[r] + sum_c f_c[r],   terminal = acc[n - 1] + sum_c f_c[n - 1]
//! ```
//!
//! One generated kernel writes all denominators, a batch inversion inverts them, a second generated kernel writes
//! the fractions and their sum, and a scan computes the running sum. Where memory is short, all but the scan is done
//! for some rows at a time: the denominators may take more memory than the trace.

use std::ops::Range;

use p3_field::PrimeCharacteristicRing;
use rigel_codegen::Target;
use rigel_gpu::{Stream, View};
use rigel_kernels::domain::selectors;
use rigel_kernels::field::Element;
use rigel_kernels::layout::gather::{self, Rows};
use rigel_kernels::vector::inverse;
use rigel_kernels::vector::scan::{self, Bound};
use rigel_kernels::{Columns, Matrix};

use crate::air::fractions::Fractions;
use crate::air::program::Inputs;
use crate::base::error::Result;
use crate::columns::trace::{Resident, rows_and_next};
use crate::phases::gathered::Gathered;
use crate::prover::session::Session;
use crate::upstream::config::{Base, DeviceConfig, Ext};

/// Gathers the last rows of the columns of all tables' lookups. The sum of a row's elements is the table's terminal:
/// the running sum before the last row, and the fractions of the last row.
pub(crate) fn last_rows<SC: DeviceConfig>(
    stream: &Stream,
    tables: &[Matrix<Base<SC>>],
) -> Result<Gathered<Base<SC>>> {
    let last: Vec<u32> = tables.iter().map(|columns| columns.rows() as u32 - 1).collect();
    let last_row = |(columns, last)| {
        let columns: &Matrix<Base<SC>> = columns;
        Rows { values: columns.values().view(), rows: columns.rows(), indices: std::slice::from_ref(last) }
    };
    let rows: Vec<Rows<'_, Base<SC>>> = tables.iter().zip(&last).map(last_row).collect();
    let mut gathered = Gathered::new(stream, rows.iter().map(Rows::len).sum())?;
    gather::rows_into(stream, gathered.rooms(rows.iter().map(Rows::len))?, &rows)?;
    Ok(gathered)
}

/// The inputs of a table's lookups besides its trace.
pub(crate) struct LookupInputs<'a, SC: DeviceConfig> {
    pub(crate) preprocessed: Option<&'a Matrix<Base<SC>>>,
    pub(crate) publics: Option<View<'a, Base<SC>>>,
    /// The extension-field parameters, indexed as in [`parameter`](crate::air::constraints::parameter); see
    /// [`parameters`].
    pub(crate) challenges: Option<View<'a, Ext<SC>>>,
}

/// The extension-field parameters of a table's lookups: their challenges, after the place of the terminal, which no
/// fraction reads.
pub(crate) fn parameters<SC: DeviceConfig>(challenges: &[SC::Challenge]) -> Vec<SC::Challenge> {
    std::iter::once(SC::Challenge::ZERO).chain(challenges.iter().copied()).collect()
}

/// The batch sizes in which the fractions of a table are made.
#[derive(Clone, Copy)]
pub(crate) struct Making {
    /// The number of rows at a time.
    pub(crate) rows: usize,
    /// The number of rows at a time if only those columns are brought that the lookups read.
    pub(crate) narrow_rows: usize,
    /// The most columns of a trace on the host that are brought as a whole.
    pub(crate) columns: usize,
}

impl Making {
    /// All at once.
    pub(crate) const WHOLE: Self = Self { rows: usize::MAX, narrow_rows: usize::MAX, columns: 0 };
}

/// Computes the columns of a table's lookups: the running sum and one fraction per lookup, over the extension.
pub(crate) fn columns<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    fractions: &Fractions<SC>,
    trace: &Resident<'_, SC::Value>,
    inputs: &LookupInputs<'_, SC>,
    making: Making,
) -> Result<Matrix<Base<SC>>> {
    let on_device = |fractions: &Fractions<SC>, main: Columns<'_, Base<SC>>, rows_at_once: usize| {
        if rows_at_once >= main.rows() {
            let selectors = selectors::kept_on_trace::<Base<SC>>(&session.stream, main.rows().trailing_zeros())?;
            let [columns, sums] = fractions_of(session, fractions, main, inputs, &selectors)?;
            return with_running_sum(session, columns, sums);
        }
        let rows = |rows| rows_and_next(&session.stream, main, rows);
        by_rows(session, fractions, main.rows(), rows, inputs, rows_at_once)
    };
    let parked = match trace.on_device() {
        Ok(main) => return on_device(fractions, main.into(), making.rows),
        Err(parked) => parked,
    };
    let (read, narrow) = fractions.narrow();
    if read.len() > making.columns {
        let rows = |rows| parked.rows_and_next(session, rows);
        return by_rows(session, fractions, parked.rows(), rows, inputs, making.rows);
    }
    let mut made = None;
    parked.each(session, std::slice::from_ref(read), 1, |_, main| {
        made = Some(on_device(narrow, main, making.narrow_rows)?);
        Ok(())
    })?;
    Ok(made.expect("one list of columns"))
}

/// The columns of a table's lookups, of which `rows_and_next` gives some rows of the trace and the one after them.
fn by_rows<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    fractions: &Fractions<SC>,
    rows: usize,
    rows_and_next_of_trace: impl Fn(Range<usize>) -> Result<Matrix<Base<SC>>>,
    inputs: &LookupInputs<'_, SC>,
    rows_at_once: usize,
) -> Result<Matrix<Base<SC>>> {
    let (stream, degree) = (&session.stream, Ext::<SC>::DEGREE);
    let selectors = selectors::kept_on_trace::<Base<SC>>(stream, rows.trailing_zeros())?;
    let mut columns = Matrix::alloc(stream, rows, fractions.columns() * degree)?;
    let mut sums = Matrix::alloc(stream, rows, degree)?;
    for first in (0..rows).step_by(rows_at_once) {
        let here = first..rows.min(first + rows_at_once);
        let of_rows = |matrix: &Matrix<Base<SC>>| rows_and_next(stream, matrix.into(), here.clone());
        let (main, selectors) = (rows_and_next_of_trace(here.clone())?, of_rows(&selectors)?);
        let preprocessed = inputs.preprocessed.map(of_rows).transpose()?;
        let inputs = LookupInputs { preprocessed: preprocessed.as_ref(), ..*inputs };
        let main = (&main).into();
        // What the row after these gives is not right: its own next row is not here. The rows that come next write
        // over it; after the last ones there is no place for it.
        if here.end < rows {
            let outputs = [&mut columns, &mut sums].map(|whole| -> Result<_> {
                Ok(Target { values: whole.values_mut().range_mut(first..)?, stride: rows })
            });
            let [columns, sums] = outputs;
            write_fractions(session, fractions, main, &inputs, &selectors, [columns?, sums?])?;
            continue;
        }
        let made = fractions_of(session, fractions, main, &inputs, &selectors)?;
        // The first columns are those of the running sum, which nothing has written yet.
        for (whole, part, first_written) in [(&mut columns, &made[0], degree), (&mut sums, &made[1], 0)] {
            for column in first_written..part.columns() {
                let to = whole.column_range_mut(column, column + 1)?.range(here.clone())?;
                stream.copy(to, part.column(column)?.range(..here.len())?)?;
            }
        }
    }
    with_running_sum(session, columns, sums)
}

/// Writes the running sum of each row's sums into its column.
fn with_running_sum<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    mut columns: Matrix<Base<SC>>,
    sums: Matrix<Base<SC>>,
) -> Result<Matrix<Base<SC>>> {
    let running = columns.column_range_mut(0, Ext::<SC>::DEGREE)?;
    scan::prefix_sums_into(&session.stream, running, &sums, Bound::Exclusive)?;
    Ok(columns)
}

/// The columns of a table's lookups with the fractions in place, but not the running sum; and the sums of each row's
/// fractions. The rows are adjacent ones of a trace in natural order, and so are those of the selectors.
pub(crate) fn fractions_of<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    fractions: &Fractions<SC>,
    main: Columns<'_, Base<SC>>,
    inputs: &LookupInputs<'_, SC>,
    selectors: &Matrix<Base<SC>>,
) -> Result<[Matrix<Base<SC>>; 2]> {
    let (stream, rows, degree) = (&session.stream, main.rows(), Ext::<SC>::DEGREE);
    let mut columns = Matrix::alloc(stream, rows, fractions.columns() * degree)?;
    let mut sums = Matrix::alloc(stream, rows, degree)?;
    let outputs = [(&mut columns).into(), (&mut sums).into()];
    write_fractions(session, fractions, main, inputs, selectors, outputs)?;
    Ok([columns, sums])
}

/// Writes the fractions of adjacent rows into their columns, and the sums of each row's fractions.
fn write_fractions<SC: DeviceConfig>(
    session: &Session<'_, SC>,
    fractions: &Fractions<SC>,
    main: Columns<'_, Base<SC>>,
    inputs: &LookupInputs<'_, SC>,
    selectors: &Matrix<Base<SC>>,
    outputs: [Target<'_, Base<SC>>; 2],
) -> Result<()> {
    let (stream, rows) = (&session.stream, main.rows());
    let mut bound = Inputs {
        main,
        preprocessed: inputs.preprocessed.map(Into::into),
        permutation: None,
        next: [None; 3],
        selectors: selectors.into(),
        periodic: None,
        publics: inputs.publics,
        extension: inputs.challenges,
    };

    let mut inverses = Matrix::alloc(stream, rows, fractions.terms * Ext::<SC>::DEGREE)?;
    bound.store(stream, &*fractions.denominators(stream.device())?, vec![(&mut inverses).into()])?;
    inverse::invert_assign::<Ext<SC>>(stream, &mut inverses)?;

    bound.permutation = Some((&inverses).into());
    Ok(bound.store(stream, &*fractions.fractions(stream.device())?, outputs.into())?)
}
