//! Copies between devices, synchronous or asynchronous.

use std::thread::{self, JoinHandle};

use rigel_gpu::{Event, Route, Stream};

use crate::array::Array;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::evaluate::{device_memory, host_memory};
use crate::layout::Layout;
use crate::memory::Memory;

impl Array {
    /// The array on a device: itself if it is there, or a copy. The call returns when the host's part is done; on
    /// the device, the copy precedes all work that is enqueued later.
    pub fn to(&self, device: &Device) -> Result<Self> {
        if self.device() == *device {
            return Ok(self.clone());
        }
        let whole = self.contiguous()?;
        let there = || Self::alloc(whole.shape(), whole.dtype, device);
        match (whole.device(), device) {
            (Device::Cpu, Device::Gpu(to)) => {
                let there = there()?;
                upload(&to.compute()?, &whole, &there)?;
                Ok(there)
            }
            (Device::Gpu(from), Device::Cpu) => {
                let there = there()?;
                download(&from.compute()?, &whole, &there)?;
                Ok(there)
            }
            (Device::Gpu(from), Device::Gpu(to)) => {
                // Gather a part first, so that only its elements are transferred.
                let whole = if whole.bytes() == whole.memory.bytes() { whole } else { whole.copy()? };
                let memory = device_memory(&whole).writable();
                let copied = memory.to_device(&from.compute()?, &to.compute()?, Route::Auto)?;
                Ok(Self::new(Memory::from_buffer(copied), Layout::contiguous(whole.shape()), whole.dtype))
            }
            (Device::Cpu, Device::Cpu) => unreachable!("the same device"),
        }
    }

    /// Starts a copy to another device on its own stream and returns immediately; kernels overlap it.
    /// [`Pending::wait`] returns the array, with the content of this one at the time of the call.
    ///
    /// An assignment to the host memory waits until the copy has read it. Other libraries that share the memory
    /// (NumPy) must wait themselves. A copy from a device first copies within the device.
    ///
    /// ```
    /// # use rigel_array::{Array, Device};
    /// let a = Array::full(&[1 << 16], 2.0, &Device::Cpu)?;
    /// let pending = a.send(&Device::open("emulated")?)?;
    /// // .. work on other arrays ..
    /// let there = pending.wait()?;
    /// assert_eq!(there.sum(..)?.to_vec::<f64>()?, [131072.0]);
    /// # Ok::<(), rigel_array::Error>(())
    /// ```
    pub fn send(&self, device: &Device) -> Result<Pending> {
        let (locked, is_locked) = std::sync::mpsc::sync_channel(1);
        let whole = if self.device().is_cpu() { self.contiguous()? } else { self.copy()? };
        let work: Box<dyn FnOnce() -> Result<Arrival> + Send> = match (self.device(), device) {
            (from, to) if from == *to => return Ok(Pending(State::Here(whole))),
            (Device::Cpu, Device::Gpu(to)) => {
                let to = to.clone();
                Box::new(move || {
                    let lane = to.upload_lane()?;
                    let memory = Memory::from_buffer(lane.alloc(whole.bytes())?);
                    let there = Self::new(memory, Layout::contiguous(whole.shape()), whole.dtype);
                    let range = whole.byte_range();
                    host_memory(&whole).read(|bytes| {
                        // The receiver may be gone.
                        let _ = locked.send(());
                        lane.write(&mut *device_memory(&there).writable(), &bytes[range])
                    })?;
                    let event = lane.record()?;
                    Ok(Arrival { array: there, event: Some(event) })
                })
            }
            (Device::Gpu(from), Device::Cpu) => {
                // The copy waits for the work enqueued so far, but not for later work.
                drop(locked);
                let (lane, before) = (from.download_lane()?, from.compute()?.record()?);
                lane.wait(&before)?;
                Box::new(move || {
                    let there = Self::alloc(whole.shape(), whole.dtype, &Device::Cpu)?;
                    download(&lane, &whole, &there)?;
                    Ok(Arrival { array: there, event: None })
                })
            }
            _ => return Ok(Pending(State::Here(self.to(device)?))),
        };
        let thread = thread::Builder::new().name("rigel-copy".into()).spawn(work);
        let thread = thread.map_err(|error| Error::shape(format!("send: could not start a thread: {error}")))?;
        // Wait until the thread has locked the memory, or does not need to.
        let _ = is_locked.recv();
        Ok(Pending(State::Travelling(thread)))
    }
}

/// A copy in progress.
pub struct Pending(State);

enum State {
    Here(Array),
    Travelling(JoinHandle<Result<Arrival>>),
}

struct Arrival {
    array: Array,
    /// The event that is recorded on the device after the copy.
    event: Option<Event>,
}

impl Pending {
    /// Whether the host's part of the copy is done, so that [`wait`](Self::wait) returns immediately.
    pub fn is_ready(&self) -> bool {
        match &self.0 {
            State::Here(_) => true,
            State::Travelling(thread) => thread.is_finished(),
        }
    }

    /// Returns the array. Waits for the host's part of the copy; work that is enqueued on the device from now on
    /// waits for the rest.
    pub fn wait(self) -> Result<Array> {
        let thread = match self.0 {
            State::Here(array) => return Ok(array),
            State::Travelling(thread) => thread,
        };
        let arrival = thread.join().map_err(|_| Error::shape("send: the copying thread panicked"))??;
        if let (Some(event), Device::Gpu(device)) = (&arrival.event, arrival.array.device()) {
            device.compute()?.wait(event)?;
        }
        Ok(arrival.array)
    }
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_ready() { "Pending(ready)" } else { "Pending(in progress)" })
    }
}

fn upload(stream: &Stream, from: &Array, to: &Array) -> Result<()> {
    let range = from.byte_range();
    host_memory(from).read(|bytes| stream.write(&mut *device_memory(to).writable(), &bytes[range]))?;
    Ok(())
}

fn download(stream: &Stream, from: &Array, to: &Array) -> Result<()> {
    let range = from.byte_range();
    let source = device_memory(from).view().range(range)?;
    host_memory(to).write(|bytes| stream.read(source, &mut bytes[..from.bytes()]))?;
    Ok(())
}
