//! Several tables in one proof, tied together by lookups: upstream's `p3_batch_stark::prove_batch`.

use std::panic::resume_unwind;
use std::sync::Arc;

use p3_air::symbolic::{AirLayout, SymbolicExpressionExt};
use p3_batch_stark::proof::BatchCommitments;
use p3_batch_stark::{BatchProof, BatchProverTranscript};
use p3_commit::PolynomialSpace;
use p3_field::Algebra;
use p3_lookup::{LogUpGadget, Lookup, LookupTerminal, check_multiplicity_height_bound};
use p3_uni_stark::StarkGenericConfig;
use rigel_kernels::Columns;

use crate::air::constraints::Constraints;
use crate::air::contents::{self, Extent};
use crate::air::fractions::Fractions;
use crate::air::program::Parameters;
use crate::air::provable::CpuBatchAir;
use crate::air::readings::Readings;
use crate::base::error::{Error, Result};
use crate::base::report::Proven;
use crate::columns::batches::Batches;
use crate::columns::commit::{Committed, extend_traces};
use crate::columns::masks;
use crate::columns::masks::random_polynomial;
use crate::columns::trace::{Resident, Trace};
use crate::door::batch_over;
use crate::door::fallback;
use crate::door::instance::Instance;
use crate::door::openings::Openings;
use crate::door::tables::{kinds, read_constraints, shape};
use crate::keys::batch_key::{BatchKey, trace_domain};
use crate::keys::check;
use crate::memory::plan::{Sizes, TableSize, exact_sizes, usual_chunks};
use crate::phases::lookup::{self, LookupInputs, Making};
use crate::phases::open::open;
use crate::phases::quotient::{self, Table};
use crate::phases::round::Round;
use crate::prover::Prover;
use crate::prover::session::Session;
use crate::prover::session::are_small;
use crate::upstream::challenger::Searching;
use crate::upstream::config::{Base, DeviceConfig};
use crate::upstream::field::{DeviceExtension, DeviceField};
use crate::upstream::transcript::Unfinished;

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
        crate::door::satisfied::batch(instances, key)?;
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
        return batch_over::prove_batch(prover, instances, key);
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
            let (masked, trace) = masks::masked(session, resident)?;
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
            let masked = |columns| Ok(masks::masked(session, Resident::Brought(columns))?.0);
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
