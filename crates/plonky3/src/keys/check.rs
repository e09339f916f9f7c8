//! Checks before a proof begins. Upstream panics on these inputs.

use p3_air::BaseAir;
use p3_commit::{PeriodicColumnShapeError, PeriodicColumns};
use p3_field::TwoAdicField;
use rigel_kernels::transform::ntt::MAX_LOG_ROWS;

use crate::air::structure::Structure;
use crate::base::error::{Error, Result};
use crate::columns::masks;
use crate::columns::trace::Trace;
use crate::prover::Prover;
use crate::upstream::config::DeviceConfig;

/// Checks a table's trace and public values against its AIR. Returns the logarithm of its height.
pub(crate) fn table<SC: DeviceConfig>(
    prover: &Prover<SC>,
    table: usize,
    air: &impl BaseAir<SC::Value>,
    trace: &Trace<'_, SC::Value>,
    public_values: &[SC::Value],
) -> Result<usize> {
    if !air.public_boundary_io().is_empty() {
        let detail = "public values bound to boundary cells are not supported; bind them with constraints";
        return Err(Error::Unsupported(format!("table {table}: {detail}")));
    }
    trace.check_blocks(prover.devices().count())?;
    if trace.width() != air.width() || trace.width() == 0 {
        return Err(Error::Width { table, expected: air.width(), found: trace.width() });
    }
    if !trace.height().is_power_of_two() {
        return Err(Error::Height { table, rows: trace.height() });
    }
    if public_values.len() != air.num_public_values() {
        return Err(Error::PublicValues { table, expected: air.num_public_values(), found: public_values.len() });
    }
    let log_rows = trace.height().trailing_zeros() as usize;
    rows::<SC>(prover, table, log_rows)?;
    // A proof would find out only when it opens the trace.
    let points = 1 + usize::from(!air.main_next_row_columns().is_empty());
    masks::check_budget(prover, trace.height(), points)?;
    periodic(table, air, trace.height())?;
    Ok(log_rows)
}

/// The identity of the AIR that a key was made for: its type and its widths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    type_name: &'static str,
    widths: [usize; 4],
}

impl Identity {
    pub(crate) fn of<V, A: BaseAir<V>>(air: &A) -> Self {
        let widths = [air.width(), air.preprocessed_width(), air.num_public_values(), air.num_periodic_columns()];
        Self { type_name: std::any::type_name::<A>(), widths }
    }

    /// Checks that a proof is of the same AIR.
    pub(crate) fn check<V>(&self, table: usize, air: &impl BaseAir<V>) -> Result<()> {
        let found = Self::of(air);
        if *self == found {
            return Ok(());
        }
        let name = |identity: &Self| {
            let [main, preprocessed, publics, periodic] = identity.widths;
            format!(
                "{} ({main} columns, {preprocessed} preprocessed, {periodic} periodic, {publics} public values)",
                identity.type_name
            )
        };
        let detail = format!("the key was made for {}, the proof is of {}", name(self), name(&found));
        Err(Error::Preprocessed { table, detail })
    }
}

/// Checks that the constraints of an AIR are those of the AIR that a key was made for. AIRs of one type may have other
/// constraints, if it has fields.
pub(crate) fn structure(table: usize, of_key: Structure, of_air: Structure) -> Result<()> {
    if of_key == of_air {
        return Ok(());
    }
    let detail = "the key was made for an AIR of this type with other constraints; make one for this AIR".into();
    Err(Error::Preprocessed { table, detail })
}

/// Checks that the field has a domain for the extended columns.
pub(crate) fn rows<SC: DeviceConfig>(prover: &Prover<SC>, table: usize, log_rows: usize) -> Result<()> {
    within(prover, table, log_rows, SC::Value::TWO_ADICITY)
}

/// Checks that the device's transforms reach the extended columns; upstream's may reach further.
pub(crate) fn device_rows<SC: DeviceConfig>(prover: &Prover<SC>, table: usize, log_rows: usize) -> Result<()> {
    within(prover, table, log_rows, SC::Value::TWO_ADICITY.min(MAX_LOG_ROWS as usize + prover.fri.log_blowup))
}

fn within<SC: DeviceConfig>(prover: &Prover<SC>, table: usize, log_rows: usize, log_limit: usize) -> Result<()> {
    let log_blowup = prover.fri.log_blowup;
    if log_rows + usize::from(SC::HIDING) + log_blowup > log_limit {
        return Err(Error::TooManyRows { table, log_rows, log_blowup, log_limit });
    }
    Ok(())
}

fn periodic<V: p3_field::Field>(table: usize, air: &impl BaseAir<V>, rows: usize) -> Result<()> {
    let columns = air.periodic_columns();
    let shape = |error: PeriodicColumnShapeError| Error::Unsupported(format!("table {table}: {error}"));
    PeriodicColumns::new(&columns, rows).map(|_| ()).map_err(shape)
}

/// Checks that the field has a domain for the quotient.
pub(crate) fn degree<SC: DeviceConfig>(table: usize, log_rows: usize, log_chunks: usize) -> Result<()> {
    let log_limit = SC::Value::TWO_ADICITY;
    if log_rows + log_chunks > log_limit {
        return Err(Error::Degree { table, log_rows, log_chunks, log_limit });
    }
    Ok(())
}
