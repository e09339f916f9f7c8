//! Memory that comes back from other libraries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::{Lock, Result};
use crate::memory::Block;
use crate::queue::Timeline;

/// Memory that other libraries have given back, until the driver says when their work on it ends.
#[derive(Default)]
pub(crate) struct Returned {
    any: AtomicBool,
    blocks: Lock<Vec<Arc<Block>>>,
}

impl Returned {
    pub(crate) fn add(&self, block: &Arc<Block>) {
        let mut blocks = self.blocks.lock();
        if !blocks.iter().any(|other| Arc::ptr_eq(other, block)) {
            blocks.push(block.clone());
        }
        self.any.store(true, Ordering::Release);
    }

    /// Makes later work of a stream start after the other libraries' work, which then counts as a use of all blocks. If
    /// the driver can't do that now, the blocks stay, and work that uses one of them fails.
    pub(crate) fn order_before<'a>(
        &self,
        timeline: &Arc<Timeline>,
        mut used: impl Iterator<Item = &'a Arc<Block>>,
    ) -> Result<()> {
        if !self.any.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut blocks = self.blocks.lock();
        match timeline.wait_for_all(&blocks) {
            Ok(()) => {
                self.any.store(false, Ordering::Release);
                let ordered = std::mem::take(&mut *blocks);
                drop(blocks);
                drop(ordered);
                Ok(())
            }
            Err(error) if used.any(|block| blocks.iter().any(|other| Arc::ptr_eq(other, block))) => Err(error),
            Err(_) => Ok(()),
        }
    }

    /// Leaves the memory to the process if nothing tells when the other libraries' work on it ends.
    pub(crate) fn close(&self, timeline: Option<&Arc<Timeline>>) {
        if let Some(timeline) = timeline {
            let _ = self.order_before(timeline, std::iter::empty());
        }
        std::mem::forget(std::mem::take(&mut *self.blocks.lock()));
    }
}
