//! Data shared by all proofs of a batch: lookups and preprocessed columns.

use std::sync::atomic::{AtomicU64, Ordering};

use p3_air::symbolic::{AirLayout, SymbolicExpressionExt};
use p3_air::{Air, BaseAir};
use p3_batch_stark::common::{GlobalPreprocessed, PreprocessedInstanceMeta, ProverOnlyData};
use p3_batch_stark::symbolic::get_log_num_quotient_chunks_for_domain;
use p3_batch_stark::{CommonData, ProverData};
use p3_commit::{Pcs, PolynomialSpace, UnivariateStarkPcs};
use p3_field::coset::TwoAdicMultiplicativeCoset;
use p3_field::{Algebra, PrimeCharacteristicRing};
use p3_lookup::{InteractionSymbolicBuilder, LogUpGadget, Lookup, Lookups, check_bus_widths};
use p3_matrix::Matrix as _;
use p3_matrix::dense::RowMajorMatrix;
use rigel_kernels::{Columns, Matrix};

use crate::air::contents::{Contents, Extent};
use crate::air::fractions::reads_periodic;
use crate::air::readings::Readings;
use crate::air::structure::{Structure, StructureBuilder};
use crate::base::error::{Error, Result};
use crate::columns::commit::Committed;
use crate::columns::trace::{Trace, upload};
use crate::keys::check::{self, Identity};
use crate::keys::setup::Setup;
use crate::prover::Prover;
use crate::prover::session::Session;
use crate::several::commit::SharedTables;
use crate::several::commit::commit_tables;
use crate::upstream::config::{Base, DeviceConfig};

/// The number of keys made so far.
static KEYS: AtomicU64 = AtomicU64::new(0);

/// Data shared by all proofs of a batch of AIRs at given heights: upstream's `ProverData`, with the preprocessed
/// columns on the device.
pub struct BatchKey<SC: DeviceConfig> {
    /// Upstream's, with the preprocessed columns only if a CPU prover made it.
    pub(crate) data: ProverData<SC>,
    /// `None` without preprocessed columns, with a CPU prover or with several devices.
    pub(crate) preprocessed: Option<PreprocessedTables<SC>>,
    /// The preprocessed columns of a prover with several devices.
    pub(crate) shares: Option<SharedTables<SC>>,
    /// `None` without preprocessed columns.
    setup: Option<Setup>,
    pub(crate) log_rows: Vec<usize>,
    /// The AIRs of the tables.
    pub(crate) airs: Vec<Identity>,
    /// The structures of the AIRs' constraints.
    pub(crate) structures: Vec<Structure>,
    /// Hashes of their preprocessed values and lookups.
    pub(crate) contents: Vec<Contents>,
    /// The key's number, different for each key of the process.
    pub(crate) number: u64,
}

pub(crate) struct PreprocessedTables<SC: DeviceConfig> {
    pub(crate) committed: Committed<'static, SC>,
    /// The columns before extension, which lookups read.
    pub(crate) traces: Vec<Matrix<Base<SC>>>,
}

impl<SC: DeviceConfig> BatchKey<SC> {
    /// The common data that upstream's `verify_batch` takes.
    pub fn common(&self) -> &CommonData<SC> {
        &self.data.common
    }

    /// Checks that the preprocessed columns, if there are any, are those that a proof of this prover reads.
    pub(crate) fn check_setup(&self, prover: &Prover<SC>) -> Result<()> {
        let Some((global, setup)) = self.data.common.preprocessed.as_ref().zip(self.setup.as_ref()) else {
            return Ok(());
        };
        setup.check(prover, global.matrix_to_instance[0], "setup_batch")
    }

    /// Checks that the key was made for AIRs with the same preprocessed values and lookups. Proofs check it, too, but
    /// not where it would slow them down: a device compares the lookups of an AIR only when it reads it, which it does
    /// once for a key, and builds without debug assertions do not compare more than 2^20 preprocessed values of a
    /// table.
    pub fn check_airs<A>(&self, airs: &[A]) -> Result<()>
    where
        A: Air<InteractionSymbolicBuilder<SC::Value, SC::Challenge>>,
    {
        if airs.len() != self.contents.len() {
            return Err(Error::BatchLength { expected: self.contents.len(), found: airs.len() });
        }
        for (table, air) in airs.iter().enumerate() {
            self.airs[table].check::<SC::Value>(table, air)?;
            self.contents[table].check_values(table, air, Extent::All)?;
            self.contents[table].check_lookups::<SC::Value, SC::Challenge, A>(table, air, None)?;
        }
        Ok(())
    }

    pub(crate) fn lookups(&self, table: usize) -> &[Lookup<SC::Value>] {
        &self.data.common.lookups[table]
    }

    /// The number of extension columns and of denominators per row of a table with lookups.
    pub(crate) fn lookup_columns(&self, table: usize) -> Option<(usize, usize)> {
        let lookups = self.lookups(table);
        let terms = lookups.iter().map(|lookup| if lookup.flags.is_some() { 1 } else { lookup.elements.len() });
        (!lookups.is_empty()).then(|| (lookups.len() + 1, terms.sum()))
    }

    /// The index and width of a table's preprocessed matrix.
    pub(crate) fn preprocessed_of(&self, table: usize) -> Option<&PreprocessedInstanceMeta> {
        self.data.common.preprocessed.as_ref()?.instances[table].as_ref()
    }
}

/// Reads the AIRs' lookups and commits to their preprocessed columns, for traces of 2^`log_rows[i]` rows. With such
/// columns, the key is for provers with the same devices, blowup and cap height.
pub fn setup_batch<SC, A>(prover: &Prover<SC>, airs: &[A], log_rows: &[usize]) -> Result<BatchKey<SC>>
where
    SC: DeviceConfig,
    A: Air<InteractionSymbolicBuilder<SC::Value, SC::Challenge>>
        + for<'a> Air<StructureBuilder<'a, SC::Value, SC::Challenge>>,
    SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
{
    if airs.is_empty() {
        return Err(Error::EmptyBatch);
    }
    if airs.len() != log_rows.len() {
        return Err(Error::BatchLength { expected: log_rows.len(), found: airs.len() });
    }
    for (table, &log_rows) in log_rows.iter().enumerate() {
        check::rows(prover, table, log_rows)?;
    }
    let unpacked: Vec<_> = airs.iter().map(Lookups::from_air::<SC::Challenge, A>).collect();
    // Check first: upstream's packing panics if tuples on one bus differ in width.
    check_bus_widths(&unpacked).map_err(|error| Error::Lookup { table: 0, detail: error.to_string() })?;
    for (table, lookups) in unpacked.iter().enumerate() {
        if reads_periodic(lookups) {
            let detail = "a lookup reads a periodic column; bind a column of the trace to it and read that".into();
            return Err(Error::Lookup { table, detail });
        }
    }
    let preprocessed = preprocessed_traces(airs, log_rows)?;
    let of_table = |(air, trace): (&A, &Option<_>)| Contents::of_table::<_, SC::Challenge, A>(air, trace.as_ref());
    let contents = airs.iter().zip(&preprocessed).map(of_table).collect();
    let packed = |((air, lookups), &log_rows)| packed_lookups::<SC, A>(air, lookups, log_rows);
    let lookups: Vec<Lookups<SC::Value>> = airs.iter().zip(unpacked).zip(log_rows).map(packed).collect();
    let (global, kept) = commit_preprocessed(prover, preprocessed, log_rows, &lookups)?.unzip();
    let (preprocessed, shares, preprocessed_prover_data) = match kept {
        Some(Kept::OneDevice(tables)) => (Some(tables), None, None),
        Some(Kept::Shared(tables)) => (None, Some(tables), None),
        Some(Kept::Host(data)) => (None, None, Some(data)),
        None => (None, None, None),
    };
    let setup = global.as_ref().map(|_| Setup::of(prover));
    let data = ProverData {
        common: CommonData::new(global, lookups),
        prover_only: ProverOnlyData { preprocessed_prover_data },
    };
    let identities = airs.iter().map(Identity::of::<SC::Value, A>).collect();
    let structure = |air| Readings::<SC>::structure(air, &AirLayout::from_air::<SC::Value>(air));
    let structures = airs.iter().map(structure).collect();
    let number = KEYS.fetch_add(1, Ordering::Relaxed);
    Ok(BatchKey {
        data,
        preprocessed,
        shares,
        setup,
        log_rows: log_rows.to_vec(),
        airs: identities,
        structures,
        contents,
        number,
    })
}

/// The lookups of an AIR, with those on one bus packed into shared columns as far as the quotient's degree allows.
/// This is upstream's packing; the verifier repeats it.
fn packed_lookups<SC, A>(air: &A, unpacked: Lookups<SC::Value>, log_rows: usize) -> Lookups<SC::Value>
where
    SC: DeviceConfig,
    A: Air<InteractionSymbolicBuilder<SC::Value, SC::Challenge>>,
    SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
{
    let gadget = LogUpGadget::new();
    let hiding = usize::from(SC::HIDING);
    let domain = trace_domain::<SC>(log_rows);
    let log_chunks = get_log_num_quotient_chunks_for_domain::<_, SC::Challenge, A, _>(
        air,
        AirLayout::from_air(air),
        domain,
        &unpacked,
        hiding,
        &gadget,
    );
    let budget = (1 << log_chunks) + 1 - hiding;
    let transition = domain.transition_degree_multiple();
    unpacked
        .pack_same_bus_with_degree(budget, |lookup| gadget.constraint_degree_with_transition(lookup, transition))
}

/// The preprocessed columns that are kept for the proofs.
enum Kept<SC: DeviceConfig> {
    OneDevice(PreprocessedTables<SC>),
    Shared(SharedTables<SC>),
    Host(<SC::Pcs as Pcs<SC::Challenge, SC::Challenger>>::ProverData),
}

type Committing<SC> = (GlobalPreprocessed<SC>, Kept<SC>);

/// The preprocessed columns of each AIR that has some.
fn preprocessed_traces<V: p3_field::Field, A: BaseAir<V>>(
    airs: &[A],
    log_rows: &[usize],
) -> Result<Vec<Option<RowMajorMatrix<V>>>> {
    let trace_of = |(table, (air, &log_rows)): (usize, (&A, &usize))| {
        let trace = air.preprocessed_trace().filter(|trace| trace.width() > 0);
        match trace.as_ref().map(|trace| trace.height()).filter(|&height| height != 1 << log_rows) {
            Some(height) => {
                let detail = format!("{height} preprocessed rows for a trace of 2^{log_rows}");
                Err(Error::Preprocessed { table, detail })
            }
            None => Ok(trace),
        }
    };
    airs.iter().zip(log_rows).enumerate().map(trace_of).collect()
}

fn commit_preprocessed<SC: DeviceConfig>(
    prover: &Prover<SC>,
    preprocessed: Vec<Option<RowMajorMatrix<SC::Value>>>,
    log_rows: &[usize],
    lookups: &[Lookups<SC::Value>],
) -> Result<Option<Committing<SC>>> {
    let mut instances = Vec::with_capacity(preprocessed.len());
    let mut matrix_to_instance = Vec::new();
    let mut traces: Vec<RowMajorMatrix<SC::Value>> = Vec::new();
    for (table, (trace, &log_rows)) in preprocessed.into_iter().zip(log_rows).enumerate() {
        let meta = trace.map(|trace| {
            let (matrix_index, width) = (traces.len(), trace.width());
            matrix_to_instance.push(table);
            traces.push(trace);
            PreprocessedInstanceMeta { matrix_index, width, degree_bits: log_rows + usize::from(SC::HIDING) }
        });
        instances.push(meta);
    }
    if traces.is_empty() {
        return Ok(None);
    }
    let (commitment, kept) = if prover.devices().count() > 1 {
        let traces: Vec<Trace<'_, SC::Value>> = traces.into_iter().map(Into::into).collect();
        let is_looked_up = |matrix: usize| !lookups[matrix_to_instance[matrix]].is_empty();
        let tables = commit_tables(prover, &traces, is_looked_up)?;
        (tables.shares.cap.clone(), Kept::Shared(tables))
    } else if prover.device().is_some() {
        let session = Session::new(prover)?;
        let traces: Vec<_> = traces.iter().map(|trace| upload(&session.stream, trace)).collect::<Result<_>>()?;
        let columns: Vec<Columns<'_, _>> = traces.iter().map(Into::into).collect();
        let mut committed = Committed::public(&session, &columns)?;
        let cap = committed.cap(&session)?;
        (cap, Kept::OneDevice(PreprocessedTables { committed, traces }))
    } else {
        let pcs = prover.config().pcs();
        let rows = |trace: &RowMajorMatrix<_>| trace.height() << usize::from(SC::HIDING);
        let with_domain = |trace| (pcs.natural_domain_for_degree(rows(&trace)), trace);
        let committed = pcs.commit_preprocessing(traces.into_iter().map(with_domain));
        let (commitment, data) = committed.map_err(Into::into)?;
        (commitment, Kept::Host(data))
    };
    Ok(Some((GlobalPreprocessed { commitment, instances, matrix_to_instance }, kept)))
}

/// The subgroup on which a table's trace is given.
pub(crate) fn trace_domain<SC: DeviceConfig>(log_rows: usize) -> TwoAdicMultiplicativeCoset<SC::Value> {
    TwoAdicMultiplicativeCoset::new(SC::Value::ONE, log_rows).expect("the height was checked")
}

/// The columns and values that a table's constraints can read.
pub(crate) fn table_layout<SC: DeviceConfig>(
    air: &impl BaseAir<SC::Value>,
    table: usize,
    key: &BatchKey<SC>,
) -> AirLayout {
    AirLayout {
        preprocessed_width: key.preprocessed_of(table).map_or(0, |meta| meta.width),
        main_width: air.width(),
        num_public_values: air.num_public_values(),
        num_periodic_columns: air.num_periodic_columns(),
        ..Default::default()
    }
}
