//! Blocks: what is allocated and freed, and the work that uses it.

use std::any::Any;
use std::sync::Arc;

use super::core::Core;
use crate::base::{Lock, Result};
use crate::drivers::DevicePtr;
use crate::queue::{Origin, Resource, Timeline, Usage, Uses};

/// A block of device memory, freed when the last reference (from a buffer or a graph) is dropped.
pub(crate) struct Block {
    core: Arc<Core>,
    at: DevicePtr,
    bytes: usize,
    usage: Lock<Usage>,
    origin: Option<Origin>,
    /// The object that keeps the memory allocated, if another library allocated it.
    owner: Option<Box<dyn Any + Send + Sync>>,
}

impl Block {
    /// A block of the arena, with earlier work that may still use it.
    pub(super) fn new(core: Arc<Core>, at: DevicePtr, bytes: usize, uses: Uses) -> Self {
        Self { core, at, bytes, usage: Lock::new(Usage::used(uses)), origin: None, owner: None }
    }

    /// Memory that was not allocated from the arena.
    pub(crate) fn foreign(
        core: Arc<Core>,
        at: DevicePtr,
        bytes: usize,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Self {
        Self { core, at, bytes, usage: Lock::default(), origin: None, owner: Some(owner) }
    }

    /// Sets the point after which other streams may use the memory.
    pub(super) fn starts_at(&mut self, origin: Origin) {
        self.origin = Some(origin);
    }

    pub(super) fn at(&self) -> DevicePtr {
        self.at
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Makes later work of `timeline` start after earlier uses of the memory.
    pub(super) fn order_before(&self, timeline: &Arc<Timeline>) -> Result<()> {
        // Without the lock: a thread that submits work holds its timeline's lock when it takes this one.
        let mut uses = self.usage.lock().uses.clone();
        uses.order_before(timeline)?;
        self.usage.lock().uses = uses;
        Ok(())
    }

    /// Makes later work of `timeline`, which only reads, start after earlier uses of the memory. They remain its uses:
    /// other streams need not wait for the reader.
    pub(crate) fn order_reader(&self, timeline: &Arc<Timeline>) -> Result<()> {
        let mut uses = self.usage.lock().uses.clone();
        uses.order_before(timeline)?;
        self.usage.lock().check_written()
    }
}

impl Resource for Block {
    fn usage(&self) -> &Lock<Usage> {
        &self.usage
    }

    fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let uses = std::mem::take(&mut self.usage.get_mut().uses);
        match self.owner.take() {
            None => self.core.free(self.at, self.bytes, uses),
            Some(owner) => self.core.retire(owner, uses),
        }
    }
}
