//! Events, and a pool of them: creating an event costs more than recording it.

use std::sync::Arc;

use super::Timeline;
use crate::base::{Error, Lock, Result};
use crate::drivers::{Driver, Raw};

/// The idle events of a device.
pub(crate) struct EventPool {
    driver: Arc<dyn Driver>,
    /// Index 0: without timing; index 1: with timing.
    idle: [Lock<Vec<Raw>>; 2],
}

/// Maximum number of idle events that are kept of each kind.
const MOST_IDLE: usize = 512;

impl EventPool {
    pub(crate) fn new(driver: Arc<dyn Driver>) -> Arc<Self> {
        Arc::new(Self { driver, idle: Default::default() })
    }

    pub(super) fn take(self: &Arc<Self>, timing: bool) -> Result<PooledEvent> {
        let idle = self.idle[usize::from(timing)].lock().pop();
        let raw = match idle {
            Some(raw) => raw,
            None => self.driver.create_event(timing)?,
        };
        Ok(PooledEvent { pool: self.clone(), raw, timing, reusable: true })
    }
}

impl Drop for EventPool {
    fn drop(&mut self) {
        for raw in self.idle.iter_mut().flat_map(|idle| std::mem::take(idle.get_mut())) {
            self.driver.destroy_event(raw);
        }
    }
}

/// A driver event that returns to its pool when dropped.
pub(crate) struct PooledEvent {
    pool: Arc<EventPool>,
    pub(super) raw: Raw,
    pub(super) timing: bool,
    /// False for an event recorded in a capture: it is part of the graph and can't be recorded again.
    pub(super) reusable: bool,
}

impl PooledEvent {
    pub(super) fn is_done(&self) -> Result<bool> {
        self.pool.driver.event_done(self.raw)
    }

    pub(super) fn synchronize(&self) -> Result<()> {
        self.pool.driver.synchronize_event(self.raw)
    }
}

impl Drop for PooledEvent {
    fn drop(&mut self) {
        let mut idle = self.pool.idle[usize::from(self.timing)].lock();
        if self.reusable && idle.len() < MOST_IDLE {
            idle.push(self.raw);
        } else {
            drop(idle);
            self.pool.driver.destroy_event(self.raw);
        }
    }
}

/// A point in a stream's work.
pub struct Event {
    pub(super) event: Arc<PooledEvent>,
    pub(super) timeline: Arc<Timeline>,
    /// The number of the last work before the event.
    pub(super) at: u64,
    /// The capture in which the event was recorded, if any.
    pub(super) capture: Option<u64>,
}

impl Event {
    /// Whether the stream has reached the event.
    pub fn is_done(&self) -> Result<bool> {
        self.outside_capture("Event::is_done")?;
        let done = self.timeline.noting_loss(self.event.is_done())?;
        if done {
            self.timeline.completed(self.at);
        }
        Ok(done)
    }

    /// Blocks the host until the stream has reached the event.
    pub fn synchronize(&self) -> Result<()> {
        self.outside_capture("Event::synchronize")?;
        self.timeline.noting_loss(self.event.synchronize())?;
        self.timeline.completed(self.at);
        Ok(())
    }

    /// Whether the host has seen already that the stream has reached the event.
    pub(crate) fn is_known_complete(&self) -> bool {
        self.capture.is_none() && self.timeline.is_known_complete(self.at)
    }

    /// Milliseconds from `start` to this event. Both must come from `Stream::record_time` on streams of the same
    /// device, and both must be complete.
    pub fn since(&self, start: &Event) -> Result<f32> {
        const NAME: &str = "Event::since";
        self.outside_capture(NAME)?;
        start.outside_capture(NAME)?;
        let (driver, theirs) = (&self.event.pool.driver, &start.event.pool.driver);
        if !Arc::ptr_eq(driver, theirs) {
            let [expected, found] = [driver, theirs].map(|driver| driver.properties().to_string());
            return Err(Error::WrongDevice { operation: NAME.into(), expected, found });
        }
        if !(self.event.timing && start.event.timing) {
            return Err(Error::shape(NAME, "an event has no timestamp; record both with Stream::record_time"));
        }
        driver.elapsed(start.event.raw, self.event.raw)
    }

    /// Whether both are the same event of the driver.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.event, &other.event)
    }

    pub(crate) fn driver(&self) -> &Arc<dyn Driver> {
        &self.event.pool.driver
    }

    pub(crate) fn raw(&self) -> Raw {
        self.event.raw
    }

    pub(crate) fn capture(&self) -> Option<u64> {
        self.capture
    }

    fn outside_capture(&self, operation: &'static str) -> Result<()> {
        match self.capture {
            None => Ok(()),
            Some(_) => {
                Err(Error::shape(operation, "the event was recorded in a graph capture and has no timestamp"))
            }
        }
    }
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Event({:#x} after work {})", self.event.raw.0, self.at)
    }
}
