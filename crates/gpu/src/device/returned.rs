//! Memory that comes back from other libraries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::{Error, Lock, Result};
use crate::memory::Block;
use crate::queue::{Origin, Timeline};

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

    /// Makes later work of a stream, and of the device's stream for kernels, start after the other libraries' work,
    /// which then counts as a use of all blocks on the latter: whoever waits for the uses of a block waits for it. If
    /// the driver can't do that now, the blocks stay, and work that uses one of them, given by their addresses, fails.
    pub(crate) fn order_before(
        &self,
        compute: &Arc<Timeline>,
        later: &Arc<Timeline>,
        mut used: impl Iterator<Item = *const ()>,
    ) -> Result<()> {
        if !self.any.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut blocks = self.blocks.lock();
        if blocks.is_empty() {
            return Ok(());
        }
        match compute.wait_for_all(&blocks) {
            Ok(at) => {
                self.any.store(false, Ordering::Release);
                let ordered = std::mem::take(&mut *blocks);
                drop(blocks);
                drop(ordered);
                Origin::of(compute, at).order_before(later)
            }
            Err(error) if used.any(|at| blocks.iter().any(|block| Arc::as_ptr(block).cast() == at)) => Err(error),
            Err(error) => {
                if matches!(error, Error::DeviceLost { .. }) {
                    // Nobody works there any more.
                    let lost = std::mem::take(&mut *blocks);
                    drop(blocks);
                    drop(lost);
                }
                Ok(())
            }
        }
    }

    /// Leaves the memory to the process if nothing tells when the other libraries' work on it ends.
    pub(crate) fn close(&self, compute: Option<&Arc<Timeline>>) {
        if let Some(compute) = compute {
            let _ = self.order_before(compute, compute, std::iter::empty());
        }
        std::mem::forget(std::mem::take(&mut *self.blocks.lock()));
    }
}

#[cfg(test)]
mod tests {
    use crate::device::{Device, Options};
    use crate::queue::Resource;
    use crate::queue::scripted::Scripted;

    #[test]
    fn kernels_wait_for_memory_that_another_stream_took_back() {
        let driver = Scripted::new();
        let device = Device::with_driver(driver.clone(), Options::from_env().unwrap());
        let (compute, other) = (device.compute().unwrap(), device.new_stream().unwrap());
        let x = compute.alloc::<u8>(256).unwrap();
        device.reclaim(&x).unwrap();
        driver.waiting.lock().clear();
        drop(other.alloc::<u8>(256).unwrap());
        let waiting = std::mem::take(&mut *driver.waiting.lock());
        assert_eq!(waiting, [&compute, &other].map(|stream| stream.raw_handle()).map(crate::drivers::Raw));
        assert!(x.view().block().usage().lock().uses.are_pending(), "the other library's work may be running");
        drop(other.alloc::<u8>(256).unwrap());
        assert!(driver.waiting.lock().is_empty(), "once");
    }

    #[test]
    fn memory_that_cannot_be_taken_back_now_is_not_used() {
        let driver = Scripted::new();
        let device = Device::with_driver(driver.clone(), Options::from_env().unwrap());
        let stream = device.compute().unwrap();
        let (mut x, mut y) = (stream.zeros::<u8>(256).unwrap(), stream.zeros::<u8>(256).unwrap());
        device.reclaim(&x).unwrap();
        driver.fail_waits(true);
        stream.fill_bytes(&mut y, 1).unwrap();
        assert!(stream.fill_bytes(&mut x, 1).is_err());
        driver.fail_waits(false);
        stream.fill_bytes(&mut x, 1).unwrap();
    }
}
