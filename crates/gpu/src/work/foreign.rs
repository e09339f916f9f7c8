//! Memory and streams of other libraries in the process (PyTorch, CuPy): theirs used here, ours used there.

use std::any::Any;
use std::sync::Arc;

use crate::base::{Kind, Result};
use crate::device::Device;
use crate::drivers::{DevicePtr, Raw};
use crate::memory::{Block, Buffer};
use crate::work::Stream;

impl Device {
    /// A buffer over device memory that others own: `bytes` bytes from `address` on.
    ///
    /// The memory must be of this device: on CUDA the driver is asked, on the emulated device it must lie in a live
    /// buffer. It does not count as memory of the device's pool.
    ///
    /// `owner` is what keeps the memory. It is dropped after the last holder of the buffer (a part of it, a graph
    /// that refers to it) is gone *and* the work that uses the buffer is complete. Nobody waits for that: where a
    /// stream is still at work, the owner is set aside, and a later call (the next end of an adopted buffer, the next
    /// [`Stream::synchronize`] or [`Device::synchronize`]) drops it on its own thread.
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
        self.core().settle();
        let at = DevicePtr(address);
        if bytes > 0 {
            self.core().driver.check_foreign(at, bytes)?;
        }
        Ok(Buffer::from_block(Arc::new(Block::foreign(self.core().clone(), at, bytes, owner)), bytes))
    }
}

const REASON: &str = "streams of other libraries can't take part";

impl Stream {
    /// CUDA's handle (`CUstream`) as an integer, for other libraries of the process. It is valid while the stream
    /// is open. On the emulated device it is a number that means nothing elsewhere.
    pub fn raw_handle(&self) -> u64 {
        self.lane().raw().0
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
        self.outside_capture("Stream::wait_foreign", REASON)?;
        if self.device().kind() != Kind::Cuda {
            return Ok(());
        }
        self.timeline().wait_for_foreign(Raw(handle))
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
        self.outside_capture("Stream::release_to", REASON)?;
        if self.device().kind() != Kind::Cuda {
            return Ok(());
        }
        let event = self.record()?;
        self.core().driver.wait_event(Raw(handle), event.raw())
    }
}
