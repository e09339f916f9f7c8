//! Memory and streams of other libraries in the process (PyTorch, CuPy): theirs used here, ours used there.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use crate::arena::StreamSet;
use crate::buffer::{Block, Buffer};
use crate::device::Device;
use crate::driver::{DevicePtr, Driver, Raw};
use crate::error::Result;
use crate::properties::Kind;
use crate::stream::{Event, OpenStreams, Stream, Streams};

/// What keeps foreign memory: it is dropped once the memory is no longer used here.
pub(crate) type Owner = Box<dyn Any + Send + Sync>;

impl Device {
    /// A buffer over device memory that others own: `bytes` bytes from `address` on.
    ///
    /// The memory must be of this device: on CUDA the driver is asked, on the emulated device it must lie in a live
    /// buffer. It does not count as memory of the device's pool.
    ///
    /// `owner` is what keeps the memory. It is dropped after the last holder of the buffer (a part of it, a graph
    /// that refers to it) is gone *and* every stream that used the buffer has passed the work it had been given by
    /// then. Nobody waits for that: where a stream is still at work, the owner is put aside, and the next
    /// [`adopt`](Self::adopt), the next end of an adopted buffer and the next [`Stream::synchronize`] or
    /// [`Device::synchronize`] that finds the work done drops it, on the thread that makes that call. Closing the
    /// device waits for the rest.
    ///
    /// # Safety
    ///
    /// The memory stays allocated until `owner` is dropped. Whoever else writes to it, or reads it while this
    /// buffer is written to, is ordered with the streams here, as by [`Stream::wait_foreign`] and
    /// [`Stream::release_to`].
    pub unsafe fn adopt(
        &self,
        address: u64,
        bytes: usize,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Result<Buffer<u8>> {
        self.settle();
        let at = DevicePtr(address);
        if bytes > 0 {
            self.driver().check_foreign(at, bytes)?;
        }
        Ok(Buffer::from_block(Block::foreign(self.clone(), at, bytes, owner), bytes))
    }
}

impl Stream {
    /// CUDA's handle (`CUstream`) as an integer, for other libraries of the process. It is valid while the stream
    /// is open. On the emulated device it is a number that means nothing elsewhere.
    pub fn raw_handle(&self) -> u64 {
        self.raw().0
    }

    /// Work given to this stream from now on starts after what the foreign CUDA stream `handle` has been given so
    /// far: before memory that was written there is read here. 0 and 1 are the legacy default stream, 2 is the
    /// thread's own default stream.
    ///
    /// The emulated device does nothing: nothing of another library runs on it.
    ///
    /// # Safety
    ///
    /// `handle` is one of those numbers, or a live `CUstream` of this device's primary context.
    pub unsafe fn wait_foreign(&self, handle: u64) -> Result<()> {
        self.outside_capture("Stream::wait_foreign")?;
        if self.device().kind() != Kind::Cuda {
            return Ok(());
        }
        let event = Event::new(self.device().driver().clone(), false)?;
        self.device().driver().record_event(event.raw, Raw(handle))?;
        self.wait(&event)
    }

    /// Work given to the foreign CUDA stream `handle` from now on starts after what this stream has been given so
    /// far: before memory that was written here is read there. The numbers are those of
    /// [`wait_foreign`](Self::wait_foreign).
    ///
    /// The emulated device does nothing: its streams are idle when a call returns.
    ///
    /// # Safety
    ///
    /// As for [`wait_foreign`](Self::wait_foreign).
    pub unsafe fn release_to(&self, handle: u64) -> Result<()> {
        self.outside_capture("Stream::release_to")?;
        if self.device().kind() != Kind::Cuda {
            return Ok(());
        }
        let event = self.record()?;
        self.device().driver().wait_event(Raw(handle), event.raw)
    }
}

/// Owners of foreign memory whose buffers are gone, but whose streams may not be done.
#[derive(Default)]
pub(crate) struct Departures(Mutex<Vec<Departure>>);

struct Departure {
    /// Held only to be dropped.
    _owner: Owner,
    /// Streams that could not be marked yet, since they were under capture.
    unmarked: StreamSet,
    /// The ends of the work that may use the memory.
    marks: Vec<Event>,
}

impl Departures {
    pub(crate) fn add(&self, owner: Owner, streams: StreamSet) {
        let departure = Departure { _owner: owner, unmarked: streams, marks: Vec::new() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(departure);
    }

    /// Drops the owners whose streams are done.
    pub(crate) fn settle(&self, driver: &Arc<dyn Driver>, streams: &Streams) {
        let gone: Vec<Departure> = {
            let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if waiting.is_empty() {
                return;
            }
            streams.with(|open| waiting.iter_mut().for_each(|departure| departure.mark(driver, open)));
            waiting.extract_if(.., |departure| departure.is_done()).collect()
        };
        // Outside the locks: an owner may run any code when it goes.
        drop(gone);
    }

    /// Waits for all streams and drops all owners.
    pub(crate) fn finish(&self, driver: &dyn Driver, streams: &Streams) {
        let waiting = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if waiting.is_empty() {
            return;
        }
        // A stream that reports an error has ended its work all the same.
        streams.with(|open| open.of(StreamSet::MAX).for_each(|raw| drop(driver.synchronize(raw))));
        drop(waiting);
    }
}

impl Departure {
    /// Marks the streams that can be.
    fn mark(&mut self, driver: &Arc<dyn Driver>, open: OpenStreams<'_>) {
        let ready = self.unmarked & !open.capturing();
        for raw in open.of(ready) {
            let marked = Event::new(driver.clone(), false)
                .and_then(|event| driver.record_event(event.raw, raw).map(|()| event));
            match marked {
                Ok(event) => self.marks.push(event),
                // Without a mark only waiting helps; if that fails too, the device is lost and no work is left.
                Err(_) => drop(driver.synchronize(raw)),
            }
        }
        self.unmarked &= !ready;
    }

    /// A lost device has no work left.
    fn is_done(&self) -> bool {
        self.unmarked == 0 && self.marks.iter().all(|mark| mark.is_done().unwrap_or(true))
    }
}
