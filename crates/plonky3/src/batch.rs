//! Several tables in one proof, tied together by lookups: upstream's `p3_batch_stark::prove_batch`.

use std::panic::resume_unwind;
use std::sync::Arc;

use p3_air::BaseAir;
use p3_air::symbolic::{AirLayout, SymbolicExpressionExt};
use p3_batch_stark::common::PreprocessedInstanceMeta;
use p3_batch_stark::proof::{BatchCommitments, BatchOpenedValues, OpenedValuesWithLookups};
use p3_batch_stark::{BatchProof, BatchProverTranscript, BatchShape};
use p3_commit::{OpenedValues as Opened, PolynomialSpace};
use p3_field::Algebra;
use p3_lookup::{LogUpGadget, Lookup, LookupTerminal, check_multiplicity_height_bound};
use p3_uni_stark::{OpenedValues, PreprocessedOpenedValues, StarkGenericConfig};
use rigel_gpu::Device;
use rigel_kernels::Columns;

use crate::batch_key::{BatchKey, table_layout, trace_domain};
use crate::challenger::Searching;
use crate::check;
use crate::commit::{Committed, extend_traces};
use crate::config::{Base, DeviceConfig};
use crate::constraints::Constraints;
use crate::contents::{self, Extent};
use crate::error::{Error, Result};
use crate::fallback::{self, CpuBatchAir};
use crate::field::{DeviceExtension, DeviceField};
use crate::hiding::{self, random_polynomial};
use crate::lookup::{self, Fractions, LookupInputs, Making};
use crate::open::{Round, open};
use crate::plan::{Batches, Sizes, TableSize, are_small, exact_sizes, usual_chunks};
use crate::program::Parameters;
use crate::prover::{Prover, Session};
use crate::quotient::{self, Table};
use crate::readings::{Kind, Readings};
use crate::report::Proven;
use crate::split;
use crate::trace::{Resident, Trace};
use crate::transcript::Unfinished;

/// One table of a batch.
#[derive(Debug)]
pub struct Instance<'a, SC: DeviceConfig, A> {
    /// The table's AIR.
    pub air: &'a A,
    /// The table's trace, on the host or on the device.
    pub trace: Trace<'a, SC::Value>,
    /// The table's public values.
    pub public_values: Vec<SC::Value>,
}

impl<'a, SC: DeviceConfig, A> Instance<'a, SC, A> {
    /// A table.
    pub fn new(air: &'a A, trace: impl Into<Trace<'a, SC::Value>>, public_values: Vec<SC::Value>) -> Self {
        Self { air, trace: trace.into(), public_values }
    }
}

/// Proves all tables at once. Gives the proof of upstream's `prove_batch`.
pub fn prove_batch<SC, A>(
    prover: &Prover<SC>,
    instances: &[Instance<'_, SC, A>],
    key: &BatchKey<SC>,
) -> Result<Proven<BatchProof<SC>>>
where
    SC: DeviceConfig,
    A: CpuBatchAir<SC>,
    SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
{
    if instances.is_empty() {
        return Err(Error::EmptyBatch);
    }
    if instances.len() != key.log_rows.len() {
        return Err(Error::BatchLength { expected: key.log_rows.len(), found: instances.len() });
    }
    for (table, instance) in instances.iter().enumerate() {
        let log_rows = check::table(prover, table, instance.air, &instance.trace, &instance.public_values)?;
        key.airs[table].check::<SC::Value>(table, instance.air)?;
        let layout = AirLayout::from_air::<SC::Value>(instance.air);
        let found = Readings::<SC>::structure(instance.air, &layout);
        check::structure(table, key.structures[table], found)?;
        if log_rows != key.log_rows[table] {
            let detail = format!("the key is for 2^{} rows, the trace has 2^{log_rows}", key.log_rows[table]);
            return Err(Error::Preprocessed { table, detail });
        }
    }
    key.check_setup(prover)?;
    let heights: Vec<usize> = instances.iter().map(|instance| instance.trace.height()).collect();
    check_multiplicity_height_bound(&key.data.common.lookups, &heights)
        .map_err(|error| Error::Lookup { table: 0, detail: error.to_string() })?;
    let airs: Vec<&A> = instances.iter().map(|instance| instance.air).collect();
    let contents = &key.contents;
    let check = move || {
        let check = |(table, air): (usize, &A)| contents[table].check_values(table, air, Extent::Usual);
        airs.into_iter().enumerate().try_for_each(check)
    };
    contents::beside(contents, check, || {
        #[cfg(debug_assertions)]
        crate::satisfied::batch(instances, key)?;
        let cells = instances.iter().map(|instance| instance.trace.height() * instance.trace.width()).sum();
        let proven = fallback::choose(
            prover,
            cells,
            (),
            |()| on_device(prover, instances, key),
            |()| fallback::prove_batch(prover, instances, key),
        )?;
        check_lookups(prover, instances, key, proven.report.device != fallback::CPU)?;
        Ok(proven)
    })
}

/// Checks that the lookups of AIRs that were read for this proof are the key's. It comes after the proof, because they
/// are known from its reading; a proof on the CPU has none, and its AIRs are read for this.
fn check_lookups<SC, A>(
    prover: &Prover<SC>,
    instances: &[Instance<'_, SC, A>],
    key: &BatchKey<SC>,
    on_device: bool,
) -> Result<()>
where
    SC: DeviceConfig,
    A: CpuBatchAir<SC>,
{
    for (table, (instance, (_, kind))) in instances.iter().zip(kinds(instances, key)).enumerate() {
        let structure = key.structures[table];
        let check =
            |read| key.contents[table].check_lookups::<SC::Value, SC::Challenge, A>(table, instance.air, read);
        let read = prover.readings.lookups(&kind, structure).filter(|_| on_device);
        let mut checked = check(read);
        if checked.is_err() && read.is_some() {
            // The reading may be of another AIR, whose proof has failed or is being made.
            prover.readings.forget(&kind, structure);
            checked = check(None);
        }
        checked?;
    }
    Ok(())
}

fn on_device<SC, A>(
    prover: &Prover<SC>,
    instances: &[Instance<'_, SC, A>],
    key: &BatchKey<SC>,
) -> Result<Proven<BatchProof<SC>>>
where
    SC: DeviceConfig,
    A: CpuBatchAir<SC>,
    SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
{
    for (table, &log_rows) in key.log_rows.iter().enumerate() {
        check::device_rows(prover, table, log_rows)?;
    }
    if prover.devices().count() > 1 {
        return split::prove_batch(prover, instances, key);
    }
    let mut sizes = sizes(prover, instances, key);
    let mut plan = sizes.plan_now()?;
    if plan.is_tight() {
        // The AIRs are read before the proof, too: what their kernels pass to each other counts.
        let airs: Vec<&A> = instances.iter().map(|instance| instance.air).collect();
        sizes = exact_sizes(prover, &airs, key)?;
        plan = sizes.plan()?;
    }
    sizes.prove(plan, |batches| protocol(prover, instances, key, batches))
}

/// The protocol, with the whole extended traces or in batches of columns.
fn protocol<SC, A>(
    prover: &Prover<SC>,
    instances: &[Instance<'_, SC, A>],
    key: &BatchKey<SC>,
    batches: Option<Batches>,
) -> Result<Proven<BatchProof<SC>>>
where
    SC: DeviceConfig,
    A: CpuBatchAir<SC>,
    SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
{
    let session = Session::new(prover)?;
    for instance in instances {
        instance.trace.await_writers(&session.stream)?;
    }
    let tables = 0..instances.len();
    let preprocessed = key.preprocessed.as_ref().map(|tables| &tables.committed);
    let publics: Vec<&[SC::Value]> = instances.iter().map(|instance| instance.public_values.as_slice()).collect();

    // The host reads the AIRs, and loads or compiles their kernels, while the traces are uploaded, extended and hashed.
    let (device, readings) = (session.stream.device(), &prover.readings);
    let mut kinds = kinds(instances, key);
    if batches.is_some() {
        kinds.iter_mut().for_each(|(_, kind)| *kind = kind.in_batches());
    }
    let device = batches.is_none().then_some(device);
    let constraints = || read_constraints(readings, device, instances, key, &kinds);
    let (committed, constraints) = if kinds.iter().all(|(_, kind)| readings.has(kind)) {
        (commit_traces(&session, instances, key, batches), constraints())
    } else {
        std::thread::scope(|scope| {
            let reading = scope.spawn(constraints);
            let committed = commit_traces(&session, instances, key, batches);
            (committed, reading.join().unwrap_or_else(|panic| resume_unwind(panic)))
        })
    };
    let (residents, mut main) = committed?;
    for (table, constraints) in constraints.iter().enumerate() {
        check::degree::<SC>(table, key.log_rows[table], constraints.log_chunks)?;
    }
    let mut challenger =
        Searching::new(prover.config().initialise_challenger(), &session.stream, &prover.search_constants);
    let shape = shape(prover, instances, key);
    let mut transcript = Unfinished::new(
        BatchProverTranscript::<_, SC::Value, SC::Challenge, SC::Commitment>::new(&mut challenger, shape),
    );
    let degree_bits: Vec<usize> = key.log_rows.iter().map(|rows| rows + usize::from(SC::HIDING)).collect();
    transcript.instance_bindings(&degree_bits);

    let main_cap = main.cap(&session)?;
    transcript.main_phase(main_cap.clone(), &publics);
    transcript.preprocessed_phase(key.data.common.preprocessed.as_ref().map(|global| global.commitment.clone()));
    let all_lookups: Vec<&[Lookup<SC::Value>]> = tables.clone().map(|table| key.lookups(table)).collect();
    let (challenges, lookup_pow_witness) = transcript.lookup_phase(&all_lookups, &LogUpGadget::new());

    let traces = Traces { residents: &residents, main: &main };
    let (mut permutation, terminals) =
        commit_lookups(&session, instances, key, &constraints, &traces, &challenges, batches)?;
    drop(residents);
    let permutation_cap = permutation.as_mut().map(|committed| committed.cap(&session)).transpose()?;
    let committed_terminals: Vec<SC::Challenge> = terminals.iter().flatten().copied().collect();
    let alpha = transcript.permutation_phase(permutation_cap.clone(), &committed_terminals);

    let of_lookups =
        |table: usize| terminals[table].into_iter().chain(challenges[table].iter().copied()).collect();
    let extensions: Vec<Vec<SC::Challenge>> = tables.clone().map(of_lookups).collect();
    let periodic: Vec<_> = instances.iter().map(|instance| instance.air.periodic_columns()).collect();
    let mut permutations = permutation.iter().flat_map(|committed| &committed.ldes);
    let mut of_table = |table: usize| Table {
        log_rows: key.log_rows[table] as u32,
        constraints: &constraints[table],
        main: &main.ldes[table],
        preprocessed: preprocessed.zip(key.preprocessed_of(table)).map(|(pre, meta)| pre.whole(meta.matrix_index)),
        permutation: if key.lookups(table).is_empty() { None } else { permutations.next() },
        periodic: &periodic[table],
        publics: publics[table],
        extension: &extensions[table],
    };
    let chunks = quotient::chunks_of_all(&session, &tables.clone().map(&mut of_table).collect::<Vec<_>>(), alpha)?;
    let chunk_counts: Vec<usize> = chunks.iter().map(Vec::len).collect();
    let mut quotient = Committed::new(&session, chunks.into_iter().flatten().collect())?;
    Constraints::free_symbols(&constraints);
    drop(constraints);
    let quotient_cap = quotient.cap(&session)?;
    let random = session.prover.hiding_streams().map(|hiding| {
        let polynomials = |&log_rows: &usize| random_polynomial(&session, hiding, 1 << log_rows);
        let polynomials = session.phase("extend", || key.log_rows.iter().map(polynomials).collect())?;
        Committed::new(&session, polynomials)
    });
    let mut random = random.transpose()?;
    let random_cap = random.as_mut().map(|random| random.cap(&session)).transpose()?;
    transcript.quotient_phase(quotient_cap.clone(), random_cap.clone());
    let (zeta, ood_pow_witness) = transcript.ood_phase();

    let points = |table: usize, reads_next: bool| {
        let next = || trace_domain::<SC>(key.log_rows[table]).next_point(zeta).expect("a two-adic domain has one");
        if reads_next { vec![zeta, next()] } else { vec![zeta] }
    };
    let main_next = |table: usize| !instances[table].air.main_next_row_columns().is_empty();
    let preprocessed_next = |table: usize| !instances[table].air.preprocessed_next_row_columns().is_empty();
    let mut rounds = Vec::with_capacity(5);
    rounds.extend(random.as_ref().map(|random| Round::new(&session, random, vec![vec![zeta]; instances.len()])));
    let main_points = tables.clone().map(|table| points(table, main_next(table))).collect();
    rounds.push(Round::new(&session, &main, main_points));
    rounds.push(Round::new(&session, &quotient, vec![vec![zeta]; quotient.ldes.len()]));
    if let Some((committed, global)) = preprocessed.zip(key.data.common.preprocessed.as_ref()) {
        let of_matrix = |&table: &usize| points(table, preprocessed_next(table));
        rounds.push(Round::public(committed, global.matrix_to_instance.iter().map(of_matrix).collect()));
    }
    if let Some(committed) = &permutation {
        let with_lookups = tables.clone().filter(|&table| !key.lookups(table).is_empty());
        rounds.push(Round::new(&session, committed, with_lookups.map(|table| points(table, true)).collect()));
    }
    let (values, opening_proof) = transcript.delegate(|challenger| open(&session, &rounds, challenger))?;
    transcript.into_inner().finish();
    let searched = challenger.finish()?;
    drop(rounds);

    let opened = Openings {
        values,
        chunk_counts,
        key,
        main_next: tables.clone().map(main_next).collect(),
        preprocessed_next: tables.map(preprocessed_next).collect(),
    };
    let proof = BatchProof {
        commitments: BatchCommitments {
            main: main_cap,
            permutation: permutation_cap,
            quotient_chunks: quotient_cap,
            random: random_cap,
        },
        opened_values: opened.by_table(),
        opening_proof,
        lookup_terminals: terminals.into_iter().map(|terminal| terminal.map(LookupTerminal)).collect(),
        degree_bits,
        lookup_pow_witness,
        ood_pow_witness,
    };
    drop((main, quotient, permutation, random));
    Ok(Proven { proof, report: session.finish(searched)? })
}

/// The memory of a proof of these tables before their constraints are known, see [`usual_chunks`].
fn sizes<'p, SC: DeviceConfig, A>(
    prover: &'p Prover<SC>,
    instances: &[Instance<'_, SC, A>],
    key: &BatchKey<SC>,
) -> Sizes<'p, SC> {
    let size = |(table, instance): (usize, &Instance<'_, SC, A>)| TableSize {
        log_chunks: usual_chunks(prover),
        ..TableSize::of(key, table, instance.trace.width())
    };
    Sizes::new(prover, instances.iter().enumerate().map(size).collect())
}

type CommittedTraces<'a, SC> = (Vec<Option<Resident<'a, <SC as DeviceConfig>::Value>>>, Committed<'a, SC>);

/// The traces that lookups read: kept for them, or those of which the commitment extends some columns at a time.
struct Traces<'a, 'b, SC: DeviceConfig> {
    residents: &'b [Option<Resident<'a, SC::Value>>],
    main: &'b Committed<'a, SC>,
}

/// The commitment to all traces, and those that lookups will read and that it does not contain.
fn commit_traces<'a, SC: DeviceConfig, A>(
    session: &Session<'_, SC>,
    instances: &'a [Instance<'_, SC, A>],
    key: &BatchKey<SC>,
    batches: Option<Batches>,
) -> Result<CommittedTraces<'a, SC>> {
    if let Some(batches) = batches {
        let (mut committed, mut residents) = (Vec::new(), Vec::new());
        for (table, instance) in instances.iter().enumerate() {
            let resident = Resident::for_batches(session, &instance.trace, batches)?;
            let (masked, trace) = hiding::masked(session, resident)?;
            committed.push(masked);
            residents.push(trace.filter(|_| !key.lookups(table).is_empty()));
        }
        return Ok((residents, Committed::in_batches(session, committed, batches.columns)?));
    }
    // The upload of one table overlaps the extension of the previous one, unless both are short.
    let rooms = instances.iter().map(|instance| Resident::room(session, &instance.trace));
    let mut rooms = rooms.collect::<Result<Vec<_>>>()?;
    let allocated = session.stream.record()?;
    let cells: usize = instances.iter().map(|instance| instance.trace.height() * instance.trace.width()).sum();
    let at_once = if are_small(cells * size_of::<Base<SC>>()) { instances.len() } else { 1 };
    let on_host = instances.iter().filter_map(|instance| match &instance.trace {
        Trace::Host(trace) => Some(size_of_val(&trace.values[..])),
        Trace::Device(_) | Trace::Blocks(_) => None,
    });
    let uploading = session.turn_to_upload(on_host.sum());
    let mut residents = Vec::with_capacity(instances.len());
    let mut ldes = Vec::with_capacity(instances.len());
    for (tables, rooms) in instances.chunks(at_once).zip(rooms.chunks_mut(at_once)) {
        let arriving = tables
            .iter()
            .zip(rooms)
            .map(|(instance, room)| Resident::arriving(session, &instance.trace, room.as_mut(), &allocated));
        let arrived = arriving.collect::<Result<Vec<_>>>()?;
        let columns: Vec<Columns<'_, _>> = arrived.iter().map(|resident| resident.whole().into()).collect();
        ldes.extend(session.phase("extend", || extend_traces(session, &columns))?);
        let first = residents.len();
        let with_lookups = |(i, resident)| (!key.lookups(first + i).is_empty()).then_some(resident);
        residents.extend(arrived.into_iter().enumerate().map(with_lookups));
    }
    drop(uploading);
    Ok((residents, Committed::new(session, ldes)?))
}

/// The layouts and kinds of all tables' constraints.
pub(crate) fn kinds<SC: DeviceConfig, A: BaseAir<SC::Value>>(
    instances: &[Instance<'_, SC, A>],
    key: &BatchKey<SC>,
) -> Vec<(AirLayout, Kind)> {
    let of = |(table, instance): (usize, &Instance<'_, SC, A>)| {
        let layout = table_layout(instance.air, table, key);
        (layout, Kind::new(instance.air, &layout, instance.trace.height(), Some((key.number, table))))
    };
    instances.iter().enumerate().map(of).collect()
}

/// The constraints of all tables, with their kernels and those of their lookups if a device is given. Constraints on
/// batches of columns have kernels of their own.
pub(crate) fn read_constraints<SC, A>(
    readings: &Readings<SC>,
    device: Option<&Device>,
    instances: &[Instance<'_, SC, A>],
    key: &BatchKey<SC>,
    kinds: &[(AirLayout, Kind)],
) -> Vec<Arc<Constraints<SC>>>
where
    SC: DeviceConfig,
    A: CpuBatchAir<SC>,
    SymbolicExpressionExt<SC::Value, SC::Challenge>: Algebra<SC::Challenge>,
{
    let read = |(table, (layout, kind)): (usize, &(AirLayout, Kind))| {
        let Instance { air, trace, .. } = &instances[table];
        readings.of(kind, Readings::<SC>::structure(*air, layout), || {
            let mut constraints =
                Constraints::of_air_and_lookups(*air, *layout, trace.height(), key.lookups(table));
            if let Some(device) = device {
                constraints.compile(device);
            }
            constraints
        })
    };
    // One table after another: each is compiled on all cores.
    kinds.iter().enumerate().map(read).collect()
}

pub(crate) fn shape<SC: DeviceConfig, A: BaseAir<SC::Value>>(
    prover: &Prover<SC>,
    instances: &[Instance<'_, SC, A>],
    key: &BatchKey<SC>,
) -> BatchShape {
    BatchShape {
        trace_widths: instances.iter().map(|instance| instance.air.width()).collect(),
        public_value_counts: instances.iter().map(|instance| instance.public_values.len()).collect(),
        preprocessed_widths: (0..instances.len())
            .map(|table| key.preprocessed_of(table).map_or(0, |meta| meta.width))
            .collect(),
        has_preprocessed_commitment: key.data.common.preprocessed.is_some(),
        num_lookup_instances: key.data.common.lookups.iter().filter(|lookups| !lookups.is_empty()).count(),
        lookup_pow_bits: prover.config().lookup_proof_of_work_bits(),
        has_randomization_commitment: SC::HIDING,
        ood_pow_bits: prover.config().ood_proof_of_work_bits(),
    }
}

type CommittedLookups<SC> = (Option<Committed<'static, SC>>, Vec<Option<<SC as StarkGenericConfig>::Challenge>>);

/// The columns of all lookups, their commitment, and the terminal of each table with lookups. Waits for the
/// device.
fn commit_lookups<SC: DeviceConfig, A>(
    session: &Session<'_, SC>,
    instances: &[Instance<'_, SC, A>],
    key: &BatchKey<SC>,
    constraints: &[Arc<Constraints<SC>>],
    traces: &Traces<'_, '_, SC>,
    challenges: &[Vec<SC::Challenge>],
    batches: Option<Batches>,
) -> Result<CommittedLookups<SC>> {
    let fractions = constraints.iter().map(|constraints| constraints.fractions.as_ref());
    let tables: Vec<(usize, &Fractions<SC>)> =
        fractions.enumerate().filter_map(|(table, fractions)| Some((table, fractions?))).collect();
    if tables.is_empty() {
        return Ok((None, vec![None; instances.len()]));
    }
    let stream = &session.stream;
    let (columns, terminals) = session.phase("lookups", || {
        let elements: Vec<_> =
            tables.iter().map(|&(table, _)| lookup::parameters::<SC>(&challenges[table])).collect();
        let publics = |&(table, _): &(usize, _)| SC::Value::as_device(&instances[table].public_values);
        let publics: Vec<_> = tables.iter().map(publics).collect();
        let parameters = Parameters::<SC>::upload(stream, &elements, &publics)?;
        let mut columns = Vec::with_capacity(tables.len());
        for (i, &(table, fractions)) in tables.iter().enumerate() {
            let instance = &instances[table];
            let resident = traces.residents[table].as_ref().or(traces.main.ldes[table].trace());
            let preprocessed = key.preprocessed.as_ref().zip(key.preprocessed_of(table));
            let inputs = LookupInputs {
                preprocessed: preprocessed.map(|(tables, meta)| &tables.traces[meta.matrix_index]),
                publics: parameters.words(tables.len() + i)?,
                challenges: parameters.elements(i)?,
            };
            let size = TableSize::of(key, table, instance.trace.width());
            let making = batches.map_or(Making::WHOLE, |batches| size.making::<SC>(batches.columns));
            let resident = resident.expect("kept for lookups");
            columns.push(lookup::columns(session, fractions, resident, &inputs, making)?);
        }
        let terminals = lookup::last_rows::<SC>(stream, &columns)?;
        Ok((columns, terminals))
    })?;
    let fetched = terminals.fetch(stream)?;
    let committed = match batches {
        None => {
            let views: Vec<Columns<'_, _>> = columns.iter().map(Into::into).collect();
            Committed::extend(session, &views)?
        }
        Some(batches) => {
            let masked = |columns| Ok(hiding::masked(session, Resident::Brought(columns))?.0);
            let columns = columns.into_iter().map(masked).collect::<Result<_>>()?;
            Committed::in_batches(session, columns, batches.columns)?
        }
    };
    let fetched = fetched.wait()?;
    let mut last_rows = terminals.by_room(&fetched).map(SC::Challenge::from_words);
    let mut terminal = || last_rows.next().expect("one per table with lookups").into_iter().sum();
    let terminals =
        (0..instances.len()).map(|table| (!key.lookups(table).is_empty()).then(&mut terminal)).collect();
    Ok((Some(committed), terminals))
}

/// The opened values of all rounds, to be assigned to their tables.
pub(crate) struct Openings<'a, SC: DeviceConfig> {
    pub(crate) values: Opened<SC::Challenge>,
    pub(crate) chunk_counts: Vec<usize>,
    pub(crate) key: &'a BatchKey<SC>,
    pub(crate) main_next: Vec<bool>,
    pub(crate) preprocessed_next: Vec<bool>,
}

impl<SC: DeviceConfig> Openings<'_, SC> {
    pub(crate) fn by_table(self) -> BatchOpenedValues<SC::Challenge> {
        let mut rounds = self.values.into_iter();
        let mut round = || rounds.next().expect("one round per commitment");
        let mut random = if SC::HIDING { round() } else { Vec::new() }.into_iter();
        let (main, quotient) = (round(), round());
        let preprocessed = self.key.data.common.preprocessed.as_ref().map(|_| round());
        let mut permutation = rounds.next().unwrap_or_default().into_iter();
        let mut chunks = quotient.into_iter();
        let mut table_values = |(table, values): (usize, Vec<Vec<SC::Challenge>>)| {
            let values_of =
                |meta: &PreprocessedInstanceMeta| &preprocessed.as_ref().expect("committed")[meta.matrix_index];
            let mut lookup_values = match self.key.lookups(table).is_empty() {
                true => vec![Vec::new(), Vec::new()],
                false => permutation.next().expect("one matrix per table with lookups"),
            };
            OpenedValuesWithLookups {
                base_opened_values: OpenedValues {
                    trace_local: values[0].clone(),
                    trace_next: self.main_next[table].then(|| values[1].clone()),
                    preprocessed: self.key.preprocessed_of(table).map(|meta| PreprocessedOpenedValues {
                        local: values_of(meta)[0].clone(),
                        next: self.preprocessed_next[table].then(|| values_of(meta)[1].clone()),
                    }),
                    quotient_chunks: chunks
                        .by_ref()
                        .take(self.chunk_counts[table])
                        .map(|mut values| values.swap_remove(0))
                        .collect(),
                    random: random.next().map(|mut values| values.swap_remove(0)),
                },
                permutation_next: lookup_values.pop().expect("two points"),
                permutation_local: lookup_values.pop().expect("two points"),
            }
        };
        BatchOpenedValues { instances: main.into_iter().enumerate().map(&mut table_values).collect() }
    }
}
