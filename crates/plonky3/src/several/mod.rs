//! The phases of one proof over several devices. The protocols are in `door`, in `prove_over.rs` and `batch_over.rs`.
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

pub(crate) mod commit;
pub(crate) mod extend;
pub(crate) mod fri;
pub(crate) mod gather;
pub(crate) mod lookup;
pub(crate) mod open;
pub(crate) mod quotient;
pub(crate) mod rows;

use rigel_gpu::{Device, Event, Stream};

use crate::base::error::{Error, Result};
use crate::base::report::{Fallback, Report};
use crate::columns::trace::Trace;
use crate::prover::Prover;
use crate::prover::session::Session;
use crate::upstream::config::DeviceConfig;

use commit::Shares;

/// The devices of a proof, each with a session.
pub(crate) struct Team<'a, SC: DeviceConfig> {
    pub(crate) sessions: Vec<Session<'a, SC>>,
    pub(crate) streams: Vec<Stream>,
    /// Other streams of the devices, for copies between them that overlap their work.
    pub(crate) lanes: Vec<Stream>,
}

impl<'a, SC: DeviceConfig> Team<'a, SC> {
    pub(crate) fn new(prover: &'a Prover<SC>) -> Result<Self> {
        let sessions = prover.devices().map(|device| Session::on(prover, device));
        let sessions = sessions.collect::<Result<Vec<_>>>()?;
        let streams = sessions.iter().map(|session| session.stream.clone()).collect();
        let lanes = prover.devices().map(Device::new_stream).collect::<rigel_gpu::Result<_>>()?;
        Ok(Self { sessions, streams, lanes })
    }

    pub(crate) fn first(&self) -> &Session<'a, SC> {
        &self.sessions[0]
    }

    pub(crate) fn prover(&self) -> &'a Prover<SC> {
        self.first().prover
    }

    pub(crate) fn log_devices(&self) -> u32 {
        self.sessions.len().ilog2()
    }

    /// A phase with work on all devices.
    pub(crate) fn phase<R>(&self, name: &'static str, work: impl FnOnce() -> Result<R>) -> Result<R> {
        let starts: Vec<Event> =
            self.sessions.iter().map(|session| session.begin_phase(name)).collect::<Result<_>>()?;
        let result = work()?;
        for (session, start) in self.sessions.iter().zip(starts) {
            session.end_phase(name, start)?;
        }
        Ok(result)
    }

    /// `work` of each device, in order.
    pub(crate) fn each<R>(&self, work: impl FnMut((usize, &Session<'a, SC>)) -> Result<R>) -> Result<Vec<R>> {
        self.among(self.sessions.len(), work)
    }

    /// `work` of each of the first devices, in order.
    pub(crate) fn among<R>(
        &self,
        devices: usize,
        work: impl FnMut((usize, &Session<'a, SC>)) -> Result<R>,
    ) -> Result<Vec<R>> {
        self.sessions[..devices].iter().enumerate().map(work).collect()
    }

    /// Ends the proof's records, with what ran elsewhere.
    pub(crate) fn finish(self, fallback: Option<Fallback>) -> Result<Report> {
        let reports = self.sessions.into_iter().map(|session| session.finish(None)).collect::<Result<Vec<_>>>()?;
        let mut report = Report::joined(reports);
        report.fallbacks.extend(fallback);
        Ok(report)
    }
}

/// Commits to preprocessed columns.
pub(crate) fn commit_one<SC: DeviceConfig>(
    prover: &Prover<SC>,
    trace: &Trace<'_, SC::Value>,
) -> Result<Shares<SC>> {
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
