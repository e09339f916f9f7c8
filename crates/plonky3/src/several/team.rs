//! The devices that make one proof.

use rigel_gpu::{Device, Event, Stream};

use crate::base::error::{Error, Result};
use crate::base::report::{Fallback, Report};
use crate::prover::Prover;
use crate::prover::session::Session;
use crate::upstream::config::DeviceConfig;

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

/// Checks that each device gets a row of the trace, or of the tallest one.
pub(crate) fn check_rows<SC: DeviceConfig>(prover: &Prover<SC>, rows: usize) -> Result<()> {
    let devices = prover.devices().count();
    if devices > rows {
        return Err(Error::Devices(format!("{devices} devices for a trace of {rows} rows; give at most {rows}")));
    }
    Ok(())
}
