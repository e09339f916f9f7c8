//! Page-locked host memory, which the device's copy engines reach directly, kept in a pool: locking a page costs
//! more than copying it.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::arena::PoolStats;
use crate::device::Device;
use crate::driver::Driver;
use crate::error::Result;
use crate::plain::Plain;
use crate::stream::Event;

/// The smallest block the pool hands out, in bytes.
const SMALLEST: usize = 64 << 10;

/// The pinned memory of one device, in blocks of powers of two.
pub(crate) struct PinnedPool {
    driver: Arc<dyn Driver>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Free blocks by the logarithm of their size.
    free: Vec<Vec<PinnedBlock>>,
    stats: PoolStats,
}

/// A block of pinned memory and the copy that may still be using it.
pub(crate) struct PinnedBlock {
    at: NonNull<u8>,
    bytes: usize,
    busy: Option<Event>,
}

// SAFETY: the block is memory owned by its holder; nothing about it is tied to a thread.
unsafe impl Send for PinnedBlock {}
// SAFETY: shared access only reads the address.
unsafe impl Sync for PinnedBlock {}

impl PinnedBlock {
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    /// Waits until no copy uses the block.
    pub(crate) fn wait(&mut self) -> Result<()> {
        match self.busy.take() {
            Some(event) => event.synchronize(),
            None => Ok(()),
        }
    }

    /// Notes that a copy uses the block until `event`.
    pub(crate) fn busy_until(&mut self, event: Event) {
        self.busy = Some(event);
    }
}

impl PinnedPool {
    pub(crate) fn new(driver: Arc<dyn Driver>) -> Self {
        Self { driver, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while the lock is held")
    }

    pub(crate) fn stats(&self) -> PoolStats {
        self.state().stats
    }

    /// A block of at least `bytes` that no copy uses.
    pub(crate) fn take(&self, bytes: usize) -> Result<PinnedBlock> {
        let size = bytes.max(SMALLEST).next_power_of_two();
        let class = size.trailing_zeros() as usize;
        let found = {
            let mut state = self.state();
            if state.free.len() <= class {
                state.free.resize_with(class + 1, Vec::new);
            }
            let blocks = &mut state.free[class];
            // The block returned longest ago is the likeliest to be idle.
            let found = (!blocks.is_empty()).then(|| blocks.remove(0));
            match found {
                Some(_) => state.stats.hits += 1,
                None => {
                    state.stats.misses += 1;
                    state.stats.driver_calls += 1;
                }
            }
            state.stats.in_use += size;
            state.stats.peak = state.stats.peak.max(state.stats.in_use);
            found
        };
        let mut block = match found {
            Some(block) => block,
            None => match self.driver.alloc_pinned(size) {
                Ok(at) => {
                    self.state().stats.held += size;
                    PinnedBlock { at, bytes: size, busy: None }
                }
                Err(error) => {
                    self.state().stats.in_use -= size;
                    return Err(error);
                }
            },
        };
        match block.wait() {
            Ok(()) => Ok(block),
            Err(error) => {
                self.give(block);
                Err(error)
            }
        }
    }

    pub(crate) fn give(&self, block: PinnedBlock) {
        let mut state = self.state();
        state.stats.in_use -= block.bytes;
        state.free[block.bytes.trailing_zeros() as usize].push(block);
    }
}

impl Drop for PinnedPool {
    fn drop(&mut self) {
        let state = self.state.get_mut().expect("no panic while the lock is held");
        for mut block in state.free.drain(..).flatten() {
            let _ = block.wait();
            self.driver.free_pinned(block.at, block.bytes);
        }
    }
}

/// `len` values of `T` in page-locked host memory: the source or target of copies that overlap other work.
///
/// Made by [`Device::pinned`]. Reading or writing it from the host first waits for copies under way.
pub struct PinnedBuffer<T: Plain> {
    device: Device,
    /// Present until the drop.
    block: Option<PinnedBlock>,
    len: usize,
    of: PhantomData<T>,
}

impl<T: Plain> PinnedBuffer<T> {
    pub(crate) fn new(device: Device, len: usize) -> Result<Self> {
        let block = device.pinned_pool().take(len * size_of::<T>())?;
        // SAFETY: the block has room for `len` values and belongs to us; zero is a valid plain value.
        unsafe { block.as_ptr().write_bytes(0, len * size_of::<T>()) };
        Ok(Self { device, block: Some(block), len, of: PhantomData })
    }

    pub(crate) fn block_mut(&mut self) -> &mut PinnedBlock {
        self.block.as_mut().expect("present until the drop")
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The values, once copies under way are done.
    pub fn as_slice(&mut self) -> Result<&[T]> {
        Ok(self.as_mut_slice()?)
    }

    /// The values for writing, once copies under way are done.
    pub fn as_mut_slice(&mut self) -> Result<&mut [T]> {
        let len = self.len;
        let block = self.block_mut();
        block.wait()?;
        // SAFETY: the block holds `len` initialised plain values, is aligned to at least a page, and is borrowed
        // for as long as the slice; no copy uses it.
        Ok(unsafe { std::slice::from_raw_parts_mut(block.as_ptr().cast(), len) })
    }
}

impl<T: Plain> Drop for PinnedBuffer<T> {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.device.pinned_pool().give(block);
        }
    }
}

impl<T: Plain> std::fmt::Debug for PinnedBuffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PinnedBuffer<{}>({} for {})", std::any::type_name::<T>(), self.len, self.device)
    }
}
