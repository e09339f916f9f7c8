//! Streams: queues of work that run in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::{Error, Plain, Result};
use crate::device::Device;
use crate::memory::{Block, Buffer, Core, Lane, View, same_device};
use crate::queue::{Event, Resource, Timeline, Work};

/// A queue of work on a device. Work of one stream runs in order; different streams run concurrently.
///
/// Cloning it gives another handle to the same stream.
pub struct Stream {
    lane: Arc<Lane>,
    device: Device,
    /// The number up to which this handle has told of failed work.
    told: AtomicU64,
}

impl Clone for Stream {
    fn clone(&self) -> Self {
        let told = AtomicU64::new(self.told.load(Ordering::Relaxed));
        Self { lane: self.lane.clone(), device: self.device.clone(), told }
    }
}

impl Device {
    /// The stream for kernels.
    pub fn compute(&self) -> Result<Stream> {
        Ok(Stream::of(self, self.lane(0)?))
    }

    /// The stream for uploads, which overlap kernels.
    pub fn upload_lane(&self) -> Result<Stream> {
        Ok(Stream::of(self, self.lane(1)?))
    }

    /// The stream for downloads, which overlap kernels.
    pub fn download_lane(&self) -> Result<Stream> {
        Ok(Stream::of(self, self.lane(2)?))
    }

    /// The stream whose handle other libraries get, so that the [compute stream](Self::compute) stays Rigel's own.
    pub fn interop_lane(&self) -> Result<Stream> {
        Ok(Stream::of(self, self.lane(3)?))
    }

    /// Creates another stream.
    pub fn new_stream(&self) -> Result<Stream> {
        Ok(Stream::of(self, self.core().open_lane()?))
    }
}

impl Stream {
    fn of(device: &Device, lane: Arc<Lane>) -> Self {
        let told = AtomicU64::new(lane.timeline().told());
        Self { lane, device: device.clone(), told }
    }

    /// A handle to the stream that tells of failures of later work only.
    pub(super) fn for_later_work(&self) -> Self {
        let told = AtomicU64::new(self.timeline().issued());
        Self { told, ..self.clone() }
    }

    /// The device the stream belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether both are handles to the same stream.
    pub(super) fn is(&self, other: &Stream) -> bool {
        Arc::ptr_eq(&self.lane, &other.lane)
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        self.lane.core()
    }

    pub(super) fn timeline(&self) -> &Arc<Timeline> {
        self.lane.timeline()
    }

    /// Begins to submit work that reads and writes these blocks, ordered after their allocations on other streams.
    /// Fails if work failed that was to write them.
    pub(super) fn begin(&self, reads: &[&Arc<Block>], writes: &[&Arc<Block>]) -> Result<Work<'_>> {
        if let Some(observer) = self.device.observer() {
            observer.working(&self.device, self.timeline())?;
        }
        self.device.take_back(self.timeline(), reads.iter().chain(writes).copied())?;
        for origin in reads.iter().chain(writes).filter_map(|block| block.origin()) {
            origin.order_before(self.timeline())?;
        }
        let mut work = self.timeline().begin()?;
        reads.iter().try_for_each(|block| work.reads(*block))?;
        writes.iter().try_for_each(|block| work.writes(*block))?;
        Ok(work)
    }

    pub(super) fn lane(&self) -> &Lane {
        &self.lane
    }

    /// Blocks the host until all work submitted so far is complete, and reports its errors.
    ///
    /// Each handle to the stream tells once of gathered launches that failed, whoever launched them. Whatever they were
    /// to write can't be read or written any more: that fails with the same error until the memory is dropped.
    pub fn synchronize(&self) -> Result<()> {
        self.outside_capture("Stream::synchronize", "the host can't wait for work that is only recorded")?;
        self.timeline().synchronize(&self.told)?;
        self.core().settle();
        self.waited()
    }

    /// Tells the observer that the host has waited for this stream's work.
    pub(super) fn waited(&self) -> Result<()> {
        self.device.observer().map_or(Ok(()), |observer| observer.waited(&self.device))
    }

    /// Records an event at this point of the stream.
    pub fn record(&self) -> Result<Event> {
        self.timeline().record(false)
    }

    /// Records an event with a timestamp at this point of the stream.
    pub fn record_time(&self) -> Result<Event> {
        self.timeline().record(true)
    }

    /// Makes work submitted from now on start after `event`, which may belong to a stream of any device.
    ///
    /// Work in a capture can't wait for work outside it, and vice versa.
    pub fn wait(&self, event: &Event) -> Result<()> {
        if event.capture() != self.timeline().capture_id() {
            let detail = match event.capture() {
                Some(_) => {
                    "the event was recorded in a graph capture; only the stream under capture can wait for it"
                }
                None => {
                    "the stream is under capture, but the event is not part of it; call wait before the capture begins"
                }
            };
            return Err(Error::shape("Stream::wait", detail));
        }
        if !self.timeline().can_wait_for(event.driver()) {
            return event.synchronize();
        }
        let mut work = self.timeline().begin()?;
        self.core().driver.wait_event(work.stream()?, event.raw())
    }

    /// Makes work submitted from now on start after the work submitted to `other` so far.
    pub fn wait_for(&self, other: &Stream) -> Result<()> {
        if self.is(other) {
            return Ok(());
        }
        self.wait(&other.record()?)
    }

    /// Makes work submitted from now on start after all work that has used this memory so far, on any stream. For work
    /// that reads what another stream wrote.
    ///
    /// Streams of other libraries are not known; see [`Self::wait_foreign`].
    pub fn wait_for_uses<'a, T: Plain>(&self, memory: impl Into<View<'a, T>>) -> Result<()> {
        memory.into().block().order_reader(self.timeline())
    }

    /// Times `work` with events. Returns its result and the milliseconds on the device.
    pub fn time<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<(R, f32)> {
        let start = self.record_time()?;
        let result = work()?;
        let end = self.record_time()?;
        end.synchronize()?;
        Ok((result, end.since(&start)?))
    }

    /// Allocates `len` uninitialised values. Their content is arbitrary.
    pub fn alloc<T: Plain>(&self, len: usize) -> Result<Buffer<T>> {
        let bytes = len
            .checked_mul(size_of::<T>())
            .ok_or_else(|| Error::shape("Stream::alloc", format!("{len} values overflow the address space")))?;
        self.device.take_back(self.timeline(), std::iter::empty::<&Arc<Block>>())?;
        let block = self.core().alloc(self.timeline(), bytes)?;
        // A graph keeps memory alive that was allocated during its capture.
        self.timeline().begin()?.uses(&block);
        Ok(Buffer::from_block(block, len))
    }

    /// Fails if the memory belongs to another device.
    pub(super) fn owns<T: Plain>(&self, operation: &str, view: View<'_, T>) -> Result<()> {
        self.owns_block(operation, view.block())
    }

    pub(super) fn owns_block(&self, operation: &str, block: &Block) -> Result<()> {
        same_device(operation, self.core(), block.core())
    }

    pub(super) fn outside_capture(&self, operation: &'static str, reason: &str) -> Result<()> {
        if self.timeline().is_capturing() {
            return Err(Error::shape(operation, format!("the stream is under capture; {reason}")));
        }
        Ok(())
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream({}, {:#x})", self.device, self.lane.raw().0)
    }
}
