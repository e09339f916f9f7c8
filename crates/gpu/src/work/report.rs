//! Measurements of a piece of work, such as a proof.

use std::fmt;
use std::time::Instant;

use serde::Serialize;

use crate::base::{Bytes, Error, Lock, Result};
use crate::device::Device;
use crate::memory::{Activity, PeakWatch};
use crate::queue::Event;
use crate::work::{Attempt, Move, Stream};

/// The measurements of a proof.
///
/// Bytes, launches and memory are counted per device. If several proofs run on one device at the same time, each
/// report includes what all of them did in that time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The device that made the proof, or `cpu`.
    pub device: String,
    /// Time from the call to the proof, in milliseconds of the host's clock.
    pub total_ms: f64,
    /// The phases in order, timed by the device's clock. Most host work happens between them.
    pub phases: Vec<Phase>,
    /// Bytes copied to the device.
    pub bytes_up: u64,
    /// Bytes copied back.
    pub bytes_down: u64,
    /// Copies to the device.
    pub uploads: u64,
    /// Copies back. The host waited for each, but for those of columns that go back to pinned memory.
    pub downloads: u64,
    /// Kernels launched.
    pub launches: u64,
    /// Calls of the driver that submitted them and the kernels of small copies: one for up to 16 where those were
    /// gathered.
    pub submissions: u64,
    /// Runs of programs, such as the constraints of a table, that were interpreted because their kernels were not there
    /// yet. Later proofs are faster.
    pub interpreted: u64,
    /// Peak device memory of the proof in bytes, without what was in use before it (a resident trace, preprocessed
    /// columns, tables of earlier proofs).
    pub peak_bytes: usize,
    /// Driver calls for more memory: zero after an earlier proof of the same shape.
    pub driver_allocations: u64,
    /// Bytes copied to other devices.
    pub bytes_sent: u64,
    /// The part of each device, if several made the proof together. Counts of the report are then sums, except
    /// that `peak_bytes` is that of the device that took most; phases are those of the first.
    pub devices: Vec<DeviceShare>,
    /// Parts that ran on another device than requested, and why.
    pub fallbacks: Vec<Fallback>,
    /// The devices that were lost while they made the proof, in order. It began anew on the next one.
    pub moves: Vec<Move>,
}

/// The part of one of several devices in a proof.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceShare {
    /// The device.
    pub device: String,
    /// The device's phases, timed by its own clock.
    pub phases: Vec<Phase>,
    /// Bytes that it sent to other devices.
    pub bytes_sent: u64,
    /// The device's peak memory, as in the report.
    pub peak_bytes: usize,
}

/// One phase of a proof.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    /// The phase's name.
    pub name: &'static str,
    /// The time at which it began on the device, in milliseconds after the start of the first phase.
    pub start_ms: f64,
    /// The time that the device took, in milliseconds.
    pub ms: f64,
    /// The most device memory in use from the end of the phase before to the end of this one, in bytes, without what
    /// was in use before the proof.
    pub memory_bytes: usize,
}

impl Phase {
    /// A phase of the host, by its own clock. It uses no device memory.
    pub fn of_host(name: &'static str, start_ms: f64, ms: f64) -> Self {
        Self { name, start_ms, ms, memory_bytes: 0 }
    }
}

/// A part of a proof that ran on another device than requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fallback {
    /// The part of the proof.
    pub part: &'static str,
    /// The device on which it ran.
    pub ran_on: &'static str,
    /// The reason.
    pub reason: String,
}

impl Report {
    /// The report of a proof that several devices made together, of which each has a report. The first is the one whose
    /// phases count.
    pub fn joined(reports: Vec<Self>) -> Self {
        let sum = |count: fn(&Self) -> u64| reports.iter().map(count).sum::<u64>();
        let share = |report: &Self| DeviceShare {
            device: report.device.clone(),
            phases: report.phases.clone(),
            bytes_sent: report.bytes_sent,
            peak_bytes: report.peak_bytes,
        };
        Self {
            device: reports.iter().map(|report| report.device.as_str()).collect::<Vec<_>>().join(", "),
            total_ms: reports.iter().map(|report| report.total_ms).fold(0.0, f64::max),
            phases: reports.first().map(|report| report.phases.clone()).unwrap_or_default(),
            bytes_up: sum(|report| report.bytes_up),
            bytes_down: sum(|report| report.bytes_down),
            uploads: sum(|report| report.uploads),
            downloads: sum(|report| report.downloads),
            launches: sum(|report| report.launches),
            submissions: sum(|report| report.submissions),
            interpreted: sum(|report| report.interpreted),
            peak_bytes: reports.iter().map(|report| report.peak_bytes).max().unwrap_or(0),
            driver_allocations: sum(|report| report.driver_allocations),
            bytes_sent: sum(|report| report.bytes_sent),
            devices: reports.iter().map(share).collect(),
            fallbacks: reports.iter().flat_map(|report| report.fallbacks.clone()).collect(),
            // The job's, which each report has.
            moves: reports.first().map(|report| report.moves.clone()).unwrap_or_default(),
        }
    }

    /// Total milliseconds per phase name, in order of first occurrence.
    pub fn by_phase(&self) -> Vec<(&'static str, f64)> {
        let mut sums: Vec<(&'static str, f64)> = Vec::new();
        for phase in &self.phases {
            match sums.iter_mut().find(|(name, _)| *name == phase.name) {
                Some((_, ms)) => *ms += phase.ms,
                None => sums.push((phase.name, phase.ms)),
            }
        }
        sums
    }

    /// The fraction of the proof's time, from 0 to 1, in which the device had work or incoming data.
    pub fn busy(&self) -> f64 {
        if self.total_ms == 0.0 {
            return 0.0;
        }
        let mut phases: Vec<(f64, f64)> =
            self.phases.iter().map(|phase| (phase.start_ms, phase.start_ms + phase.ms)).collect();
        phases.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut busy, mut until) = (0.0, f64::MIN);
        for (start, end) in phases {
            busy += (end - start.max(until)).max(0.0);
            until = until.max(end);
        }
        (busy / self.total_ms).min(1.0)
    }

    /// The phases as a trace that Perfetto and Chrome's `about:tracing` open.
    pub fn chrome_trace(&self) -> String {
        let event = |phase: &Phase| {
            serde_json::json!({
                "name": phase.name, "ph": "X", "pid": 0, "tid": 0,
                "ts": phase.start_ms * 1e3, "dur": phase.ms * 1e3,
            })
        };
        let thread = serde_json::json!({
            "name": "thread_name", "ph": "M", "pid": 0, "tid": 0, "args": { "name": self.device },
        });
        let events: Vec<_> = std::iter::once(thread).chain(self.phases.iter().map(event)).collect();
        serde_json::json!({ "displayTimeUnit": "ms", "traceEvents": events }).to_string()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:.1} ms on {}", self.total_ms, self.device)?;
        for (name, ms) in self.by_phase() {
            writeln!(f, "  {name:<22}{ms:>10.3} ms")?;
        }
        if !self.phases.is_empty() {
            writeln!(f, "  the device had work {:.0} % of the time", 100.0 * self.busy())?;
            writeln!(
                f,
                "  {} up, {} down in {} copies, {} launches in {} submissions, at most {} of device memory",
                Bytes(self.bytes_up as usize),
                Bytes(self.bytes_down as usize),
                self.downloads,
                self.launches,
                self.submissions,
                Bytes(self.peak_bytes)
            )?;
        }
        for share in &self.devices {
            writeln!(
                f,
                "  {}: {} sent to other devices, at most {} of device memory",
                share.device,
                Bytes(share.bytes_sent as usize),
                Bytes(share.peak_bytes)
            )?;
        }
        if self.interpreted > 0 {
            writeln!(
                f,
                "  {} programs were interpreted, because their kernels were not there yet; later proofs are faster",
                self.interpreted
            )?;
        }
        for Move { from, reason } in &self.moves {
            writeln!(f, "  began anew elsewhere, as {from} was lost: {reason}")?;
        }
        for fallback in &self.fallbacks {
            writeln!(f, "  {} ran on the {}: {}", fallback.part, fallback.ran_on, fallback.reason)?;
        }
        Ok(())
    }
}

/// The phase of work that belongs to none.
pub(super) const BETWEEN: &str = "between phases";

/// Measures a piece of work while it runs.
pub struct Recorder {
    stream: Stream,
    began: Instant,
    before: Activity,
    in_use: usize,
    peak: PeakWatch,
    allocations: u64,
    marks: Lock<Marks>,
    /// The first error that came up where nobody could return it.
    failed: Lock<Option<Error>>,
}

/// The phases so far.
struct Marks {
    phases: Vec<(&'static str, Event, Event, usize)>,
    /// The memory in use since the last one ended.
    peak: PeakWatch,
}

impl Recorder {
    /// Starts measuring the work on a stream's device.
    pub fn new(stream: &Stream) -> Self {
        let device = stream.device();
        Self {
            // Earlier work, such as a proof that failed, is not this work's. What it was to write can't be read.
            stream: stream.for_later_work(),
            began: Instant::now(),
            before: device.activity(),
            in_use: device.memory_stats().in_use,
            peak: PeakWatch::new(device.core()),
            allocations: driver_allocations(device),
            marks: Lock::new(Marks { phases: Vec::new(), peak: PeakWatch::new(device.core()) }),
            failed: Lock::default(),
        }
    }

    /// Enqueues the work of a phase between two timing events, within a tracing span of the same name.
    pub fn phase<R, E: From<Error>>(
        &self,
        name: &'static str,
        stream: &Stream,
        work: impl FnOnce() -> Result<R, E>,
    ) -> Result<R, E> {
        let _span = tracing::info_span!("rigel", phase = name).entered();
        let start = self.begin(name, stream)?;
        let result = work()?;
        self.add(name, start, stream.record_time()?);
        Ok(result)
    }

    /// Begins a phase on a stream. [`Self::add`] ends it.
    pub fn begin(&self, name: &'static str, stream: &Stream) -> Result<Event> {
        if let Some(observer) = stream.device().observer() {
            observer.phase(name);
        }
        stream.record_time()
    }

    /// Adds a phase between two timing events.
    pub fn add(&self, name: &'static str, start: Event, end: Event) {
        if let Some(observer) = self.stream.device().observer() {
            observer.phase(BETWEEN);
        }
        let mut marks = self.marks.lock();
        let watch = PeakWatch::new(self.stream.device().core());
        let memory = std::mem::replace(&mut marks.peak, watch).bytes().saturating_sub(self.in_use);
        marks.phases.push((name, start, end, memory));
    }

    /// Records an error that ended a phase where it can't be returned, such as in a `Drop`: [`Self::finish`] returns
    /// the first one instead of a report. An event may be what submits gathered launches, so that its error is
    /// theirs.
    pub fn fail(&self, error: Error) {
        self.failed.lock().get_or_insert(error);
    }

    /// Waits for the stream and returns the report. Fails if a phase failed, or work of the stream.
    pub fn finish(&self) -> Result<Report> {
        let synchronized = self.stream.synchronize();
        self.failed.lock().take().map_or(synchronized, Err)?;
        let total_ms = self.began.elapsed().as_secs_f64() * 1e3;
        let device = self.stream.device();
        let after = device.activity();
        let marks = std::mem::take(&mut self.marks.lock().phases);
        let mut phases: Vec<Phase> = Vec::with_capacity(marks.len());
        for (i, (name, start, end, memory_bytes)) in marks.iter().enumerate() {
            // The phase may have run on another stream.
            if !end.is_known_complete() {
                end.synchronize()?;
            }
            // A phase may begin with the event that ended the one before. Each question to the driver takes its time.
            let start_ms = match i.checked_sub(1).map(|before| (&marks[before].2, &phases[before])) {
                Some((event, phase)) if event.is(start) => phase.start_ms + phase.ms,
                _ => f64::from(start.since(&marks[0].1)?),
            };
            phases.push(Phase { name, start_ms, ms: f64::from(end.since(start)?), memory_bytes: *memory_bytes });
        }
        Ok(Report {
            device: device.to_string(),
            total_ms,
            phases,
            bytes_up: after.bytes_up - self.before.bytes_up,
            bytes_down: after.bytes_down - self.before.bytes_down,
            uploads: after.uploads - self.before.uploads,
            downloads: after.downloads - self.before.downloads,
            submissions: after.submissions - self.before.submissions,
            launches: (after.launches - self.before.launches) + (after.replays - self.before.replays),
            interpreted: after.interpreted - self.before.interpreted,
            peak_bytes: self.peak.bytes().saturating_sub(self.in_use),
            driver_allocations: driver_allocations(device) - self.allocations,
            bytes_sent: after.bytes_sent - self.before.bytes_sent,
            devices: Vec::new(),
            fallbacks: Vec::new(),
            moves: Attempt::current().moves,
        })
    }
}

fn driver_allocations(device: &Device) -> u64 {
    device.memory_stats().driver_calls + device.pinned_stats().driver_calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Options;
    use crate::drivers::{Grid, Raw};
    use crate::queue::scripted::Scripted;

    #[test]
    fn a_report_tells_of_failures_of_its_own_work() {
        let device = Device::with_driver(Scripted::new(), Options::from_env().unwrap());
        let stream = device.compute().unwrap();
        let fail = || {
            let _gathering = stream.gather();
            let grid = Grid { blocks: [1; 3], threads: [1; 3], shared: 0 };
            let mut work = stream.timeline().begin().unwrap();
            // SAFETY: the scripted driver runs nothing, and there are no arguments.
            unsafe { work.launch((1, Raw(0)), grid, &[], std::iter::empty()) }.unwrap();
        };
        (0..2).for_each(|_| fail());
        let recorder = Recorder::new(&stream);
        recorder.finish().unwrap();
        let recorder = Recorder::new(&stream);
        fail();
        assert!(recorder.finish().is_err());
        (0..2).for_each(|_| fail());
        assert!(device.compute().unwrap().synchronize().is_err());
        device.compute().unwrap().synchronize().unwrap();
    }

    #[test]
    fn devices_of_a_proof_that_moved_have_the_same_move() {
        let moves = vec![Move { from: "cuda:0".into(), reason: "it fell off the bus".into() }];
        let report = |bytes_sent| Report { bytes_sent, moves: moves.clone(), ..Report::default() };
        let joined = Report::joined(vec![report(1), report(2), report(3)]);
        assert_eq!((joined.moves, joined.bytes_sent), (moves, 6));
    }
}
