//! One table: upstream's `p3_uni_stark::prove`.

use std::panic::resume_unwind;

use p3_air::symbolic::AirLayout;
use p3_commit::PolynomialSpace;
use p3_field::PrimeCharacteristicRing;
use p3_field::coset::TwoAdicMultiplicativeCoset;
use p3_uni_stark::{Commitments, Proof, StarkProverTranscript, StarkShape};

use crate::air::constraints::Constraints;
use crate::air::contents::{self, Extent};
use crate::air::provable::CpuAir;
use crate::air::readings::{Kind, Readings};
use crate::base::error::{Error, Result};
use crate::base::report::Proven;
use crate::columns::batches::Batches;
use crate::columns::commit::Committed;
use crate::columns::masks;
use crate::columns::masks::random_polynomial;
use crate::columns::trace::{Resident, Trace, only_block};
use crate::door::fallback;
use crate::door::openings::opened_values;
use crate::door::prove_over;
use crate::keys::check;
use crate::keys::preprocessed::Preprocessed;
use crate::memory::plan::{Sizes, TableSize, usual_chunks};
use crate::phases::open::open;
use crate::phases::quotient::{self, Table};
use crate::phases::round::Round;
use crate::prover::Prover;
use crate::prover::session::Session;
use crate::upstream::challenger::Searching;
use crate::upstream::config::DeviceConfig;
use crate::upstream::transcript::Unfinished;

/// Proves that `trace` satisfies `air`. Gives the proof of upstream's `prove`.
///
/// The trace is upstream's matrix, or a matrix that is already on the device (see [`Trace`]).
///
/// The prover reads an AIR in its first proof of it, and knows it again by its constraints.
pub fn prove<'t, SC, A>(
    prover: &Prover<SC>,
    air: &A,
    trace: impl Into<Trace<'t, SC::Value>>,
    public_values: &[SC::Value],
) -> Result<Proven<Proof<SC>>>
where
    SC: DeviceConfig,
    A: CpuAir<SC>,
{
    prove_with_preprocessed(prover, air, trace, public_values, None)
}

/// [`prove`] for an AIR with preprocessed columns, as upstream's `prove_with_preprocessed`.
pub fn prove_with_preprocessed<'t, SC, A>(
    prover: &Prover<SC>,
    air: &A,
    trace: impl Into<Trace<'t, SC::Value>>,
    public_values: &[SC::Value],
    preprocessed: Option<&Preprocessed<SC>>,
) -> Result<Proven<Proof<SC>>>
where
    SC: DeviceConfig,
    A: CpuAir<SC>,
{
    let trace = trace.into();
    let log_rows = check::table(prover, 0, air, &trace, public_values)?;
    check_preprocessed(prover, air.preprocessed_width(), log_rows + usize::from(SC::HIDING), preprocessed)?;
    if let Some(preprocessed) = preprocessed {
        preprocessed.air.check::<SC::Value>(0, air)?;
        let found = Readings::<SC>::structure(air, &AirLayout::from_air::<SC::Value>(air));
        check::structure(0, preprocessed.structure, found)?;
    }
    let prove = || {
        #[cfg(debug_assertions)]
        crate::door::satisfied::table::<SC, A>(air, &trace, public_values)?;
        let cells = trace.height() * trace.width();
        fallback::choose(
            prover,
            cells,
            trace,
            |trace| on_device(prover, air, trace, public_values, preprocessed),
            |trace| fallback::prove(prover, air, trace, public_values, preprocessed),
        )
    };
    match preprocessed.map(|preprocessed| preprocessed.contents) {
        Some(contents) => {
            contents::beside(&[contents], move || contents.check_values(0, air, Extent::Usual), prove)
        }
        None => prove(),
    }
}

fn check_preprocessed<SC: DeviceConfig>(
    prover: &Prover<SC>,
    width: usize,
    log_rows: usize,
    preprocessed: Option<&Preprocessed<SC>>,
) -> Result<()> {
    let found =
        preprocessed.map_or((0, log_rows), |pre| (pre.verifier_key().width, pre.verifier_key().degree_bits));
    let detail = match found {
        (0, _) if width > 0 => {
            format!(
                "the AIR has {width} preprocessed columns; call setup_preprocessed and prove_with_preprocessed"
            )
        }
        (found, _) if found != width => format!("{found} preprocessed columns, the AIR has {width}"),
        (_, found) if found != log_rows => format!("2^{found} preprocessed rows, the trace has 2^{log_rows}"),
        _ => return preprocessed.map_or(Ok(()), |pre| pre.setup.check(prover, 0, "setup_preprocessed")),
    };
    Err(Error::Preprocessed { table: 0, detail })
}

/// Proves on the device, with the whole extended trace in memory if it fits, else in column batches.
fn on_device<SC, A>(
    prover: &Prover<SC>,
    air: &A,
    trace: &Trace<'_, SC::Value>,
    public_values: &[SC::Value],
    preprocessed: Option<&Preprocessed<SC>>,
) -> Result<Proven<Proof<SC>>>
where
    SC: DeviceConfig,
    A: CpuAir<SC>,
{
    check::device_rows(prover, 0, trace.height().trailing_zeros() as usize)?;
    if prover.devices().count() > 1 {
        return prove_over::prove(prover, air, trace, public_values, preprocessed);
    }
    let mut sizes = sizes(prover, trace);
    let mut plan = sizes.plan_now()?;
    if plan.is_tight() {
        // The AIR is read before the proof, too: what its kernels pass to each other counts.
        sizes = exact_sizes(prover, air, trace, preprocessed)?;
        plan = sizes.plan()?;
    }
    sizes.prove(plan, |batches| protocol(prover, air, trace, public_values, preprocessed, batches))
}

/// The memory of a proof of this trace before its constraints are known, see [`usual_chunks`].
fn sizes<'p, SC: DeviceConfig>(prover: &'p Prover<SC>, trace: &Trace<'_, SC::Value>) -> Sizes<'p, SC> {
    let log_rows = trace.height().trailing_zeros() as usize;
    let log_chunks = usual_chunks(prover);
    Sizes::new(prover, vec![TableSize { log_rows, width: trace.width(), log_chunks, ..TableSize::default() }])
}

/// The memory of a proof of this trace, with its constraints.
fn exact_sizes<'p, SC: DeviceConfig, A: CpuAir<SC>>(
    prover: &'p Prover<SC>,
    air: &A,
    trace: &Trace<'_, SC::Value>,
    preprocessed: Option<&Preprocessed<SC>>,
) -> Result<Sizes<'p, SC>> {
    let device = prover.device().ok_or(rigel_gpu::Error::Disabled)?;
    let preprocessed_width = preprocessed.map_or(0, |pre| pre.verifier_key().width);
    let layout = AirLayout { preprocessed_width, ..AirLayout::from_air::<SC::Value>(air) };
    let kind = Kind::new(air, &layout, trace.height(), None).in_batches();
    let structure = Readings::<SC>::structure(air, &layout);
    let read = || Constraints::of_air(air, layout, trace.height());
    let constraints = prover.readings.of(&kind, structure, read);
    check::degree::<SC>(0, trace.height().trailing_zeros() as usize, constraints.log_chunks)?;
    let (log_rows, width) = (trace.height().trailing_zeros() as usize, trace.width());
    let size = TableSize { log_rows, width, preprocessed: preprocessed_width, ..TableSize::default() };
    Ok(Sizes::new(prover, vec![constraints.sized(size, prover, device)]))
}

/// The device memory that a proof of this trace may take, with the whole extended trace.
pub(crate) fn planned_bytes<SC: DeviceConfig>(prover: &Prover<SC>, trace: &Trace<'_, SC::Value>) -> usize {
    // Of another height there is no proof, but an error.
    let fits =
        trace.height().is_power_of_two() && check::device_rows(prover, 0, trace.height().ilog2() as usize).is_ok();
    if fits { sizes(prover, trace).peak() } else { 0 }
}

fn commit_trace<'t, SC: DeviceConfig>(
    session: &Session<'_, SC>,
    trace: &'t Trace<'_, SC::Value>,
    batches: Option<Batches>,
) -> Result<Committed<'t, SC>> {
    match (batches, trace) {
        (Some(batches), trace) => {
            let resident = Resident::for_batches(session, trace, batches)?;
            Committed::in_batches(session, vec![masks::masked(session, resident)?.0], batches.columns)
        }
        (None, trace) if SC::HIDING => {
            let resident = Resident::new(session, trace)?;
            Committed::extend(session, &[resident.whole().into()])
        }
        (None, Trace::Host(trace)) => Committed::arriving(session, trace),
        (None, Trace::Device(trace)) => Committed::extend(session, &[(*trace).into()]),
        (None, Trace::Blocks(blocks)) => Committed::extend(session, &[only_block(blocks)?.into()]),
    }
}

/// The protocol, with the whole extended trace or in batches of columns.
fn protocol<SC, A>(
    prover: &Prover<SC>,
    air: &A,
    trace: &Trace<'_, SC::Value>,
    public_values: &[SC::Value],
    preprocessed: Option<&Preprocessed<SC>>,
    batches: Option<Batches>,
) -> Result<Proven<Proof<SC>>>
where
    SC: DeviceConfig,
    A: CpuAir<SC>,
{
    let config = prover.config();
    let session = Session::new(prover)?;
    trace.await_writers(&session.stream)?;
    let rows = trace.height();
    let log_rows = rows.trailing_zeros() as usize;
    let preprocessed_width = preprocessed.map_or(0, |pre| pre.verifier_key().width);
    let preprocessed_lde = preprocessed.and_then(|pre| pre.committed.as_ref());

    // The host reads the AIR, and loads or compiles its kernels, while the trace is uploaded, extended and hashed.
    let layout = AirLayout {
        preprocessed_width,
        main_width: air.width(),
        num_public_values: air.num_public_values(),
        num_periodic_columns: air.num_periodic_columns(),
        ..Default::default()
    };
    let (device, readings) = (session.stream.device(), &prover.readings);
    let kind = Kind::new(air, &layout, rows, None);
    let kind = if batches.is_some() { kind.in_batches() } else { kind };
    let constraints = || {
        readings.of(&kind, Readings::<SC>::structure(air, &layout), || {
            let mut constraints = Constraints::of_air(air, layout, rows);
            if batches.is_none() {
                constraints.compile(device);
            }
            constraints
        })
    };
    let (main, constraints) = if readings.has(&kind) {
        // The device is busy with the trace while the host looks the AIR up.
        (commit_trace(&session, trace, batches), constraints())
    } else {
        std::thread::scope(|scope| {
            let reading = scope.spawn(constraints);
            let main = commit_trace(&session, trace, batches);
            (main, reading.join().unwrap_or_else(|panic| resume_unwind(panic)))
        })
    };
    let mut main = main?;
    check::degree::<SC>(0, log_rows, constraints.log_chunks)?;
    let chunks = 1 << constraints.log_chunks;
    let ood_bits = config.ood_proof_of_work_bits();
    let log_committed = log_rows + usize::from(SC::HIDING);
    let shape = StarkShape::new(air, preprocessed_width, log_committed, log_rows, chunks, SC::HIDING, ood_bits);
    let mut challenger = Searching::new(config.initialise_challenger(), &session.stream, &prover.search_constants);
    let mut transcript =
        Unfinished::new(StarkProverTranscript::<_, SC::Value, SC::Challenge>::new(&mut challenger, shape));

    let trace_cap = main.cap(&session)?;
    let preprocessed_cap = preprocessed.map(|pre| pre.verifier_key().commitment.clone());
    let alpha = transcript.constraint_phase(trace_cap.clone(), preprocessed_cap, public_values);

    let table = Table {
        log_rows: log_rows as u32,
        constraints: &constraints,
        main: &main.ldes[0],
        preprocessed: preprocessed_lde.map(|pre| pre.whole(0)),
        permutation: None,
        periodic: &air.periodic_columns(),
        publics: public_values,
        extension: &[],
    };
    let mut quotient = Committed::new(&session, quotient::chunks(&session, &table, alpha)?)?;
    Constraints::free_symbols(std::slice::from_ref(&constraints));
    let quotient_cap = quotient.cap(&session)?;
    let random = session.prover.hiding_streams().map(|hiding| {
        let polynomials = session.phase("extend", || random_polynomial(&session, hiding, rows))?;
        Committed::new(&session, vec![polynomials])
    });
    let mut random = random.transpose()?;
    let random_cap = random.as_mut().map(|random| random.cap(&session)).transpose()?;
    let (zeta, ood_witness) = transcript.ood_phase(quotient_cap.clone(), random_cap.clone());

    let domain = TwoAdicMultiplicativeCoset::new(SC::Value::ONE, log_rows).expect("checked");
    let next = domain.next_point(zeta).expect("a two-adic domain has a next point");
    let points = |reads_next: bool| if reads_next { vec![zeta, next] } else { vec![zeta] };
    let main_next = !air.main_next_row_columns().is_empty();
    let preprocessed_next = !air.preprocessed_next_row_columns().is_empty();
    let mut rounds = Vec::with_capacity(4);
    rounds.extend(random.as_ref().map(|random| Round::new(&session, random, vec![points(false)])));
    rounds.push(Round::new(&session, &main, vec![points(main_next)]));
    rounds.push(Round::new(&session, &quotient, vec![points(false); chunks]));
    rounds.extend(preprocessed_lde.map(|committed| Round::public(committed, vec![points(preprocessed_next)])));
    let (values, opening_proof) = transcript.delegate(|challenger| open(&session, &rounds, challenger))?;
    transcript.into_inner().finish();
    let searched = challenger.finish()?;

    drop(rounds);
    let proof = Proof {
        commitments: Commitments { trace: trace_cap, quotient_chunks: quotient_cap, random: random_cap },
        opened_values: opened_values(values, SC::HIDING, preprocessed_lde.is_some()),
        opening_proof,
        degree_bits: log_committed,
        ood_pow_witness: ood_witness.unwrap_or(SC::Value::ZERO),
    };
    Ok(Proven { proof, report: session.finish(searched)? })
}
