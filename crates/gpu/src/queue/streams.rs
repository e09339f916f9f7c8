//! The idle streams of a device: opening and closing one costs the driver more than a small piece of work.

use std::sync::Arc;

use crate::base::{Lock, Result};
use crate::drivers::{Driver, Raw};

/// The idle streams of a device.
pub(crate) struct StreamPool {
    driver: Arc<dyn Driver>,
    idle: Lock<Vec<Raw>>,
}

/// The most idle streams that are kept.
const MOST_IDLE: usize = 32;

impl StreamPool {
    pub(crate) fn new(driver: Arc<dyn Driver>) -> Arc<Self> {
        Arc::new(Self { driver, idle: Lock::default() })
    }

    pub(super) fn take(&self) -> Result<Raw> {
        let idle = self.idle.lock().pop();
        idle.map_or_else(|| self.driver.create_stream(), Ok)
    }

    /// Keeps a stream whose work is complete.
    pub(super) fn give(&self, stream: Raw) {
        let mut idle = self.idle.lock();
        if idle.len() < MOST_IDLE {
            idle.push(stream);
        } else {
            drop(idle);
            self.driver.destroy_stream(stream);
        }
    }

    /// Closes the idle streams.
    pub(crate) fn clear(&self) {
        let idle = std::mem::take(&mut *self.idle.lock());
        idle.into_iter().for_each(|stream| self.driver.destroy_stream(stream));
    }
}

impl Drop for StreamPool {
    fn drop(&mut self) {
        self.clear();
    }
}
