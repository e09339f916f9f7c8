//! Timelines: the work of one stream, numbered in the order in which it was given.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::thread::ThreadId;

use super::event::{Event, EventPool, PooledEvent};
use super::uses::Resource;
use crate::base::{Error, Kind, Lock, Result};
use crate::drivers::{Driver, Raw};

/// A mark is recorded after this many pieces of work: often enough for waits to be short, seldom enough to cost
/// nothing.
const MARK_EVERY: u64 = 16;
/// With more marks than this the driver is asked which are done.
const MANY_MARKS: usize = 64;

/// The work of one stream.
///
/// Work is numbered from 1. Marks (events) tell up to which number it is complete. A timeline outlives its stream, in
/// the notes of memory that the stream used; all work of a closed stream is complete.
pub(crate) struct Timeline {
    driver: Arc<dyn Driver>,
    events: Arc<EventPool>,
    /// All work up to this number is known to be complete.
    completed: AtomicU64,
    state: Lock<State>,
}

struct State {
    /// The driver's stream, until it is closed.
    stream: Option<Raw>,
    /// The number of the last work that was given.
    issued: u64,
    /// Events that were recorded after the work with these numbers, in order.
    marks: VecDeque<(u64, Arc<PooledEvent>)>,
    capture: Option<Recording>,
}

/// A capture under way.
struct Recording {
    id: u64,
    /// The thread that records. Work that others give meanwhile would end up in the graph.
    thread: ThreadId,
    kept: Vec<Arc<dyn Resource>>,
}

impl Timeline {
    /// Whether work number `at` is complete, by what is known without asking the driver.
    pub(super) fn is_known_complete(&self, at: u64) -> bool {
        at <= self.completed.load(Ordering::Acquire)
    }

    /// Notes that all work up to number `at` is complete.
    pub(super) fn completed(&self, at: u64) {
        self.completed.fetch_max(at, Ordering::Release);
    }

    /// The number of the last work that was given.
    pub(crate) fn issued(&self) -> u64 {
        self.state.lock().issued
    }

    /// Asks the driver which marks are done.
    fn poll_marks(&self, state: &mut State) {
        // A lost device has no work left, so an error means that the work is over.
        while state.marks.front().is_some_and(|(_, event)| event.is_done().unwrap_or(true)) {
            if let Some((at, _)) = state.marks.pop_front() {
                self.completed(at);
            }
        }
    }

    /// Whether work number `at` may not be complete yet; asks the driver.
    pub(super) fn is_pending(&self, at: u64) -> bool {
        if self.is_known_complete(at) {
            return false;
        }
        let mut state = self.state.lock();
        // Without a mark that can be recorded only a lost device is left, which has no work.
        if self.mark(&mut state, at).is_ok() {
            self.poll_marks(&mut state);
        }
        !self.is_known_complete(at) && !state.marks.is_empty()
    }

    /// An event after work number `at`; `None` if that work is complete.
    pub(super) fn mark_after(&self, at: u64) -> Result<Option<Arc<PooledEvent>>> {
        if self.is_known_complete(at) {
            return Ok(None);
        }
        self.mark(&mut self.state.lock(), at)
    }

    /// The first mark after work number `at`, recorded now if there is none; `None` if that work is complete.
    fn mark(&self, state: &mut State, at: u64) -> Result<Option<Arc<PooledEvent>>> {
        if let Some((_, event)) = state.marks.iter().find(|(number, _)| *number >= at) {
            return Ok(Some(event.clone()));
        }
        // A capture begins with a mark, and gives no work numbers: here the stream is not recording.
        let (Some(stream), None) = (state.stream, &state.capture) else { return Ok(None) };
        if self.is_known_complete(at) {
            return Ok(None);
        }
        let event = Arc::new(self.events.take(false)?);
        self.driver.record_event(event.raw, stream)?;
        state.marks.push_back((state.issued, event.clone()));
        Ok(Some(event))
    }

    /// Waits on the host until work number `at` is complete, and reports what went wrong in it.
    pub(super) fn wait_until(&self, at: u64) -> Result<()> {
        // Not under the lock: other threads may give work to the stream meanwhile.
        if let Some(event) = self.mark_after(at)? {
            event.synchronize()?;
            self.completed(at);
        }
        Ok(())
    }

    /// Waits on the host until all work given so far is complete.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let event = {
            let mut state = self.state.lock();
            let issued = state.issued;
            // Ask even if the work is known to be complete: the driver reports what went wrong when it is asked.
            match self.mark(&mut state, issued)? {
                Some(event) => Some((issued, event)),
                None => match (state.stream, &state.capture) {
                    (Some(stream), None) => {
                        let event = Arc::new(self.events.take(false)?);
                        self.driver.record_event(event.raw, stream)?;
                        Some((issued, event))
                    }
                    _ => None,
                },
            }
        };
        if let Some((issued, event)) = event {
            event.synchronize()?;
            self.completed(issued);
        }
        Ok(())
    }

    /// Later work starts after work number `at` of `other`.
    pub(super) fn start_after(self: &Arc<Self>, other: &Timeline, at: u64) -> Result<()> {
        if !self.can_wait_for(&other.driver) {
            return other.wait_until(at);
        }
        if let Some(event) = other.mark_after(at)? {
            self.driver.wait_event(self.begin()?.stream, event.raw)?;
        }
        Ok(())
    }

    /// Later work starts after what a stream of another library has been given so far.
    pub(crate) fn wait_for_foreign(self: &Arc<Self>, stream: Raw) -> Result<()> {
        let event = self.events.take(false)?;
        self.driver.record_event(event.raw, stream)?;
        self.driver.wait_event(self.begin()?.stream, event.raw)
    }

    /// Whether streams of this driver can wait for events of `other`: CUDA orders the streams of all its devices, the
    /// emulated device only its own.
    pub(crate) fn can_wait_for(&self, other: &Arc<dyn Driver>) -> bool {
        let is_cuda = |driver: &Arc<dyn Driver>| driver.properties().kind == Kind::Cuda;
        Arc::ptr_eq(&self.driver, other) || (is_cuda(&self.driver) && is_cuda(other))
    }

    /// Begins to give work to the stream. Nobody else gives it any until the result is dropped.
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
                    "another thread is capturing a graph on this stream; use a stream of your own meanwhile",
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

    /// Marks this point of the stream.
    pub(crate) fn record(self: &Arc<Self>, timing: bool) -> Result<Event> {
        let mut event = self.events.take(timing)?;
        let mut work = self.begin()?;
        let capture = work.state.capture.as_ref().map(|recording| recording.id);
        event.reusable = capture.is_none();
        self.driver.record_event(event.raw, work.stream)?;
        let (event, at) = (Arc::new(event), work.state.issued);
        if capture.is_none() {
            work.state.marks.push_back((at, event.clone()));
        }
        Ok(Event { event, timeline: self.clone(), at, capture })
    }

    /// The number of the capture under way on the calling thread, if there is one.
    pub(crate) fn capture_id(&self) -> Option<u64> {
        let state = self.state.lock();
        let recording = state.capture.as_ref()?;
        (recording.thread == std::thread::current().id()).then_some(recording.id)
    }
}

/// The right to give one piece of work to a stream.
pub(crate) struct Work<'a> {
    timeline: &'a Arc<Timeline>,
    pub(crate) stream: Raw,
    state: MutexGuard<'a, State>,
}

impl Work<'_> {
    /// Notes that the work uses `resource`.
    pub(crate) fn uses<R: Resource>(&mut self, resource: &Arc<R>) {
        match &mut self.state.capture {
            None => resource.usage().lock().uses.note(self.timeline, self.state.issued),
            Some(recording) => recording.kept.push(resource.clone()),
        }
    }

    /// Notes that the work, a graph, uses what the graph keeps. Refuses memory that the host has borrowed.
    pub(crate) fn uses_all(&mut self, kept: &[Arc<dyn Resource>]) -> Result<()> {
        if let Some(recording) = &mut self.state.capture {
            recording.kept.extend(kept.iter().cloned());
            return Ok(());
        }
        for resource in kept {
            let mut usage = resource.usage().lock();
            usage.check_not_borrowed()?;
            usage.uses.note(self.timeline, self.state.issued);
        }
        Ok(())
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        let state = &mut *self.state;
        if state.capture.is_some() || !state.issued.is_multiple_of(MARK_EVERY) {
            return;
        }
        // A mark that can't be recorded is recorded when somebody needs it.
        let issued = state.issued;
        let _ = self.timeline.mark(state, issued);
        if state.marks.len() > MANY_MARKS {
            self.timeline.poll_marks(state);
        }
    }
}

/// A stream of the driver's, closed when dropped.
pub(crate) struct Queue {
    pub(crate) timeline: Arc<Timeline>,
}

impl Queue {
    pub(crate) fn open(driver: Arc<dyn Driver>, events: Arc<EventPool>) -> Result<Self> {
        let stream = driver.create_stream()?;
        let state = State { stream: Some(stream), issued: 0, marks: VecDeque::new(), capture: None };
        let timeline = Timeline { driver, events, completed: AtomicU64::new(0), state: Lock::new(state) };
        Ok(Self { timeline: Arc::new(timeline) })
    }

    /// The driver's handle.
    pub(crate) fn raw(&self) -> Raw {
        self.timeline.state.lock().stream.expect("open while the queue lives")
    }
}

impl Drop for Queue {
    /// Waits for the stream's work: afterwards memory that it used can be handed out, or unmapped.
    fn drop(&mut self) {
        let timeline = &self.timeline;
        let (stream, marks) = {
            let mut state = timeline.state.lock();
            (state.stream.take(), std::mem::take(&mut state.marks))
        };
        if let Some(stream) = stream {
            // An error means a lost device, which has no work left.
            let _ = timeline.driver.synchronize(stream);
            timeline.completed(u64::MAX);
            drop(marks);
            timeline.driver.destroy_stream(stream);
        }
    }
}

/// A capture from its begin to its end, whatever happens between.
pub(crate) struct Capture<'a> {
    timeline: &'a Arc<Timeline>,
    ended: bool,
}

impl<'a> Capture<'a> {
    /// From now on work that this thread gives to the stream is recorded, not run.
    pub(crate) fn begin(timeline: &'a Arc<Timeline>) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut state = timeline.state.lock();
        if state.capture.is_some() {
            return Err(Error::shape("Graph::capture", "the stream is under capture already"));
        }
        let Some(stream) = state.stream else {
            return Err(Error::shape("Graph::capture", "the stream is closed"));
        };
        // So that whoever waits for earlier work need not touch the stream while it records.
        let issued = state.issued;
        timeline.mark(&mut state, issued)?;
        timeline.driver.begin_capture(stream)?;
        let (id, thread) = (NEXT.fetch_add(1, Ordering::Relaxed), std::thread::current().id());
        state.capture = Some(Recording { id, thread, kept: Vec::new() });
        Ok(Self { timeline, ended: false })
    }

    /// Ends the capture: the graph, and what it refers to.
    pub(crate) fn end(mut self) -> Result<(Raw, Vec<Arc<dyn Resource>>)> {
        self.ended = true;
        self.stop()
    }

    fn stop(&self) -> Result<(Raw, Vec<Arc<dyn Resource>>)> {
        let (graph, mut kept) = {
            let mut state = self.timeline.state.lock();
            let stream = state.stream.expect("the stream is borrowed");
            let graph = self.timeline.driver.end_capture(stream);
            let recording = state.capture.take().expect("this guard began it");
            (graph, recording.kept)
        };
        let address = |resource: &Arc<dyn Resource>| Arc::as_ptr(resource).cast::<()>();
        kept.sort_by_key(address);
        kept.dedup_by_key(|resource| address(resource));
        Ok((graph?, kept))
    }
}

impl Drop for Capture<'_> {
    /// An error or a panic between begin and end: the recorded work is dropped, and the stream runs again.
    fn drop(&mut self) {
        if !self.ended
            && let Ok((graph, _)) = self.stop()
        {
            self.timeline.driver.destroy_graph(graph);
        }
    }
}
