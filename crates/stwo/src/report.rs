//! Reports of time, transfers and memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rigel_gpu::{Device, Event, Fallback, Gathering, Lock, Recorder, Report, Result, Stream};

use crate::device::{known, stream, team};

/// The number of active reports on all devices. While it is zero, phases are not timed.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// The active report of a device.
#[derive(Default)]
struct Recording(Lock<Option<Arc<Taken>>>);

/// A report that is being taken.
struct Taken {
    recorder: Recorder,
    /// The work that was gathered on this device though it is shared out.
    gathered: Lock<Vec<Fallback>>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct RecordingKey;

fn recording(device: &Device) -> Result<Arc<Recording>> {
    // Whoever takes a report holds the value, so that it stays.
    device.kept(&RecordingKey, |_| Ok((Recording::default(), 0)))
}

/// Runs `work`, such as a proof, and reports its cost on the [current](crate::current) device, or on all devices over
/// which it is [shared out](crate::over): total time, phases by the device's clock, copies, launches and memory.
/// Fails if the device reported an error while a phase was timed, whatever `work` returned.
///
/// A device has one active report at a time, which includes phases of concurrent work by other threads.
pub fn measure<R>(work: impl FnOnce() -> R) -> Result<(R, Report)> {
    let devices = team()?;
    let mut running = Vec::with_capacity(devices.len());
    for device in &devices {
        let recording = recording(device)?;
        let taken = Arc::new(Taken { recorder: Recorder::new(&stream(device)), gathered: Lock::default() });
        let outer = put(&recording, Some(taken.clone()));
        TAKEN.fetch_add(1, Ordering::Relaxed);
        // Ends the report even if `work` panics.
        running.push((taken, End { recording, outer: Some(outer) }));
    }
    let result = work();
    let mut reports = Vec::with_capacity(devices.len());
    for (taken, end) in running {
        drop(end);
        let mut report = taken.recorder.finish()?;
        report.fallbacks.append(&mut taken.gathered.lock());
        reports.push(report);
    }
    let report = if reports.len() == 1 { reports.remove(0) } else { Report::joined(reports) };
    Ok((result, report))
}

/// Records that a part of a proof over several devices ran on the first one.
pub(crate) fn gathered(device: &Device, part: &'static str, reason: &str) {
    let Some(taken) = active(device) else { return };
    let mut known = taken.gathered.lock();
    if known.iter().all(|other| other.part != part) {
        known.push(Fallback { part, ran_on: "first device", reason: reason.to_string() });
    }
}

/// The active report of a device.
fn active(device: &Device) -> Option<Arc<Taken>> {
    if TAKEN.load(Ordering::Relaxed) == 0 {
        return None;
    }
    // While a report is active, the value is there, and looking it up can't fail.
    recording(device).ok()?.0.lock().clone()
}

fn put(recording: &Recording, taken: Option<Arc<Taken>>) -> Option<Arc<Taken>> {
    std::mem::replace(&mut *recording.0.lock(), taken)
}

struct End {
    recording: Arc<Recording>,
    outer: Option<Option<Arc<Taken>>>,
}

impl Drop for End {
    fn drop(&mut self) {
        TAKEN.fetch_sub(1, Ordering::Relaxed);
        put(&self.recording, self.outer.take().flatten());
    }
}

/// Runs `work` as a phase of the current device's active report, if any: host work between the backend's own phases,
/// such as making a trace. The phase begins when the device has done what was asked of it before.
pub fn in_phase<R>(name: &'static str, work: impl FnOnce() -> R) -> R {
    let _phase = phase(name);
    work()
}

/// A phase, from now until it is dropped, on each of its devices. Its launches are gathered.
#[derive(Default)]
pub(crate) struct Marked {
    _devices: Vec<MarkedOn>,
}

/// A phase on a device, or on one of its streams.
pub(crate) struct MarkedOn {
    /// The active report, if there is one, with the phase's stream, name and start.
    recorded: Option<(Arc<Taken>, Stream, &'static str, Event)>,
    _gathering: Gathering,
}

/// Begins a phase of the active report, if any, of the current device, or of those that share the work out.
pub(crate) fn phase(name: &'static str) -> Marked {
    phase_on(&known(), name)
}

/// Begins a phase of the active reports, if any, of devices.
pub(crate) fn phase_on(devices: &[Device], name: &'static str) -> Marked {
    let phase = |device: &Device| match device.compute() {
        Ok(stream) => Some(phase_of(&stream, name)),
        Err(error) => {
            // The work that follows opens the stream again.
            if let Some(taken) = active(device) {
                taken.recorder.fail(error);
            }
            None
        }
    };
    Marked { _devices: devices.iter().filter_map(phase).collect() }
}

/// Begins a phase of the active reports, if any, of a stream's device.
pub(crate) fn phase_of(stream: &Stream, name: &'static str) -> MarkedOn {
    let gathering = stream.gather();
    let recorded = active(stream.device()).and_then(|taken| match stream.record_time() {
        Ok(start) => Some((taken, stream.clone(), name, start)),
        Err(error) => {
            taken.recorder.fail(error);
            None
        }
    });
    MarkedOn { recorded, _gathering: gathering }
}

impl Drop for MarkedOn {
    fn drop(&mut self) {
        let Some((taken, stream, name, start)) = self.recorded.take() else { return };
        match stream.record_time() {
            Ok(end) => taken.recorder.add(name, start, end),
            Err(error) => taken.recorder.fail(error),
        }
    }
}
