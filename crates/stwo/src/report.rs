//! Reports of time, transfers and memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rigel_gpu::{Device, Event, Gathering, Lock, Recorder, Report, Result, Stream};

use crate::device::{current, known, stream};

/// The number of active reports on all devices. While it is zero, phases are not timed.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// The active report of a device.
#[derive(Default)]
struct Recording(Lock<Option<Arc<Recorder>>>);

#[derive(Clone, PartialEq, Eq, Hash)]
struct RecordingKey;

fn recording(device: &Device) -> Result<Arc<Recording>> {
    // Whoever takes a report holds the value, so that it stays.
    device.kept(&RecordingKey, |_| Ok((Recording::default(), 0)))
}

/// Runs `work`, such as a proof, and reports its cost on the [current](crate::current) device: total time, phases
/// by the device's clock, copies, launches and memory.
///
/// A device has one active report at a time, which includes phases of concurrent work by other threads.
pub fn measure<R>(work: impl FnOnce() -> R) -> Result<(R, Report)> {
    let device = current()?;
    let recording = recording(&device)?;
    let recorder = Arc::new(Recorder::new(&stream(&device)));
    let outer = put(&recording, Some(recorder.clone()));
    TAKEN.fetch_add(1, Ordering::Relaxed);
    // Ends the report even if `work` panics.
    let end = End { recording: &recording, outer: Some(outer) };
    let result = work();
    drop(end);
    Ok((result, recorder.finish()?))
}

fn put(recording: &Recording, recorder: Option<Arc<Recorder>>) -> Option<Arc<Recorder>> {
    std::mem::replace(&mut *recording.0.lock(), recorder)
}

struct End<'a> {
    recording: &'a Recording,
    outer: Option<Option<Arc<Recorder>>>,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        TAKEN.fetch_sub(1, Ordering::Relaxed);
        put(self.recording, self.outer.take().flatten());
    }
}

/// Runs `work` as a phase of the current device's active report, if any: host work between the backend's own phases,
/// such as making a trace. The phase begins when the device has done what was asked of it before.
pub fn in_phase<R>(name: &'static str, work: impl FnOnce() -> R) -> R {
    let _phase = phase(name);
    work()
}

/// A phase, from now until it is dropped. Its launches are gathered.
#[derive(Default)]
pub(crate) struct Marked {
    /// What the active report records, if there is one.
    recorded: Option<(Arc<Recorder>, Stream, &'static str, Event)>,
    _gathering: Option<Gathering>,
}

/// Begins a phase of the current device's active report, if any.
pub(crate) fn phase(name: &'static str) -> Marked {
    known().map_or_else(Marked::default, |device| phase_on(&device, name))
}

/// Begins a phase of a device's active report, if any.
pub(crate) fn phase_on(device: &Device, name: &'static str) -> Marked {
    let Ok(stream) = device.compute() else { return Marked::default() };
    let gathering = Some(stream.gather());
    let begin = || {
        if TAKEN.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let recorder = recording(device).ok()?.0.lock().clone()?;
        let start = stream.record_time().ok()?;
        Some((recorder, stream, name, start))
    };
    Marked { recorded: begin(), _gathering: gathering }
}

impl Drop for Marked {
    fn drop(&mut self) {
        if let Some((recorder, stream, name, start)) = self.recorded.take()
            && let Ok(end) = stream.record_time()
        {
            recorder.add(name, start, end);
        }
    }
}
