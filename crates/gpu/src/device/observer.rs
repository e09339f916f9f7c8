//! Observers of the work of devices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Device;
use crate::base::{Lock, Result};
use crate::queue::Timeline;

/// A copy of an exchange: from which device, to which, and its bytes.
pub(crate) type Sent<'a> = (&'a Device, &'a Device, usize);

/// An observer, which is told of the work of a device by the thread that submits it.
pub(crate) trait Observer: Send + Sync {
    /// The work from now on belongs to this phase.
    fn phase(&self, name: &'static str);
    /// Work is about to be submitted to a stream.
    fn working(&self, device: &Device, timeline: &Arc<Timeline>) -> Result<()>;
    /// The host has waited for the device.
    fn waited(&self, device: &Device) -> Result<()>;
    /// Copies between devices are about to be submitted.
    fn sending(&self) -> Result<()>;
    /// The copies are submitted. Returns the exchange's number.
    fn sent(&self, copies: &[Sent<'_>]) -> Result<usize>;
    /// The devices' later work starts after this exchange.
    fn joined(&self, exchange: usize) -> Result<()>;
}

/// The observer of a device, if there is one.
#[derive(Default)]
pub(super) struct Observed {
    is_there: AtomicBool,
    observer: Lock<Option<Arc<dyn Observer>>>,
}

impl Observed {
    pub(super) fn set(&self, observer: Option<Arc<dyn Observer>>) {
        let mut place = self.observer.lock();
        self.is_there.store(observer.is_some(), Ordering::Release);
        *place = observer;
    }

    /// The observer: nearly always `None`, which costs one load.
    pub(super) fn get(&self) -> Option<Arc<dyn Observer>> {
        if self.is_there.load(Ordering::Acquire) { self.observer.lock().clone() } else { None }
    }
}
