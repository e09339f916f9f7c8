//! Streams (queues of work that run in order) and events (marks in them).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::arena::StreamSet;
use crate::buffer::Block;
use crate::device::Device;
use crate::driver::{Driver, Raw};
use crate::error::{Error, Result};
use crate::properties::Kind;

/// A queue of work on a device. Work of one stream runs in order; streams run beside each other.
///
/// Cloning gives another handle to the same queue.
#[derive(Clone)]
pub struct Stream {
    device: Device,
    queue: Arc<Queue>,
}

/// The open streams of a device. Each has a slot, and the slot's bit stands for it in the arena's books.
pub(crate) struct Streams(Mutex<[Option<Slot>; MAX_STREAMS]>);

/// One slot for each bit of a [`StreamSet`].
const MAX_STREAMS: usize = StreamSet::BITS as usize;

#[derive(Clone, Copy)]
struct Slot {
    raw: Raw,
    capturing: bool,
}

impl Streams {
    pub(crate) fn new() -> Self {
        Self(Mutex::new([None; MAX_STREAMS]))
    }

    /// Runs `work` with the open streams, none of which closes meanwhile.
    pub(crate) fn with<R>(&self, work: impl FnOnce(OpenStreams<'_>) -> R) -> R {
        work(OpenStreams(&self.slots()))
    }

    fn slots(&self) -> MutexGuard<'_, [Option<Slot>; MAX_STREAMS]> {
        self.0.lock().expect("no panic while the lock is held")
    }
}

/// The streams that are open.
#[derive(Clone, Copy)]
pub(crate) struct OpenStreams<'a>(&'a [Option<Slot>; MAX_STREAMS]);

impl OpenStreams<'_> {
    /// The streams of a set.
    pub(crate) fn of(self, set: StreamSet) -> impl Iterator<Item = Raw> {
        self.0
            .iter()
            .enumerate()
            .filter(move |(i, _)| set >> i & 1 == 1)
            .filter_map(|(_, slot)| Some((*slot)?.raw))
    }

    /// Those under capture.
    pub(crate) fn capturing(self) -> StreamSet {
        let busy = |slot: &Option<Slot>| slot.is_some_and(|slot| slot.capturing);
        (0..MAX_STREAMS).filter(|&i| busy(&self.0[i])).fold(0, |set, i| set | 1 << i)
    }
}

/// The driver's stream, destroyed with its last handle.
pub(crate) struct Queue {
    driver: Arc<dyn Driver>,
    streams: Arc<Streams>,
    slot: usize,
    pub(crate) raw: Raw,
    /// The bit that stands for this stream in the arena's books.
    pub(crate) bit: StreamSet,
    capturing: AtomicBool,
    /// Memory that the capture under way refers to.
    kept: Mutex<Vec<Arc<Block>>>,
}

impl Queue {
    pub(crate) fn new(driver: Arc<dyn Driver>, streams: Arc<Streams>) -> Result<Self> {
        let mut slots = streams.slots();
        let slot = slots.iter().position(Option::is_none).ok_or_else(|| {
            Error::shape("Device::new_stream", format!("{MAX_STREAMS} streams are open already"))
        })?;
        let raw = driver.create_stream()?;
        slots[slot] = Some(Slot { raw, capturing: false });
        drop(slots);
        let capturing = AtomicBool::new(false);
        Ok(Self { driver, streams, slot, raw, bit: 1 << slot, capturing, kept: Mutex::default() })
    }

    pub(crate) fn is_capturing(&self) -> bool {
        self.capturing.load(Ordering::Acquire)
    }

    pub(crate) fn set_capturing(&self, capturing: bool) {
        self.capturing.store(capturing, Ordering::Release);
        if let Some(slot) = &mut self.streams.slots()[self.slot] {
            slot.capturing = capturing;
        }
    }

    /// Ends a capture's hold on memory, handing it over.
    pub(crate) fn take_kept(&self) -> Vec<Arc<Block>> {
        std::mem::take(&mut self.kept.lock().expect("no panic while the lock is held"))
    }

    /// Notes that work on this stream uses `block`.
    pub(crate) fn uses(&self, block: &Arc<Block>) {
        block.used_on(self.bit);
        if self.is_capturing() {
            self.kept.lock().expect("no panic while the lock is held").push(block.clone());
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Memory this stream used is handed out without a wait once its slot is free.
        let _ = self.driver.synchronize(self.raw);
        self.streams.slots()[self.slot] = None;
        self.driver.destroy_stream(self.raw);
    }
}

impl Stream {
    pub(crate) fn new(device: Device, queue: Arc<Queue>) -> Self {
        Self { device, queue }
    }

    /// The device the stream belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    pub(crate) fn raw(&self) -> Raw {
        self.queue.raw
    }

    /// Waits on the host until all work given so far is done, and reports what went wrong in it.
    pub fn synchronize(&self) -> Result<()> {
        self.device.driver().synchronize(self.raw())?;
        self.device.settle();
        Ok(())
    }

    /// Marks this point of the stream.
    pub fn record(&self) -> Result<Event> {
        let event = Event::new(self.device.driver().clone(), false)?;
        self.device.driver().record_event(event.raw, self.raw())?;
        Ok(event)
    }

    /// Marks this point of the stream with the time at which it is reached.
    pub fn record_time(&self) -> Result<Event> {
        let event = Event::new(self.device.driver().clone(), true)?;
        self.device.driver().record_event(event.raw, self.raw())?;
        Ok(event)
    }

    /// Work given from now on starts after `event`, which may lie on a stream of any device.
    pub fn wait(&self, event: &Event) -> Result<()> {
        let (ours, theirs) = (self.device.driver(), &event.driver);
        // CUDA orders streams of all its devices; an event of another kind of device is waited for here.
        let both_cuda = ours.properties().kind == Kind::Cuda && theirs.properties().kind == Kind::Cuda;
        if both_cuda || Arc::ptr_eq(ours, theirs) {
            ours.wait_event(self.raw(), event.raw)
        } else {
            event.synchronize()
        }
    }

    /// Work given from now on starts after the work that `other` has been given so far.
    pub fn wait_for(&self, other: &Stream) -> Result<()> {
        if Arc::ptr_eq(&self.queue, &other.queue) {
            return Ok(());
        }
        self.wait(&other.record()?)
    }

    /// Runs `work` on the stream and measures it with events: its result, and milliseconds on the device.
    pub fn time<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<(R, f32)> {
        let start = self.record_time()?;
        let result = work()?;
        let end = self.record_time()?;
        end.synchronize()?;
        Ok((result, end.since(&start)?))
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream({}, {:#x})", self.device, self.raw().0)
    }
}

/// A mark in a stream.
pub struct Event {
    driver: Arc<dyn Driver>,
    pub(crate) raw: Raw,
}

impl Event {
    pub(crate) fn new(driver: Arc<dyn Driver>, timing: bool) -> Result<Self> {
        let raw = driver.create_event(timing)?;
        Ok(Self { driver, raw })
    }

    /// Whether the stream has reached the mark.
    pub fn is_done(&self) -> Result<bool> {
        self.driver.event_done(self.raw)
    }

    /// Waits on the host until the stream has reached the mark.
    pub fn synchronize(&self) -> Result<()> {
        self.driver.synchronize_event(self.raw)
    }

    /// Milliseconds from `start` to this event. Both must come from [`Stream::record_time`] and be done.
    pub fn since(&self, start: &Event) -> Result<f32> {
        self.driver.elapsed(start.raw, self.raw)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.driver.destroy_event(self.raw);
    }
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Event({:#x})", self.raw.0)
    }
}
