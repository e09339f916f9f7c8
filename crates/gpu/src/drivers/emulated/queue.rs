//! Streams, events and copies. Work runs synchronously on the calling thread, so a stream is always idle when a
//! call returns.
//!
//! Errors therefore come from the call that caused them, and tests are deterministic. The price is that code which
//! forgets to wait passes here. Tests on a GPU find it, and the layers above the driver are tested with a scripted
//! driver, whose work is complete when the test says so (`queue/scripted.rs`).

use std::time::Instant;

use super::device::Device;
use super::graph::{Operation, Stream};
use crate::base::{Lock, Result};
use crate::drivers::{CopyDriver, DevicePtr, QueueDriver, Raw};

pub(super) struct Event {
    timing: bool,
    recorded: Lock<Option<Instant>>,
}

impl QueueDriver for Device {
    fn create_stream(&self) -> Result<Raw> {
        Ok(self.streams.add(Lock::default()))
    }

    fn destroy_stream(&self, stream: Raw) {
        self.streams.remove(stream);
    }

    fn synchronize(&self, stream: Raw) -> Result<()> {
        self.answers("synchronizing")?;
        self.forbid_recording(stream, "synchronizing")
    }

    fn wait_event(&self, stream: Raw, event: Raw) -> Result<()> {
        self.events.get(event)?;
        // SAFETY: an event has no addresses.
        unsafe { self.submit(stream, Operation::Event) }
    }

    fn create_event(&self, timing: bool) -> Result<Raw> {
        Ok(self.events.add(Event { timing, recorded: Lock::default() }))
    }

    fn destroy_event(&self, event: Raw) {
        self.events.remove(event);
    }

    fn record_event(&self, event: Raw, stream: Raw) -> Result<()> {
        let event = self.events.get(event)?;
        // SAFETY: an event has no addresses.
        unsafe { self.submit(stream, Operation::Event) }?;
        if matches!(*self.streams.get(stream)?.lock(), Stream::Runs) {
            *event.recorded.lock() = Some(Instant::now());
        }
        Ok(())
    }

    fn record_context(&self, event: Raw) -> Result<()> {
        *self.events.get(event)?.recorded.lock() = Some(Instant::now());
        Ok(())
    }

    fn event_done(&self, event: Raw) -> Result<bool> {
        self.answers("asking for an event")?;
        self.events.get(event).map(|_| true)
    }

    fn synchronize_event(&self, event: Raw) -> Result<()> {
        self.answers("waiting for an event")?;
        self.events.get(event).map(|_| ())
    }

    fn elapsed(&self, start: Raw, end: Raw) -> Result<f32> {
        let time = |event: Raw| {
            let event = self.events.get(event)?;
            let recorded = *event.recorded.lock();
            recorded
                .filter(|_| event.timing)
                .ok_or_else(|| self.failed("timing", "an event was not recorded, or was created without timing"))
        };
        let (start, end) = (time(start)?, time(end)?);
        let sign = if end >= start { 1.0 } else { -1.0 };
        Ok(sign * (end.max(start) - start.min(end)).as_secs_f32() * 1e3)
    }
}

impl CopyDriver for Device {
    unsafe fn upload(&self, stream: Raw, to: DevicePtr, from: *const u8, bytes: usize) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.submit(stream, Operation::Copy { to: to.0 as usize, from: from as usize, bytes }) }
    }

    unsafe fn download(&self, stream: Raw, to: *mut u8, from: DevicePtr, bytes: usize) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.submit(stream, Operation::Copy { to: to as usize, from: from.0 as usize, bytes }) }
    }

    unsafe fn copy(&self, stream: Raw, to: DevicePtr, from: DevicePtr, bytes: usize) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.submit(stream, Operation::Copy { to: to.0 as usize, from: from.0 as usize, bytes }) }
    }

    unsafe fn fill(&self, stream: Raw, to: DevicePtr, byte: u8, bytes: usize) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.submit(stream, Operation::Fill { to: to.0 as usize, byte, bytes }) }
    }
}

impl Device {
    /// Runs the operation, or records it if the stream is under capture.
    ///
    /// # Safety
    ///
    /// The operation's addresses and arguments are valid now or, in a capture, when the graph is launched.
    pub(super) unsafe fn submit(&self, stream: Raw, operation: Operation) -> Result<()> {
        let stream = self.streams.get(stream)?;
        let mut stream = stream.lock();
        match &mut *stream {
            // SAFETY: guaranteed by the caller.
            Stream::Runs => unsafe { self.run(&operation) },
            Stream::Records(graph) => {
                graph.push(operation);
                Ok(())
            }
            Stream::Spoiled(why) => Err(self.failed("recording", *why)),
        }
    }

    /// Invalidates the capture and returns an error, if the stream is under capture.
    fn forbid_recording(&self, stream: Raw, operation: &'static str) -> Result<()> {
        let stream = self.streams.get(stream)?;
        let mut stream = stream.lock();
        if matches!(*stream, Stream::Runs) {
            return Ok(());
        }
        *stream = Stream::Spoiled("the capture is invalid: the host can't wait for a stream under capture");
        Err(self.failed(operation, "the stream is under capture, so there is nothing to wait for"))
    }
}
