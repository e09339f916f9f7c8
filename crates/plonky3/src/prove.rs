//! One table: upstream's `p3_uni_stark::prove`.

use std::panic::resume_unwind;

use p3_air::symbolic::AirLayout;
use p3_commit::PolynomialSpace;
use p3_field::PrimeCharacteristicRing;
use p3_field::coset::TwoAdicMultiplicativeCoset;
use p3_uni_stark::{
    Commitments, OpenedValues, PreprocessedOpenedValues, Proof, QuotientAir, StarkProverTranscript, StarkShape,
};
use rigel_codegen::{Split, scratch_columns};

use crate::challenger::Searching;
use crate::check;
use crate::commit::Committed;
use crate::config::DeviceConfig;
use crate::constraints::Constraints;
use crate::error::{Error, Result};
use crate::fallback::{self, CpuAir, Place};
use crate::open::{Round, open};
use crate::plan::{Sizes, TableSize};
use crate::preprocessed::Preprocessed;
use crate::prover::{Prover, Session};
use crate::quotient::{self, Table};
use crate::readings::Kind;
use crate::report::{Fallback, Proven};
use crate::trace::{Resident, Trace};
use crate::transcript::Unfinished;

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
    check_preprocessed(prover, air.preprocessed_width(), log_rows, preprocessed)?;
    let cells = trace.height() * trace.width();
    fallback::choose(prover, cells, |place| match place {
        Place::Device => on_device(prover, air, &trace, public_values, preprocessed),
        Place::Cpu => fallback::prove(prover, air, &trace, public_values, log_rows),
    })
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
        _ if prover.device().is_some() && preprocessed.is_some_and(|pre| pre.committed.is_none()) => {
            "the preprocessed columns were set up by a CPU prover; call setup_preprocessed with this one instead"
                .into()
        }
        _ => return Ok(()),
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
    A: QuotientAir<SC>,
{
    check::device_rows(prover, 0, trace.height().trailing_zeros() as usize)?;
    let mut sizes = sizes(prover, trace);
    let estimate = sizes.plan(true)?;
    if estimate.is_tight() {
        // The AIR is read before the proof, too: what its kernels pass to each other counts.
        sizes = exact_sizes(prover, air, trace, preprocessed)?;
    }
    let plan = sizes.plan(true)?.check()?;
    let mut batch = plan.batch;
    let mut reason = batch.map(|_| "the whole extended trace does not fit".to_string());
    loop {
        let error = match protocol(prover, air, trace, public_values, preprocessed, batch) {
            Err(Error::Gpu(error @ rigel_gpu::Error::OutOfMemory { .. })) => error,
            done => return done.map(|proven| in_batches(proven, reason)),
        };
        // The plan does not know of other processes' memory and of fragmentation, which show only when allocating.
        batch = match batch {
            None => sizes.in_batches()?.check()?.batch,
            Some(columns) => Some(sizes.narrower(columns).ok_or_else(|| error.clone())?),
        };
        reason = Some(error.to_string());
    }
}

/// Notes why the trace was extended in batches, if it was.
fn in_batches<P>(mut proven: Proven<P>, reason: Option<String>) -> Proven<P> {
    let fallback = reason.map(|reason| Fallback { part: "the trace", ran_on: BATCHES, reason });
    proven.report.fallbacks.extend(fallback);
    proven
}

/// Reported for a trace whose whole extension does not fit.
const BATCHES: &str = "device in batches of columns";

/// The memory of a proof of this trace before its constraints are known: the quotient has the largest possible
/// size.
fn sizes<'p, SC: DeviceConfig>(prover: &'p Prover<SC>, trace: &Trace<'_, SC::Value>) -> Sizes<'p, SC> {
    let log_rows = trace.height().trailing_zeros() as usize;
    let log_chunks = prover.fri.log_blowup;
    Sizes::new(prover, vec![TableSize { log_rows, width: trace.width(), lookups: None, log_chunks, scratch: 0 }])
}

/// The memory of a proof of this trace, with its constraints.
fn exact_sizes<'p, SC: DeviceConfig, A: QuotientAir<SC>>(
    prover: &'p Prover<SC>,
    air: &A,
    trace: &Trace<'_, SC::Value>,
    preprocessed: Option<&Preprocessed<SC>>,
) -> Result<Sizes<'p, SC>> {
    let device = prover.device().ok_or(rigel_gpu::Error::Disabled)?;
    let preprocessed_width = preprocessed.map_or(0, |pre| pre.verifier_key().width);
    let layout = AirLayout { preprocessed_width, ..AirLayout::from_air::<SC::Value>(air) };
    let constraints = Constraints::<SC>::of_air(air, layout, trace.height());
    check::degree(prover, 0, constraints.log_chunks)?;
    Ok(Sizes::new(
        prover,
        vec![TableSize {
            log_rows: trace.height().trailing_zeros() as usize,
            width: trace.width(),
            lookups: None,
            log_chunks: constraints.log_chunks,
            scratch: scratch_columns(&constraints.graph, &constraints.outputs, Split::of(device)),
        }],
    ))
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
    trace: &Trace<'t, SC::Value>,
    batch: Option<usize>,
) -> Result<Committed<'t, SC>> {
    match (batch, trace) {
        (Some(batch), trace) => Committed::in_batches(session, Resident::in_parts(session, trace, batch)?, batch),
        (None, Trace::Host(trace)) => Committed::arriving(session, trace),
        (None, Trace::Device(trace)) => Committed::extend(session, &[(*trace).into()]),
    }
}

/// The protocol. With `batch`, that many columns of the trace are extended at a time.
fn protocol<SC, A>(
    prover: &Prover<SC>,
    air: &A,
    trace: &Trace<'_, SC::Value>,
    public_values: &[SC::Value],
    preprocessed: Option<&Preprocessed<SC>>,
    batch: Option<usize>,
) -> Result<Proven<Proof<SC>>>
where
    SC: DeviceConfig,
    A: QuotientAir<SC>,
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
    let (device, log_blowup, readings) = (session.stream.device(), prover.fri.log_blowup, &prover.readings);
    let kind = Kind::new::<A>(&layout, rows, None);
    let constraints = || {
        readings.of(&kind, readings.fingerprint(air, &layout), || {
            let mut constraints = Constraints::of_air(air, layout, rows);
            if batch.is_none() {
                constraints.compile(device, log_blowup);
            }
            constraints
        })
    };
    let (main, constraints) = if readings.has(&kind) {
        // The device is busy with the trace while the host looks the AIR up.
        (commit_trace(&session, trace, batch), constraints())
    } else {
        std::thread::scope(|scope| {
            let reading = scope.spawn(constraints);
            let main = commit_trace(&session, trace, batch);
            (main, reading.join().unwrap_or_else(|panic| resume_unwind(panic)))
        })
    };
    let main = main?;
    check::degree(prover, 0, constraints.log_chunks)?;
    let chunks = 1 << constraints.log_chunks;
    let ood_bits = config.ood_proof_of_work_bits();
    let shape = StarkShape::new(air, preprocessed_width, log_rows, log_rows, chunks, false, ood_bits);
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
    let quotient = Committed::new(&session, quotient::chunks(&session, &table, alpha)?)?;
    constraints.free_symbols();
    let quotient_cap = quotient.cap(&session)?;
    let (zeta, ood_witness) = transcript.ood_phase(quotient_cap.clone(), None);

    let domain = TwoAdicMultiplicativeCoset::new(SC::Value::ONE, log_rows).expect("checked");
    let next = domain.next_point(zeta).expect("a two-adic domain has a next point");
    let points = |reads_next: bool| if reads_next { vec![zeta, next] } else { vec![zeta] };
    let main_next = !air.main_next_row_columns().is_empty();
    let preprocessed_next = !air.preprocessed_next_row_columns().is_empty();
    let mut rounds = vec![
        Round { committed: &main, points: vec![points(main_next)] },
        Round { committed: &quotient, points: vec![points(false); chunks] },
    ];
    rounds.extend(preprocessed_lde.map(|committed| Round { committed, points: vec![points(preprocessed_next)] }));
    let (values, opening_proof) = transcript.delegate(|challenger| open(&session, &rounds, challenger))?;
    transcript.into_inner().finish();
    let searched = challenger.finish()?;

    drop(rounds);
    let proof = Proof {
        commitments: Commitments { trace: trace_cap, quotient_chunks: quotient_cap, random: None },
        opened_values: opened_values(values, preprocessed_lde.is_some()),
        opening_proof,
        degree_bits: log_rows,
        ood_pow_witness: ood_witness.unwrap_or(SC::Value::ZERO),
    };
    Ok(Proven { proof, report: session.finish(searched)? })
}

/// Converts the opened values of all rounds to upstream's type: trace, quotient and preprocessed columns.
fn opened_values<E>(values: p3_commit::OpenedValues<E>, preprocessed: bool) -> OpenedValues<E> {
    let mut rounds = values.into_iter();
    let mut round = || rounds.next().expect("one round per commitment");
    // The first matrix is opened at zeta and, if the AIR reads the next row, at the next point.
    let local_and_next = |matrices: Vec<Vec<Vec<E>>>| {
        let mut points = matrices.into_iter().flatten();
        (points.next().expect("every matrix is opened at zeta"), points.next())
    };
    let (trace_local, trace_next) = local_and_next(round());
    let quotient_chunks = round().into_iter().flatten().collect();
    let preprocessed = preprocessed.then(|| {
        let (local, next) = local_and_next(round());
        PreprocessedOpenedValues { local, next }
    });
    OpenedValues { trace_local, trace_next, preprocessed, quotient_chunks, random: None }
}
