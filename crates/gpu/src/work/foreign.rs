//! Sharing memory and streams with other libraries in the process (PyTorch, CuPy), in both directions.

use std::any::Any;
use std::sync::Arc;

use crate::base::{DeviceKind, Error, Plain, Result};
use crate::device::Device;
use crate::drivers::{DevicePtr, Raw};
use crate::memory::{Block, Buffer, View, same_device};
use crate::work::Stream;

impl Device {
    /// A buffer over device memory that another library owns: `bytes` bytes from `address` on.
    ///
    /// The memory must belong to this device: on CUDA the driver is queried, on the emulated device the range must
    /// lie in a live buffer. It does not count towards the statistics of the device's pool. A device that is opened
    /// once more (`cuda:0#1`) has a context that other libraries do not know, and is refused.
    ///
    /// `owner` keeps the memory allocated. It is dropped after the last reference to the buffer (a part of it, a
    /// graph that uses it) is dropped *and* the work that uses the buffer is complete. This does not block: while
    /// a stream is still working, the owner is queued, and a later call (the next drop of an adopted buffer, the
    /// next [`Stream::synchronize`] or [`Device::synchronize`]) drops it on its own thread.
    ///
    /// # Safety
    ///
    /// The memory stays allocated until `owner` is dropped. Other code that writes to it, or reads it while this
    /// buffer is written to, is ordered with the streams here, for example by [`Stream::wait_foreign`] and
    /// [`Stream::release_to`].
    pub unsafe fn adopt(
        &self,
        address: u64,
        bytes: usize,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Result<Buffer<u8>> {
        refuse_own_context(self, "Device::adopt")?;
        self.core().settle();
        let at = DevicePtr(address);
        if bytes > 0 {
            self.core().driver.check_foreign(at, bytes)?;
        }
        Ok(Buffer::from_block(Arc::new(Block::foreign(self.core().clone(), at, bytes, owner)), bytes))
    }

    /// Takes memory back that another library has used, and that it does not need any more: everything that any library
    /// has given the device to do until the device's next work counts as a use of the memory. So it is reused only
    /// after that, and that next work starts after it, too. Then, and not now, the driver is asked, because it can't
    /// be while somebody captures a graph: a program that captures with another library may drop what it got from
    /// here meanwhile.
    ///
    /// Work that uses the memory then has to be ordered with the [compute stream](Self::compute), as by
    /// [`Stream::wait_for_uses`]: that stream is the one that has waited.
    ///
    /// Unlike [`Stream::wait_foreign`] it needs no handle: the other library's stream may be gone.
    pub fn reclaim<'a, T: Plain>(&self, memory: impl Into<View<'a, T>>) -> Result<()> {
        const NAME: &str = "Device::reclaim";
        let memory = memory.into();
        refuse_own_context(self, NAME)?;
        same_device(NAME, self.core(), memory.block().core())?;
        self.give_back(memory.block())
    }
}

/// Other libraries work in the primary context of a device. In another one, the handles of default streams name other
/// streams, so that nothing would be ordered.
fn refuse_own_context(device: &Device, operation: &'static str) -> Result<()> {
    let properties = device.properties();
    if properties.context == 0 {
        return Ok(());
    }
    let first = format!("{}:{}", properties.kind, properties.ordinal);
    Err(Error::shape(
        operation,
        format!("{device} has a context of its own, which other libraries do not share; open {first} instead"),
    ))
}

const REASON: &str = "a capture can't be ordered with streams of other libraries";

impl Stream {
    /// The CUDA handle (`CUstream`) as an integer, for other libraries in the process. It is valid while the
    /// stream is open. On the emulated device it is an opaque number.
    ///
    /// Launches that were gathered are submitted, and from now on the stream's launches are not gathered, because
    /// another library could not wait for them. [`Device::interop_lane`] is there for this.
    pub fn raw_handle(&self) -> u64 {
        self.timeline().share();
        self.lane().raw().0
    }

    /// Makes work submitted to this stream from now on start after the work submitted so far to the foreign CUDA
    /// stream `handle`. Call it before reading memory that was written there. 0 and 1 are the legacy default
    /// stream, 2 is the per-thread default stream.
    ///
    /// It does nothing on the emulated device, because no other library runs work on it. A device that is opened once
    /// more (`cuda:0#1`) is refused: other libraries do not share its context.
    ///
    /// # Safety
    ///
    /// `handle` is one of those numbers, or a live `CUstream` of this device's primary context that is not being
    /// captured.
    pub unsafe fn wait_foreign(&self, handle: u64) -> Result<()> {
        self.outside_capture("Stream::wait_foreign", REASON)?;
        refuse_own_context(self.device(), "Stream::wait_foreign")?;
        if self.device().kind() != DeviceKind::Cuda {
            return Ok(());
        }
        self.timeline().wait_for_foreign(Raw(handle))
    }

    /// Makes work submitted to the foreign CUDA stream `handle` from now on start after the work submitted so far
    /// to this stream. Call it before memory that was written here is read there. Handles, and devices that are
    /// refused, are those of [`wait_foreign`](Self::wait_foreign).
    ///
    /// Launches of this stream that were gathered are submitted, and it fails if that fails. Whether earlier work has
    /// failed that wrote the memory is told by [`wait_for_uses`](Self::wait_for_uses). Otherwise it does nothing on the
    /// emulated device, whose streams are idle when a call returns.
    ///
    /// # Safety
    ///
    /// As for [`wait_foreign`](Self::wait_foreign).
    pub unsafe fn release_to(&self, handle: u64) -> Result<()> {
        self.outside_capture("Stream::release_to", REASON)?;
        refuse_own_context(self.device(), "Stream::release_to")?;
        if self.device().kind() != DeviceKind::Cuda {
            return self.timeline().begin()?.stream().map(drop);
        }
        let event = self.record()?;
        self.core().driver.wait_event(Raw(handle), event.raw())
    }
}
