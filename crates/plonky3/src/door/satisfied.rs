//! Debug builds check constraints and lookups before a proof, as upstream's provers do, and name the first row that
//! does not satisfy them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use p3_air::{ConstraintFailure, DebugConstraintBuilder, check_all_constraints};
use p3_lookup::debug_util::{LookupDebugInstance, check_lookups};
use p3_matrix::Matrix as _;
use p3_matrix::dense::{RowMajorMatrix, RowMajorMatrixView};
use p3_matrix::stack::ViewPair;

use crate::air::provable::{CpuAir, CpuBatchAir};
use crate::base::error::{Error, Result};
use crate::columns::trace::Trace;
use crate::door::instance::Instance;
use crate::keys::batch_key::BatchKey;
use crate::upstream::config::DeviceConfig;

/// Checks the constraints of one table.
pub(crate) fn table<SC: DeviceConfig, A: CpuAir<SC>>(
    air: &A,
    trace: &Trace<'_, SC::Value>,
    public_values: &[SC::Value],
) -> Result<()> {
    // A trace on a device that is full can't be read back for the check; the proof will say so.
    let Ok(trace) = trace.to_host() else { return Ok(()) };
    let report = check_all_constraints(air, &trace, public_values, Some(1));
    refuse(0, report.failures.first().map(|first| first.row), &report.failures)
}

/// Checks the constraints of all tables of a batch, then their lookups.
pub(crate) fn batch<SC: DeviceConfig, A: CpuBatchAir<SC>>(
    instances: &[Instance<'_, SC, A>],
    key: &BatchKey<SC>,
) -> Result<()> {
    let Ok(traces) = instances.iter().map(|instance| instance.trace.to_host()).collect::<Result<Vec<_>>>() else {
        return Ok(());
    };
    let columns = |instance: &Instance<'_, SC, A>| {
        instance.air.preprocessed_trace().filter(|preprocessed| preprocessed.width() > 0)
    };
    let preprocessed: Vec<Option<RowMajorMatrix<SC::Value>>> = instances.iter().map(columns).collect();
    for (table, instance) in instances.iter().enumerate() {
        let rows = traces[table].height();
        if let Some(found) =
            preprocessed[table].as_ref().map(|matrix| matrix.height()).filter(|&found| found != rows)
        {
            let detail = format!("{found} preprocessed rows, the trace has {rows}");
            return Err(Error::Preprocessed { table, detail });
        }
        for row in 0..traces[table].height() {
            let failures = row_failures::<SC, A>(instance, &traces[table], preprocessed[table].as_ref(), row);
            refuse(table, Some(row), &failures)?;
        }
    }
    let lookups: Vec<LookupDebugInstance<'_, SC::Value>> = (0..instances.len())
        .map(|table| LookupDebugInstance {
            main_trace: &traces[table],
            preprocessed_trace: &preprocessed[table],
            public_values: &instances[table].public_values,
            lookups: key.lookups(table),
            permutation_challenges: &[],
        })
        .collect();
    // Upstream's check panics, with the tuple and its places.
    catch_unwind(AssertUnwindSafe(|| check_lookups(&lookups))).map_err(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Error::Lookup { table: 0, detail: said.unwrap_or("the lookups do not balance").to_string() }
    })
}

/// The constraints of a table that a row and the next one do not satisfy.
fn row_failures<SC: DeviceConfig, A: CpuBatchAir<SC>>(
    instance: &Instance<'_, SC, A>,
    trace: &RowMajorMatrix<SC::Value>,
    preprocessed: Option<&RowMajorMatrix<SC::Value>>,
    row: usize,
) -> Vec<ConstraintFailure> {
    fn pair<V: Clone + Send + Sync>(matrix: &RowMajorMatrix<V>, row: usize) -> ViewPair<'_, V> {
        let at =
            |row: usize| RowMajorMatrixView::new_row(&matrix.values[row * matrix.width..(row + 1) * matrix.width]);
        ViewPair::new(at(row), at((row + 1) % matrix.height()))
    }
    let none = || ViewPair::new(RowMajorMatrixView::new(&[], 0), RowMajorMatrixView::new(&[], 0));
    let flag = |flag: bool| <SC::Value as p3_field::PrimeCharacteristicRing>::from_bool(flag);
    let (last, periodic) = (trace.height() - 1, instance.air.periodic_values(row));
    let mut builder = DebugConstraintBuilder::<SC::Value, SC::Challenge>::new_with_permutation(
        row,
        pair(trace, row),
        preprocessed.map_or_else(none, |matrix| pair(matrix, row)),
        &instance.public_values,
        flag(row == 0),
        flag(row == last),
        flag(row != last),
        ViewPair::new(RowMajorMatrixView::new(&[], 0), RowMajorMatrixView::new(&[], 0)),
        &[],
        &[],
        &periodic,
    );
    instance.air.eval(&mut builder);
    builder.into_failures()
}

fn refuse(table: usize, row: Option<usize>, failures: &[ConstraintFailure]) -> Result<()> {
    let (Some(row), false) = (row, failures.is_empty()) else { return Ok(()) };
    let constraints = failures.iter().filter(|failure| failure.row == row).map(ToString::to_string);
    Err(Error::Unsatisfied { table, row, constraints: constraints.collect::<Vec<_>>().join(", ") })
}
