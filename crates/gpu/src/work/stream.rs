//! Streams: queues of work that run in order.

use std::sync::Arc;

use crate::base::{Error, Plain, Result};
use crate::device::Device;
use crate::memory::{Block, Buffer, Core, Lane, View, same_device};
use crate::queue::{Event, Timeline};

/// A queue of work on a device. Work of one stream runs in order; streams run beside each other.
///
/// Cloning gives another handle to the same queue.
#[derive(Clone)]
pub struct Stream {
    lane: Arc<Lane>,
    device: Device,
}

impl Device {
    /// The stream for kernels.
    pub fn compute(&self) -> Result<Stream> {
        Ok(Stream { lane: self.lane(0)?, device: self.clone() })
    }

    /// The stream for copies to the device, beside the kernels.
    pub fn upload_lane(&self) -> Result<Stream> {
        Ok(Stream { lane: self.lane(1)?, device: self.clone() })
    }

    /// The stream for copies from the device, beside the kernels.
    pub fn download_lane(&self) -> Result<Stream> {
        Ok(Stream { lane: self.lane(2)?, device: self.clone() })
    }

    /// A further stream.
    pub fn new_stream(&self) -> Result<Stream> {
        Ok(Stream { lane: self.core().open_lane()?, device: self.clone() })
    }
}

impl Stream {
    /// The device the stream belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        self.lane.core()
    }

    pub(super) fn timeline(&self) -> &Arc<Timeline> {
        self.lane.timeline()
    }

    pub(super) fn lane(&self) -> &Lane {
        &self.lane
    }

    /// Waits on the host until all work given so far is done, and reports what went wrong in it.
    pub fn synchronize(&self) -> Result<()> {
        self.outside_capture("Stream::synchronize", "the host can't wait for work that is only recorded")?;
        self.timeline().synchronize()?;
        self.core().settle();
        Ok(())
    }

    /// Marks this point of the stream.
    pub fn record(&self) -> Result<Event> {
        self.timeline().record(false)
    }

    /// Marks this point of the stream with the time at which it is reached.
    pub fn record_time(&self) -> Result<Event> {
        self.timeline().record(true)
    }

    /// Work given from now on starts after `event`, which may lie on a stream of any device.
    ///
    /// A capture can't wait for work outside it, nor the other way round.
    pub fn wait(&self, event: &Event) -> Result<()> {
        if event.capture() != self.timeline().capture_id() {
            let detail = match event.capture() {
                Some(_) => {
                    "the event was recorded in a graph capture; only the stream under capture can wait for it"
                }
                None => {
                    "the stream is under capture, and the event lies outside it; wait before the capture begins"
                }
            };
            return Err(Error::shape("Stream::wait", detail));
        }
        if !self.timeline().can_wait_for(event.driver()) {
            return event.synchronize();
        }
        let work = self.timeline().begin()?;
        self.core().driver.wait_event(work.stream, event.raw())
    }

    /// Work given from now on starts after the work that `other` has been given so far.
    pub fn wait_for(&self, other: &Stream) -> Result<()> {
        if Arc::ptr_eq(&self.lane, &other.lane) {
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

    /// Room for `len` values. Their content is whatever was there before.
    pub fn alloc<T: Plain>(&self, len: usize) -> Result<Buffer<T>> {
        let bytes = len
            .checked_mul(size_of::<T>())
            .ok_or_else(|| Error::shape("Stream::alloc", format!("{len} values overflow the address space")))?;
        let block = self.core().alloc(self.timeline(), bytes)?;
        // A graph keeps the memory that was allocated in its capture.
        self.timeline().begin()?.uses(&block);
        Ok(Buffer::from_block(block, len))
    }

    /// Refuses memory of another device.
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
