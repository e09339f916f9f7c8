//! One proof over several devices.
//!
//! The rows of a table's extended domain are shared out: device k of K has block k of them, in bit-reversed order,
//! which is a coset of its own. Tables of a batch with fewer extended rows than there are devices are on the first one.
//! What a device does for a proof it does for its rows, with the functions of a proof on one device:
//!
//! | phase | on each device | between devices |
//! |---|---|---|
//! | `extend.rs`, `commit.rs` | extends a share of the columns, hashes its rows of all into a subtree | extended rows (coefficients, if that is less), roots |
//! | `lookup.rs` | computes the lookups' columns for a K-th of the trace's rows (`rows.rs`) | the trace's rows, the columns, a sum for each table |
//! | `quotient.rs` | evaluates the constraints on its rows | the trace's next rows, if blocks are smaller than the trace; the quotient |
//! | `open.rs` | adds up its rows' part of the opened values, reduces its rows | sums, through the host |
//! | `fri.rs` | folds its rows, until they are few; then the first device has all | the values of the first small layer |
//!
//! The host keeps the transcript. Queried rows and nodes are read from the devices that have them (`gather.rs`).

mod batch;
mod commit;
mod extend;
mod fri;
mod gather;
mod lookup;
mod open;
mod plan;
mod quotient;
mod rows;

use p3_air::symbolic::AirLayout;
use p3_commit::PolynomialSpace;
use p3_field::PrimeCharacteristicRing;
use p3_field::coset::TwoAdicMultiplicativeCoset;
use p3_uni_stark::{Commitments, Proof, StarkProverTranscript, StarkShape};
use rigel_gpu::{Device, Event, Stream};

use crate::challenger::Searching;
use crate::check;
use crate::config::DeviceConfig;
use crate::constraints::Constraints;
use crate::error::{Error, Result};
use crate::fallback::CpuAir;
use crate::plan::TableSize;
use crate::preprocessed::Preprocessed;
use crate::prove::opened_values;
use crate::prover::{Prover, Session};
use crate::readings::{Kind, Readings};
use crate::report::{Fallback, Proven, Report};
use crate::trace::Trace;
use crate::transcript::Unfinished;

pub(crate) use batch::{SharedTables, commit_tables, prove_batch};
pub(crate) use commit::Shares;
use open::{SplitRound, open};
pub(crate) use quotient::check_domain;

/// The devices of a proof, each with a session.
pub(crate) struct Team<'a, SC: DeviceConfig> {
    sessions: Vec<Session<'a, SC>>,
    streams: Vec<Stream>,
    /// Other streams of the devices, for copies between them that overlap their work.
    lanes: Vec<Stream>,
}

impl<'a, SC: DeviceConfig> Team<'a, SC> {
    pub(crate) fn new(prover: &'a Prover<SC>) -> Result<Self> {
        let sessions = prover.devices().map(|device| Session::on(prover, device));
        let sessions = sessions.collect::<Result<Vec<_>>>()?;
        let streams = sessions.iter().map(|session| session.stream.clone()).collect();
        let lanes = prover.devices().map(Device::new_stream).collect::<rigel_gpu::Result<_>>()?;
        Ok(Self { sessions, streams, lanes })
    }

    fn first(&self) -> &Session<'a, SC> {
        &self.sessions[0]
    }

    fn prover(&self) -> &'a Prover<SC> {
        self.first().prover
    }

    fn log_devices(&self) -> u32 {
        self.sessions.len().ilog2()
    }

    /// A phase with work on all devices.
    fn phase<R>(&self, name: &'static str, work: impl FnOnce() -> Result<R>) -> Result<R> {
        let starts: Vec<Event> =
            self.sessions.iter().map(|session| session.begin_phase(name)).collect::<Result<_>>()?;
        let result = work()?;
        for (session, start) in self.sessions.iter().zip(starts) {
            session.end_phase(name, start)?;
        }
        Ok(result)
    }

    /// `work` of each device, in order.
    fn each<R>(&self, work: impl FnMut((usize, &Session<'a, SC>)) -> Result<R>) -> Result<Vec<R>> {
        self.among(self.sessions.len(), work)
    }

    /// `work` of each of the first devices, in order.
    fn among<R>(
        &self,
        devices: usize,
        work: impl FnMut((usize, &Session<'a, SC>)) -> Result<R>,
    ) -> Result<Vec<R>> {
        self.sessions[..devices].iter().enumerate().map(work).collect()
    }

    /// Ends the proof's records, with what ran elsewhere.
    fn finish(self, fallback: Option<Fallback>) -> Result<Report> {
        let reports = self.sessions.into_iter().map(|session| session.finish(None)).collect::<Result<Vec<_>>>()?;
        let mut report = Report::joined(reports);
        report.fallbacks.extend(fallback);
        Ok(report)
    }
}

/// The protocol of [`prove`](crate::prove), shared out.
pub(crate) fn prove<SC, A>(
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
    let config = prover.config();
    let rows = trace.height();
    let log_rows = rows.trailing_zeros() as usize;
    check_rows(prover, rows)?;
    let team = Team::new(prover)?;
    let preprocessed_width = preprocessed.map_or(0, |pre| pre.verifier_key().width);
    let preprocessed_shares = preprocessed.and_then(|pre| pre.shares.as_ref());
    let layout = AirLayout {
        preprocessed_width,
        main_width: air.width(),
        num_public_values: air.num_public_values(),
        num_periodic_columns: air.num_periodic_columns(),
        ..Default::default()
    };
    let readings = &prover.readings;
    let kind = Kind::new(air, &layout, rows, None);
    let constraints =
        readings.of(&kind, Readings::<SC>::structure(air, &layout), || Constraints::of_air(air, layout, rows));
    check::degree::<SC>(0, log_rows, constraints.log_chunks)?;
    check_domain(prover, 0, log_rows, constraints.log_chunks)?;
    let size =
        TableSize { log_rows, width: air.width(), preprocessed: preprocessed_width, ..TableSize::default() };
    plan::check(prover, &[(size, &constraints)])?;

    let chunks = 1 << constraints.log_chunks;
    let shape = StarkShape::new(
        air,
        preprocessed_width,
        log_rows,
        log_rows,
        chunks,
        false,
        config.ood_proof_of_work_bits(),
    );
    let mut challenger =
        Searching::new(config.initialise_challenger(), &team.first().stream, &prover.search_constants);
    let mut transcript =
        Unfinished::new(StarkProverTranscript::<_, SC::Value, SC::Challenge>::new(&mut challenger, shape));

    let main = commit::trace(&team, trace)?;
    let preprocessed_cap = preprocessed.map(|pre| pre.verifier_key().commitment.clone());
    let alpha = transcript.constraint_phase(main.cap.clone(), preprocessed_cap, public_values);

    let table = quotient::SplitTable {
        log_rows: log_rows as u32,
        constraints: &constraints,
        main: main.blocks(0),
        preprocessed: preprocessed_shares.map(|shares| shares.blocks(0)),
        permutation: None,
        periodic: &air.periodic_columns(),
        publics: public_values,
        extension: &[],
    };
    let quotient = Shares::new(&team, quotient::chunks(&team, &table, alpha)?)?;
    Constraints::free_symbols(std::slice::from_ref(&constraints));
    let (zeta, ood_witness) = transcript.ood_phase(quotient.cap.clone(), None);

    let domain = TwoAdicMultiplicativeCoset::new(SC::Value::ONE, log_rows).expect("checked");
    let next = domain.next_point(zeta).expect("a two-adic domain has a next point");
    let points = |reads_next: bool| if reads_next { vec![zeta, next] } else { vec![zeta] };
    let main_next = !air.main_next_row_columns().is_empty();
    let preprocessed_next = !air.preprocessed_next_row_columns().is_empty();
    let mut rounds = vec![
        SplitRound { shares: &main, points: vec![points(main_next)] },
        SplitRound { shares: &quotient, points: vec![points(false); chunks] },
    ];
    rounds
        .extend(preprocessed_shares.map(|shares| SplitRound { shares, points: vec![points(preprocessed_next)] }));
    let (values, opening_proof) = transcript.delegate(|challenger| open(&team, &rounds, challenger))?;
    transcript.into_inner().finish();
    let searched = challenger.finish()?;

    drop(rounds);
    let proof = Proof {
        commitments: Commitments { trace: main.cap.clone(), quotient_chunks: quotient.cap.clone(), random: None },
        opened_values: opened_values(values, false, preprocessed_shares.is_some()),
        opening_proof,
        degree_bits: log_rows,
        ood_pow_witness: ood_witness.unwrap_or(SC::Value::ZERO),
    };
    drop((main, quotient));
    Ok(Proven { proof, report: team.finish(searched)? })
}

/// Commits to preprocessed columns.
pub(crate) fn commit<SC: DeviceConfig>(prover: &Prover<SC>, trace: &Trace<'_, SC::Value>) -> Result<Shares<SC>> {
    commit::trace(&Team::new(prover)?, trace)
}

/// Checks that each device gets a row of the trace, or of the tallest one.
pub(crate) fn check_rows<SC: DeviceConfig>(prover: &Prover<SC>, rows: usize) -> Result<()> {
    let devices = prover.devices().count();
    if devices > rows {
        return Err(Error::Devices(format!("{devices} devices for a trace of {rows} rows; give at most {rows}")));
    }
    Ok(())
}
