//! Timelines: the work of one stream, numbered in submission order.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use super::captures::Recording;
use super::chains::{ChainPool, Chains};
use super::event::{Event, EventPool, PooledEvent};
use super::failures::Failures;
use super::streams::StreamPool;
use super::uses::Resource;
use crate::base::{DeviceKind, Error, Lock, Result};
use crate::drivers::{Driver, Grid, Launch, Raw, kernel_number};

/// A mark (an event) is recorded after this many pieces of work: often enough to keep waits short, rarely enough
/// to have no measurable cost.
const MARK_EVERY: u64 = 16;
/// The largest number of gathered launches. More would hardly be cheaper, and the device would wait for them longer.
const MOST_GATHERED: usize = 16;
/// An event with a timestamp serves again for so long, if nothing was submitted since: where one phase ends and the
/// next begins, a second one would cost more than the difference of the two.
const SAME_TIME: Duration = Duration::from_micros(10);
/// The number of marks above which the driver is queried for completed ones.
const MANY_MARKS: usize = 64;

/// The work of one stream.
///
/// Work is numbered from 1. Marks (events) show up to which number it is complete. Memory that the stream used
/// refers to the timeline, so a timeline can outlive its stream; all work of a closed stream is complete.
pub(crate) struct Timeline {
    pub(super) driver: Arc<dyn Driver>,
    events: Arc<EventPool>,
    /// All work up to this number is known to be complete.
    completed: AtomicU64,
    /// The work that failed after it had its number.
    failures: Failures,
    pub(super) state: Lock<State>,
}

pub(super) struct State {
    /// The driver's stream, until it is closed.
    pub(super) stream: Option<Raw>,
    /// The number of the last submitted work.
    pub(super) issued: u64,
    /// Events, each with the number of the work after which it was recorded, in order.
    marks: VecDeque<(u64, Arc<PooledEvent>)>,
    pub(super) capture: Option<Recording>,
    /// The number of callers that want launches to be gathered.
    gathering: usize,
    /// Launches that are not submitted yet. They are submitted before anything else is.
    gathered: Vec<Launch>,
    /// The numbers of the first and the last of them.
    gathered_numbers: (u64, u64),
    chains: Chains,
    /// Whether other libraries know the stream, and may give it work that has no number. Its launches are not gathered,
    /// because those libraries could not wait for them.
    is_shared: bool,
    /// The last event: the number of the work before it, and when it was recorded.
    recorded: Option<(u64, Instant, Arc<PooledEvent>)>,
}

impl State {
    /// Whether launches are gathered now.
    fn gathers(&self) -> bool {
        self.gathering > 0 && self.capture.is_none() && !self.is_shared
    }

    /// Submits the gathered launches. If that fails, whoever depends on any of them gets the error, so callers that do
    /// not may ignore it.
    pub(super) fn submit(&mut self, timeline: &Timeline) -> Result<()> {
        let (false, Some(stream)) = (self.gathered.is_empty(), self.stream) else { return Ok(()) };
        // SAFETY: `Work::launch` was called for each of them, with the same contract. The timeline has counted them as
        // submitted since then, so what they use is still there.
        let submitted = unsafe {
            let completed = timeline.completed.load(Ordering::Acquire);
            self.chains.submit(&*timeline.driver, stream, &self.gathered, self.issued, completed)
        };
        self.gathered.clear();
        submitted.inspect_err(|error| {
            let (first, last) = self.gathered_numbers;
            timeline.failures.add(first, last, error.clone());
            self.chains.pool.failed();
        })
    }
}

impl Timeline {
    /// Whether work number `at` is known to be complete, without querying the driver.
    pub(super) fn is_known_complete(&self, at: u64) -> bool {
        at <= self.completed.load(Ordering::Acquire)
    }

    /// Records that all work up to number `at` is complete: it does not access memory any more.
    pub(crate) fn completed(&self, at: u64) {
        self.completed.fetch_max(at, Ordering::Release);
    }

    /// The error of work number `at`, if it failed after it had its number.
    pub(super) fn failure_of(&self, at: u64) -> Option<Error> {
        self.failures.of(at)
    }

    /// Whether work number `at` failed after it had its number, for those who do not pass the error on.
    pub(super) fn has_failed(&self, at: u64) -> bool {
        self.failures.cover(at)
    }

    /// The number up to which somebody was told of failed work. A handle to the stream that is new need not tell of it
    /// again.
    pub(crate) fn told(&self) -> u64 {
        self.failures.told()
    }

    /// Passes the result of a call of the driver on. If the device is lost, no work runs any more, so that all of it
    /// is complete; what was not known to be complete before has failed.
    pub(super) fn noting_loss<R>(&self, result: Result<R>) -> Result<R> {
        if let Err(error) = &result
            && is_lost(error)
        {
            let completed = self.completed.load(Ordering::Acquire);
            if completed != u64::MAX {
                // In this order: a thread that sees that the work is complete also sees that it failed.
                self.failures.add(completed + 1, u64::MAX, error.clone());
                self.completed(u64::MAX);
            }
        }
        result
    }

    /// The number of the last submitted work.
    pub(crate) fn issued(&self) -> u64 {
        self.state.lock().issued
    }

    /// Queries the driver for completed marks.
    fn poll_marks(&self, state: &mut State) {
        while let Some((at, event)) = state.marks.front() {
            // A query costs the driver a microsecond.
            if self.is_known_complete(*at) {
                state.marks.pop_front();
                continue;
            }
            match self.noting_loss(event.is_done()) {
                Ok(true) => self.completed(*at),
                Ok(false) => return,
                Err(error) if is_lost(&error) => {}
                // The driver can't tell, for example while another library captures. The work may still be running.
                Err(_) => return,
            }
            state.marks.pop_front();
        }
    }

    /// Queries the driver for how far the work is.
    pub(super) fn poll(&self) {
        let mut state = self.state.lock();
        let issued = state.issued;
        if state.marks.is_empty() && !self.is_known_complete(issued) {
            // If recording fails, the mark is recorded again when it is needed.
            let _ = self.mark(&mut state, issued);
        }
        self.poll_marks(&mut state);
    }

    /// Whether work number `at` may still be running; queries the driver.
    pub(super) fn is_pending(&self, at: u64) -> bool {
        if self.is_known_complete(at) {
            return false;
        }
        let mut state = self.state.lock();
        // Without a mark the work counts as running.
        if self.mark(&mut state, at).is_ok() {
            self.poll_marks(&mut state);
        }
        !self.is_known_complete(at)
    }

    /// Whether the stream is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().stream.is_none()
    }

    /// An event after work number `at`; `None` if that work is complete.
    pub(super) fn mark_after(&self, at: u64) -> Result<Option<Arc<PooledEvent>>> {
        if self.is_known_complete(at) {
            return Ok(None);
        }
        self.mark(&mut self.state.lock(), at)
    }

    /// The first mark after work number `at`, recorded now if there is none; `None` if that work is complete.
    pub(super) fn mark(&self, state: &mut State, at: u64) -> Result<Option<Arc<PooledEvent>>> {
        if let Some((_, event)) = state.marks.iter().find(|(number, _)| *number >= at) {
            return Ok(Some(event.clone()));
        }
        // A capture begins with a mark and its work has no numbers, so a capturing stream never gets here.
        let (Some(stream), None) = (state.stream, &state.capture) else { return Ok(None) };
        if self.is_known_complete(at) {
            return Ok(None);
        }
        // The mark is for the work that runs. Who depends on launches that fail now gets their error.
        let _ = state.submit(self);
        let event = self.record_plain(stream)?;
        state.marks.push_back((state.issued, event.clone()));
        Ok(Some(event))
    }

    /// Records an event without a time.
    fn record_plain(&self, stream: Raw) -> Result<Arc<PooledEvent>> {
        let event = self.noting_loss(self.events.take(false))?;
        self.noting_loss(self.driver.record_event(event.raw, stream))?;
        Ok(Arc::new(event))
    }

    /// Blocks the host until no work up to number `at` runs any more, whether it failed or not: then what it used can
    /// be used again.
    pub(crate) fn wait_idle(&self, at: u64) -> Result<()> {
        // Without the lock, so that other threads can submit work in the meantime.
        let waited = self.mark_after(at).and_then(|event| match event {
            Some(event) => self.noting_loss(event.synchronize()).map(|()| self.completed(at)),
            None => Ok(()),
        });
        match self.noting_loss(waited) {
            Err(error) if is_lost(&error) => Ok(()),
            waited => waited,
        }
    }

    /// Blocks the host until work number `at` is complete. Fails if that work failed.
    pub(crate) fn wait_until(&self, at: u64) -> Result<()> {
        self.wait_idle(at)?;
        self.failure_of(at).map_or(Ok(()), Err)
    }

    /// Blocks the host until all work submitted so far is complete. Fails if work after number `since` failed, and
    /// sets it to the last work.
    pub(crate) fn synchronize(&self, since: &AtomicU64) -> Result<()> {
        let (issued, event) = {
            let mut state = self.state.lock();
            let issued = state.issued;
            // If that fails, it is among the failures below.
            let _ = state.submit(self);
            // Synchronize even if the work is known to be complete, because this is how the driver reports errors.
            let mark = if state.is_shared { None } else { self.mark(&mut state, issued)? };
            let event = match mark {
                Some(event) => Some(event),
                None => match (state.stream, &state.capture) {
                    (Some(stream), None) => Some(self.record_plain(stream)?),
                    _ => None,
                },
            };
            (issued, event)
        };
        if let Some(event) = event {
            self.noting_loss(event.synchronize())?;
            self.completed(issued);
        }
        let failure = self.failures.after(since.load(Ordering::Relaxed));
        since.fetch_max(issued, Ordering::Relaxed);
        // One error stands for all of them: handles that are opened later start here.
        failure.map_or(Ok(()), |error| {
            self.failures.tell(issued);
            Err(error)
        })
    }

    /// Blocks the host until all work submitted so far is complete. Fails if work failed of which nobody was told.
    pub(crate) fn synchronize_untold(&self) -> Result<()> {
        self.synchronize(&AtomicU64::new(self.told()))
    }

    /// Makes later work start after work number `at` of `other`.
    pub(crate) fn start_after(self: &Arc<Self>, other: &Timeline, at: u64) -> Result<()> {
        if !self.can_wait_for(&other.driver) {
            return other.wait_idle(at);
        }
        if let Some(event) = other.mark_after(at)? {
            self.driver.wait_event(self.begin()?.stream()?, event.raw)?;
        }
        Ok(())
    }

    /// Makes later work start after the work submitted so far to another library's stream.
    pub(crate) fn wait_for_foreign(self: &Arc<Self>, stream: Raw) -> Result<()> {
        let event = self.events.take(false)?;
        self.driver.record_event(event.raw, stream)?;
        self.driver.wait_event(self.begin()?.stream()?, event.raw)
    }

    /// Makes later work start after all work that anybody has submitted to the device so far. This is work itself, and
    /// it uses `resources`: nobody takes them before. Returns its number.
    pub(crate) fn wait_for_all<R: Resource>(self: &Arc<Self>, resources: &[Arc<R>]) -> Result<u64> {
        let event = self.events.take(false)?;
        self.driver.record_context(event.raw)?;
        let mut work = self.begin()?;
        // Whoever depends on launches that fail now gets their error.
        let _ = work.state.submit(self);
        self.driver.wait_event(work.stream, event.raw)?;
        resources.iter().for_each(|resource| work.uses(resource));
        Ok(work.number())
    }

    /// Whether streams of this driver can wait for events of `other`. CUDA streams can wait for events of any CUDA
    /// device; emulated streams only for events of their own device.
    pub(crate) fn can_wait_for(&self, other: &Arc<dyn Driver>) -> bool {
        let is_cuda = |driver: &Arc<dyn Driver>| driver.properties().kind == DeviceKind::Cuda;
        Arc::ptr_eq(&self.driver, other) || (is_cuda(&self.driver) && is_cuda(other))
    }

    /// Begins to submit work. Other threads can't submit to the stream until the result is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<Work<'_>> {
        let mut state = self.state.lock();
        let Some(stream) = state.stream else {
            return Err(Error::shape("Stream", "the stream is closed"));
        };
        match &state.capture {
            None => state.issued += 1,
            Some(recording) if recording.thread == std::thread::current().id() => {}
            Some(_) => {
                return Err(Error::shape(
                    "Stream",
                    "another thread is capturing a graph on this stream; use another stream until it ends",
                ));
            }
        }
        Ok(Work { timeline: self, stream, state })
    }

    /// Whether the calling thread is capturing this stream.
    pub(crate) fn is_capturing(&self) -> bool {
        let state = self.state.lock();
        state.capture.as_ref().is_some_and(|recording| recording.thread == std::thread::current().id())
    }

    /// Records an event.
    pub(crate) fn record(self: &Arc<Self>, timing: bool) -> Result<Event> {
        if let Some((at, event)) = self.recorded_here(timing, SAME_TIME) {
            return Ok(Event { event, timeline: self.clone(), at, capture: None });
        }
        let mut event = self.events.take(timing)?;
        let mut work = self.begin()?;
        let capture = work.state.capture.as_ref().map(|recording| recording.id);
        event.reusable = capture.is_none();
        self.driver.record_event(event.raw, work.stream()?)?;
        let (event, at) = (Arc::new(event), work.state.issued);
        if capture.is_none() {
            work.state.marks.push_back((at, event.clone()));
            work.state.recorded = Some((at, Instant::now(), event.clone()));
        }
        Ok(Event { event, timeline: self.clone(), at, capture })
    }

    /// The last event, if it is where another one would be, and its time, if it has one, is not longer ago.
    fn recorded_here(&self, timing: bool, at_most: Duration) -> Option<(u64, Arc<PooledEvent>)> {
        let state = self.state.lock();
        let (at, when, event) = state.recorded.as_ref()?;
        let is_last = *at == state.issued && !state.is_shared;
        let is_here = is_last && state.capture.is_none() && state.stream.is_some();
        let is_alike = event.timing == timing && (!timing || when.elapsed() < at_most);
        (is_here && is_alike).then(|| (*at, event.clone()))
    }

    /// Says that other libraries get the stream's handle. What was gathered is submitted, and from now on launches are
    /// not gathered: another library that waits for the stream would not wait for them. The numbers do not tell of all
    /// work any more.
    pub(crate) fn share(&self) {
        let mut state = self.state.lock();
        state.is_shared = true;
        // Whoever depends on what fails gets the error.
        let _ = state.submit(self);
    }

    /// Submits what was gathered. Whoever depends on what fails gets the error.
    pub(crate) fn submit_gathered(&self) {
        let _ = self.state.lock().submit(self);
    }

    /// The number of the device's chains.
    #[cfg(test)]
    pub(super) fn chains(&self) -> usize {
        self.state.lock().chains.pool.chains()
    }

    /// Starts to gather launches, or stops it unless somebody else still wants it. At the end all gathered
    /// launches are submitted.
    pub(crate) fn gather(&self, on: bool) {
        let mut state = self.state.lock();
        if on {
            state.gathering += 1;
            return;
        }
        state.gathering -= 1;
        if state.gathering == 0 {
            // Whoever depends on what fails gets the error.
            let _ = state.submit(self);
        }
    }

    /// Whether launches are gathered now.
    pub(crate) fn is_gathering(&self) -> bool {
        self.state.lock().gathers()
    }

    /// The number of the calling thread's capture, if one is in progress.
    pub(crate) fn capture_id(&self) -> Option<u64> {
        let state = self.state.lock();
        let recording = state.capture.as_ref()?;
        (recording.thread == std::thread::current().id()).then_some(recording.id)
    }
}

impl Drop for Timeline {
    /// Closes the driver's stream if its queue could not, because the driver could not wait then. Nobody asks for the
    /// stream's work any more.
    fn drop(&mut self) {
        if let Some(stream) = self.state.get_mut().stream.take() {
            self.driver.destroy_stream(stream);
            // The driver completes a launch in progress.
            self.state.get_mut().chains.destroy();
        }
    }
}

/// Exclusive access to a stream, for submitting one piece of work.
pub(crate) struct Work<'a> {
    timeline: &'a Arc<Timeline>,
    stream: Raw,
    state: MutexGuard<'a, State>,
}

impl Work<'_> {
    /// The number of the work.
    pub(crate) fn number(&self) -> u64 {
        self.state.issued
    }

    /// The driver's stream, to which the work is submitted now. Launches that were gathered are submitted before it.
    pub(crate) fn stream(&mut self) -> Result<Raw> {
        self.submit()?;
        Ok(self.stream)
    }

    /// Submits the gathered launches.
    fn submit(&mut self) -> Result<()> {
        let last = self.state.issued;
        self.state.submit(self.timeline).inspect_err(|_| self.timeline.failures.tell(last))
    }

    /// Launches a kernel, given by its [number](Launch::kernel) and the driver's handle: now, or together with those
    /// after it if launches are gathered.
    ///
    /// # Safety
    ///
    /// As for [`CodeDriver::launch`](crate::drivers::CodeDriver::launch); each of `parameters` has as many bytes as
    /// `sizes` says.
    pub(crate) unsafe fn launch(
        &mut self,
        (kernel, function): (u64, Raw),
        grid: Grid,
        parameters: &[*const c_void],
        sizes: impl Iterator<Item = usize>,
    ) -> Result<()> {
        let driver = &*self.timeline.driver;
        if let Some(recording) = &mut self.state.capture {
            recording.kernels.push(kernel);
        }
        if !self.state.gathers() {
            let stream = self.stream()?;
            self.state.chains.pool.submitted(1);
            // SAFETY: guaranteed by the caller.
            return unsafe { driver.launch(stream, function, grid, parameters) };
        }
        let issued = self.state.issued;
        if self.state.gathered.is_empty() {
            self.state.gathered_numbers.0 = issued;
        }
        self.state.gathered_numbers.1 = issued;
        // SAFETY: guaranteed by the caller.
        self.state.gathered.push(unsafe { Launch::copy((kernel, function), grid, parameters, sizes) });
        if self.state.gathered.len() < MOST_GATHERED { Ok(()) } else { self.submit() }
    }

    /// Says that the work is kernels of another library, which may be other ones each time: a graph of them is never
    /// updated in place.
    pub(crate) fn runs_unknown_kernels(&mut self) {
        if let Some(recording) = &mut self.state.capture {
            recording.kernels.push(kernel_number());
        }
    }

    /// Records that the work uses `resource`, whatever its content is.
    pub(crate) fn uses<R: Resource>(&mut self, resource: &Arc<R>) {
        match &mut self.state.capture {
            None => resource.usage().lock().uses.note(self.timeline, self.state.issued),
            Some(recording) => recording.kept.push(resource.clone()),
        }
    }

    /// Records that the work reads `resource`. Fails if work failed that wrote it.
    pub(crate) fn reads<R: Resource>(&mut self, resource: &Arc<R>) -> Result<()> {
        self.accesses(resource, false)
    }

    /// Records that the work writes `resource`, or a part of it. Fails if work failed that wrote it before.
    pub(crate) fn writes<R: Resource>(&mut self, resource: &Arc<R>) -> Result<()> {
        self.accesses(resource, true)
    }

    fn accesses<R: Resource>(&mut self, resource: &Arc<R>, writes: bool) -> Result<()> {
        let mut usage = resource.usage().lock();
        usage.check_written()?;
        match &mut self.state.capture {
            None => {
                usage.uses.note(self.timeline, self.state.issued);
                if writes {
                    usage.note_written(self.timeline, self.state.issued);
                }
            }
            Some(recording) => recording.kept.push(resource.clone()),
        }
        Ok(())
    }

    /// Records that the work, a launch of a graph of these kernels, uses everything that the graph refers to. Fails if
    /// the host has borrowed any of that memory, or if work failed that wrote it.
    pub(crate) fn uses_all(&mut self, kept: &[Arc<dyn Resource>], kernels: &[u64]) -> Result<()> {
        if let Some(recording) = &mut self.state.capture {
            recording.kept.extend(kept.iter().cloned());
            recording.kernels.extend(kernels);
            return Ok(());
        }
        for resource in kept {
            let mut usage = resource.usage().lock();
            usage.check_not_borrowed()?;
            usage.check_written()?;
            usage.uses.note(self.timeline, self.state.issued);
        }
        Ok(())
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        let state = &mut *self.state;
        // While launches are gathered, a mark would submit them too soon.
        if state.capture.is_some() || !state.gathered.is_empty() || !state.issued.is_multiple_of(MARK_EVERY) {
            return;
        }
        // If recording fails, the mark is recorded again when it is needed.
        let issued = state.issued;
        let _ = self.timeline.mark(state, issued);
        if state.marks.len() > MANY_MARKS {
            self.timeline.poll_marks(state);
        }
    }
}

/// A driver stream that returns to its pool when dropped.
pub(crate) struct Queue {
    pub(crate) timeline: Arc<Timeline>,
    streams: Arc<StreamPool>,
}

impl Queue {
    pub(crate) fn open(
        driver: Arc<dyn Driver>,
        events: Arc<EventPool>,
        chains: Arc<ChainPool>,
        streams: Arc<StreamPool>,
    ) -> Result<Self> {
        let stream = streams.take()?;
        let state = State {
            stream: Some(stream),
            issued: 0,
            marks: VecDeque::new(),
            capture: None,
            gathering: 0,
            gathered: Vec::new(),
            gathered_numbers: (0, 0),
            chains: Chains::new(chains),
            is_shared: false,
            recorded: None,
        };
        let (completed, failures) = (AtomicU64::new(0), Failures::default());
        let timeline = Timeline { driver, events, completed, failures, state: Lock::new(state) };
        Ok(Self { timeline: Arc::new(timeline), streams })
    }

    /// The driver's handle.
    pub(crate) fn raw(&self) -> Raw {
        self.timeline.state.lock().stream.expect("open while the queue lives")
    }
}

impl Drop for Queue {
    /// Waits for the stream's work, so that the memory it used can then be reused or unmapped. Until then the work
    /// counts as running.
    fn drop(&mut self) {
        let timeline = &self.timeline;
        let (stream, issued, is_shared) = {
            let mut state = timeline.state.lock();
            // Whoever depends on what fails gets the error.
            let _ = state.submit(timeline);
            let Some(stream) = state.stream else { return };
            (stream, state.issued, state.is_shared)
        };
        let completed = timeline.completed.load(Ordering::Acquire);
        // If the device is lost, the driver says so.
        let is_complete = issued <= completed && completed != u64::MAX && !is_shared;
        let synchronize = || timeline.noting_loss(timeline.driver.synchronize(stream));
        match if is_complete { Ok(()) } else { synchronize() } {
            Err(error) if !is_lost(&error) => {
                // The driver can't wait now, for example while another library captures. The work may still be
                // running, so the driver's stream stays open and a mark tells when the work is complete.
                let mut state = timeline.state.lock();
                let issued = state.issued;
                let _ = timeline.mark(&mut state, issued);
            }
            ended => {
                timeline.completed(u64::MAX);
                let marks = {
                    let mut state = timeline.state.lock();
                    (state.stream, state.recorded) = (None, None);
                    state.chains.give_back();
                    std::mem::take(&mut state.marks)
                };
                drop(marks);
                match ended {
                    Ok(()) if !is_shared => self.streams.give(stream),
                    _ => timeline.driver.destroy_stream(stream),
                }
            }
        }
    }
}

/// Whether the device is lost. Then no work is running on it.
fn is_lost(error: &Error) -> bool {
    matches!(error, Error::DeviceLost { .. })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    use super::MOST_GATHERED;
    use crate::base::{Error, Lock, Result};
    use crate::drivers::{Grid, Raw};
    use crate::queue::scripted::Scripted;
    use crate::queue::{ChainPool, EventPool, Queue, Resource, StreamPool, Usage, Uses};

    #[test]
    fn the_work_of_a_closing_stream_counts_as_running_until_it_is_complete() {
        let driver = Scripted::new();
        let queue = driver.queue();
        let uses = driver.used_on(&queue);
        let gate = driver.gate.lock();
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| drop(queue));
            while !driver.calls().contains(&"synchronize stream".to_string()) {
                std::thread::yield_now();
            }
            assert!(uses.are_pending(), "the driver still waits for the work");
            drop(gate);
            closing.join().unwrap();
        });
        assert!(!uses.are_pending());
    }

    #[test]
    fn a_query_that_fails_does_not_mean_that_work_is_complete() {
        let driver = Scripted::new();
        let queue = driver.queue();
        let uses = driver.used_on(&queue);
        driver.fail_queries(true);
        assert!(uses.are_pending());
        driver.fail_queries(false);
        assert!(uses.are_pending());
        driver.complete_all();
        assert!(!uses.are_pending());
    }

    #[test]
    fn uses_of_closed_streams_do_not_accumulate() {
        let driver = Scripted::new();
        let mut uses = Uses::default();
        for _ in 0..100 {
            let queue = driver.queue();
            drop(queue.timeline.begin().unwrap());
            uses.note(&queue.timeline, queue.timeline.issued());
        }
        assert!(uses.len() <= 2, "{}", uses.len());
    }

    #[test]
    fn an_event_serves_again_while_nothing_is_submitted() {
        let driver = Scripted::new();
        let queue = driver.queue();
        let record = |timing| queue.timeline.record(timing).unwrap();
        let plain = record(false);
        assert_eq!(record(false).raw(), plain.raw());
        let timed = record(true);
        assert_ne!(timed.raw(), plain.raw(), "it has no timestamp");
        let here = |at_most| queue.timeline.recorded_here(true, at_most).map(|(_, event)| event.raw);
        assert_eq!(here(Duration::MAX), Some(timed.raw()));
        assert_eq!(here(Duration::ZERO), None, "the time is another one");
        drop(queue.timeline.begin().unwrap());
        assert_eq!(here(Duration::MAX), None, "work was submitted");
        let plain = record(false);
        queue.timeline.share();
        assert_ne!(record(false).raw(), plain.raw(), "another library may have submitted work");
    }

    #[test]
    fn a_stream_that_others_know_or_of_a_lost_device_is_not_opened_again() {
        let driver = Scripted::new();
        let queue = driver.queue();
        queue.timeline.share();
        queue.timeline.synchronize_untold().unwrap();
        driver.calls();
        drop(queue);
        assert_eq!(driver.calls(), ["synchronize stream", "destroy stream"]);
        let queue = driver.queue();
        driver.lose();
        assert!(queue.timeline.wait_until(1).is_err());
        driver.calls();
        drop(queue);
        assert_eq!(driver.calls()[0], "synchronize stream", "the driver tells whether the stream can be used");
    }

    #[test]
    fn a_stream_whose_work_is_complete_is_opened_again() {
        let driver = Scripted::new();
        let streams = StreamPool::new(driver.clone());
        let open = || {
            let (events, chains) = (EventPool::new(driver.clone()), ChainPool::new(driver.clone()));
            Queue::open(driver.clone(), events, chains, streams.clone()).unwrap()
        };
        let first = open();
        let (raw, second) = (first.raw(), open());
        assert_ne!(second.raw(), raw);
        drop(first.timeline.begin().unwrap());
        drop(first);
        assert_eq!(driver.calls(), ["synchronize stream"]);
        let again = open();
        assert_eq!(again.raw(), raw);
        drop(again.timeline.begin().unwrap());
        assert_eq!(again.timeline.issued(), 1, "its work is numbered anew");
        again.timeline.synchronize_untold().unwrap();
        driver.calls();
        drop((again, second));
        assert_eq!(driver.calls(), [] as [&str; 0], "the host has waited for the work before");
        drop(streams);
        assert_eq!(driver.calls(), ["destroy stream", "destroy stream"]);
    }

    #[test]
    fn gathered_launches_are_submitted_before_what_comes_after_them() {
        let driver = Scripted::new();
        let queue = driver.queue();
        let grid = Grid { blocks: [1; 3], threads: [1; 3], shared: 0 };
        let launch = || {
            // SAFETY: the scripted driver runs nothing, and there are no arguments.
            unsafe { queue.timeline.begin().unwrap().launch((1, Raw(1)), grid, &[], std::iter::empty()) }.unwrap();
        };
        let launched = || driver.calls().iter().filter(|call| *call == "launch").count();
        launch();
        assert_eq!(launched(), 1);
        queue.timeline.gather(true);
        (0..MOST_GATHERED - 1).for_each(|_| launch());
        assert_eq!(launched(), 0, "they are gathered");
        launch();
        assert_eq!(launched(), MOST_GATHERED);
        launch();
        queue.timeline.synchronize_untold().unwrap();
        assert_eq!(launched(), 1);
        launch();
        queue.timeline.gather(false);
        assert_eq!(launched(), 1);
    }

    /// Launches a kernel that writes `block`; function 0 fails when it is submitted.
    fn write(queue: &Queue, block: &Arc<Written>, function: u64) -> Result<()> {
        let grid = Grid { blocks: [1; 3], threads: [1; 3], shared: 0 };
        let mut work = queue.timeline.begin()?;
        work.writes(block)?;
        // SAFETY: the scripted driver runs nothing, and there are no arguments.
        unsafe { work.launch((1, Raw(function)), grid, &[], std::iter::empty()) }
    }

    #[derive(Default)]
    struct Written(Lock<Usage>);

    impl Resource for Written {
        fn usage(&self) -> &Lock<Usage> {
            &self.0
        }
    }

    #[test]
    fn a_failed_submission_fails_who_depends_on_it_however_often_and_nobody_else() {
        let driver = Scripted::new();
        let queue = driver.queue();
        let blocks: [Arc<Written>; 3] = Default::default();
        let synchronized = AtomicU64::new(0);
        write(&queue, &blocks[0], 1).unwrap();
        queue.timeline.gather(true);
        write(&queue, &blocks[1], 0).unwrap();
        let failed = queue.timeline.issued();
        queue.timeline.gather(false);
        // Whoever comes first is told nothing that is not theirs, and takes nothing away.
        assert!(write(&queue, &blocks[2], 1).is_ok());
        assert!(queue.timeline.record(true).is_ok());
        for _ in 0..2 {
            assert!(queue.timeline.begin().unwrap().reads(&blocks[1]).is_err());
            assert!(queue.timeline.begin().unwrap().writes(&blocks[1]).is_err());
            assert!(queue.timeline.wait_until(failed).is_err());
        }
        // Also on another stream, and after the stream is closed.
        let other = driver.queue();
        assert!(other.timeline.begin().unwrap().reads(&blocks[1]).is_err());
        for block in [&blocks[0], &blocks[2]] {
            other.timeline.begin().unwrap().reads(block).unwrap();
        }
        assert!(queue.timeline.wait_until(failed - 1).is_ok() && queue.timeline.wait_until(failed + 1).is_ok());
        // The memory may be used for something else: the failed work does not run.
        assert!(queue.timeline.wait_idle(failed).is_ok());
        assert!(queue.timeline.synchronize(&synchronized).is_err());
        assert!(queue.timeline.synchronize(&synchronized).is_ok(), "a handle tells of it once");
        drop(queue);
        assert!(other.timeline.begin().unwrap().reads(&blocks[1]).is_err());
    }

    #[test]
    fn measuring_and_dropping_consume_no_error() {
        let driver = Scripted::new();
        let queue = driver.queue();
        let block = Arc::new(Written::default());
        queue.timeline.gather(true);
        write(&queue, &block, 0).unwrap();
        // As at the end of a measured phase, whose caller drops the result.
        let _ = queue.timeline.record(true);
        queue.timeline.gather(false);
        assert!(queue.timeline.begin().unwrap().reads(&block).is_err());
        assert!(queue.timeline.synchronize(&AtomicU64::new(0)).is_err());
    }

    #[test]
    fn waiting_for_work_of_a_lost_device_is_an_error_and_its_memory_is_free() {
        let driver = Scripted::new();
        let queue = driver.queue();
        drop(queue.timeline.begin().unwrap());
        queue.timeline.synchronize_untold().unwrap();
        let complete = queue.timeline.issued();
        let uses = driver.used_on(&queue);
        driver.lose();
        // An allocation of another thread learns of it.
        assert!(!uses.are_pending());
        assert!(uses.wait_idle().is_ok());
        assert!(queue.timeline.wait_until(complete).is_ok(), "it was complete before");
        for _ in 0..2 {
            assert!(matches!(uses.wait(), Err(Error::DeviceLost { .. })));
        }
        // The first who waits learns of it, and there is no event yet that could be waited for.
        let queue = driver.found().queue();
        let uses = driver.used_on(&queue);
        driver.lose();
        for _ in 0..2 {
            assert!(matches!(uses.wait(), Err(Error::DeviceLost { .. })));
            assert!(uses.wait_idle().is_ok() && !uses.are_pending());
        }
    }

    #[test]
    fn a_stream_that_could_not_close_destroys_its_chains() {
        let driver = Scripted::new();
        let chains = ChainPool::new(driver.clone());
        let open = || {
            let events = EventPool::new(driver.clone());
            Queue::open(driver.clone(), events, chains.clone(), StreamPool::new(driver.clone())).unwrap()
        };
        let queue = open();
        let block = Arc::new(Written::default());
        for _ in 0..2 {
            queue.timeline.gather(true);
            (0..2).for_each(|_| write(&queue, &block, 1).unwrap());
            queue.timeline.gather(false);
        }
        assert_eq!(chains.chains(), 1);
        driver.fail_waits(true);
        drop((queue, block));
        assert!(driver.calls().iter().any(|call| call.starts_with("destroy chain")));
        assert_eq!(chains.chains(), 0);
    }

    #[test]
    fn a_stream_that_others_know_never_gathers() {
        let driver = Scripted::new();
        let queue = driver.queue();
        let block = Arc::new(Written::default());
        let launched = || driver.calls().iter().filter(|call| *call == "launch").count();
        queue.timeline.gather(true);
        write(&queue, &block, 1).unwrap();
        assert_eq!(launched(), 0);
        queue.timeline.share();
        assert_eq!(launched(), 1, "another library may wait for the stream now");
        write(&queue, &block, 1).unwrap();
        assert_eq!(launched(), 1);
        queue.timeline.gather(false);
    }

    #[test]
    fn memory_that_another_library_used_is_in_use_until_the_device_has_done_it() {
        let driver = Scripted::new();
        let queue = driver.queue();
        let block = Arc::new(Written::default());
        queue.timeline.begin().unwrap().uses(&block);
        assert!(block.0.lock().uses.are_pending());
        driver.complete_all();
        assert!(!block.0.lock().uses.are_pending(), "Rigel's own work is done");
        queue.timeline.wait_for_all(std::slice::from_ref(&block)).unwrap();
        assert!(block.0.lock().uses.are_pending(), "the other library's may be running");
        driver.complete_all();
        assert!(!block.0.lock().uses.are_pending());
        driver.fail_waits(true);
        assert!(queue.timeline.wait_for_all(std::slice::from_ref(&block)).is_err());
    }
}
