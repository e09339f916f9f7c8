//! Pinned (page-locked) host memory, which the device's copy engines access directly. It is pooled, because
//! pinning a page costs more than copying it.

use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use super::arena::PoolStats;
use crate::base::{Bytes, Error, Lock, Plain, Result};
use crate::drivers::Driver;
use crate::queue::{Resource, Timeline, Usage, Uses};

/// Pinned memory begins at a multiple of this.
const PAGE: usize = 4096;

/// The smallest block size, in bytes.
pub(crate) const SMALLEST_PINNED: usize = 64 << 10;

/// Maximum bytes of idle blocks in the pool; beyond it, the blocks that were returned first are unpinned.
const MOST_IDLE: usize = 8 << 30;

/// The bytes in blocks of one size from which on the pool, while copies still use all of them, waits for the
/// oldest copy whose block fits instead of pinning more.
const MOST_BUSY: usize = 16 << 20;

/// The pinned memory of one device.
pub(crate) struct PinnedPool {
    driver: Arc<dyn Driver>,
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    /// Returned blocks, in the order in which they were returned.
    idle: VecDeque<Returned>,
    idle_bytes: usize,
    /// The bytes held in blocks of each size, idle or not.
    held: BTreeMap<usize, usize>,
    stats: PoolStats,
}

struct Returned {
    memory: Memory,
    uses: Uses,
}

/// A driver allocation: its address and length.
#[derive(Clone, Copy)]
struct Memory {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to the value's owner, and nothing about it is tied to a thread.
unsafe impl Send for Memory {}
// SAFETY: shared access only reads the address.
unsafe impl Sync for Memory {}

/// A block of pinned memory, returned to its pool when the last reference (from a buffer or a graph) is dropped.
pub(crate) struct PinnedBlock {
    pool: Arc<PinnedPool>,
    memory: Memory,
    usage: Lock<Usage>,
}

impl PinnedBlock {
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.memory.at.as_ptr()
    }

    /// Blocks until no copy uses the block, whether the copies succeed or not: then it can be written.
    pub(crate) fn wait_idle(&self) -> Result<()> {
        self.wait_for(Uses::wait_idle)
    }

    /// Blocks until the copies to the block are complete: then it can be read. Fails if a copy that uses it failed.
    pub(crate) fn wait(&self) -> Result<()> {
        self.wait_for(Uses::wait)
    }

    fn wait_for(&self, wait: impl FnOnce(&Uses) -> Result<()>) -> Result<()> {
        // Without the lock: a thread that enqueues a copy holds its timeline's lock when it takes this one.
        let uses = std::mem::take(&mut self.usage.lock().uses);
        let waited = wait(&uses);
        if waited.is_err() {
            self.usage.lock().uses.merge(uses);
        }
        waited
    }

    /// Records where the copies that use the block end, so that waiting for them does not wait for later work.
    pub(crate) fn mark(&self) {
        // Without the lock, as above.
        let uses = std::mem::take(&mut self.usage.lock().uses);
        uses.mark();
        self.usage.lock().uses.merge(uses);
    }
}

impl Resource for PinnedBlock {
    fn usage(&self) -> &Lock<Usage> {
        &self.usage
    }
}

impl Drop for PinnedBlock {
    fn drop(&mut self) {
        let uses = std::mem::take(&mut self.usage.get_mut().uses);
        self.pool.give(Returned { memory: self.memory, uses });
    }
}

/// The block size for `bytes`: a power of two up to 1 MiB, above that in steps of an eighth of a power of two, so
/// that sizes repeat and little memory is wasted.
fn class(bytes: usize) -> Option<usize> {
    let bytes = bytes.max(SMALLEST_PINNED);
    if bytes <= 1 << 20 {
        return Some(bytes.next_power_of_two());
    }
    let step = (bytes.checked_next_power_of_two()? / 16).max(1 << 12);
    bytes.checked_next_multiple_of(step)
}

impl PinnedPool {
    pub(crate) fn new(driver: Arc<dyn Driver>) -> Arc<Self> {
        Arc::new(Self { driver, state: Lock::default() })
    }

    pub(crate) fn stats(&self) -> PoolStats {
        self.state.lock().stats
    }

    /// Takes a block of at least `bytes` that no copy uses.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Result<Arc<PinnedBlock>> {
        let block = self.take_for(bytes, None)?;
        block.wait_idle()?;
        Ok(block)
    }

    /// Takes a block of at least `bytes` for a copy on the stream `own`. An earlier copy may still use it, so that
    /// the caller has to [wait](PinnedBlock::wait_idle) for the block before the first access.
    pub(crate) fn take_for(
        self: &Arc<Self>,
        bytes: usize,
        own: Option<&Arc<Timeline>>,
    ) -> Result<Arc<PinnedBlock>> {
        self.take_up_to(bytes, bytes, own)
    }

    /// Takes a block as [`take_for`](Self::take_for) does, but prefers a returned block for up to `most` bytes to
    /// pinning a smaller one.
    pub(crate) fn take_up_to(
        self: &Arc<Self>,
        bytes: usize,
        most: usize,
        own: Option<&Arc<Timeline>>,
    ) -> Result<Arc<PinnedBlock>> {
        let size = class(bytes).ok_or_else(|| Error::OutOfPinnedMemory {
            requested: bytes,
            detail: format!("{} exceed the address space", Bytes(bytes)),
        })?;
        let most = class(most).unwrap_or(size).max(size);
        let Returned { memory, uses } = match self.reuse(size, most, own) {
            Some(returned) => returned,
            None => Returned { memory: self.allocate(size)?, uses: Uses::default() },
        };
        {
            let stats = &mut self.state.lock().stats;
            stats.in_use += memory.bytes;
            stats.peak = stats.peak.max(stats.in_use);
        }
        let usage = Lock::new(Usage::used(uses));
        Ok(Arc::new(PinnedBlock { pool: self.clone(), memory, usage }))
    }

    /// A returned block of this size, or else of at most `most` bytes: an idle one, or one that only copies of `own`
    /// still use, because the new copy comes after those anyway. A block that another stream's copy uses is skipped,
    /// because that copy may be queued behind a long kernel, unless there are many blocks of this size.
    fn reuse(&self, size: usize, most: usize, own: Option<&Arc<Timeline>>) -> Option<Returned> {
        let mut state = self.state.lock();
        let fitting =
            || state.idle.iter().enumerate().filter(|(_, block)| (size..=most).contains(&block.memory.bytes));
        let smallest_for = |own| {
            let free = fitting().filter(|(_, block)| !block.uses.concern_others(own));
            free.min_by_key(|(_, block)| block.memory.bytes)
        };
        // If the oldest block is in use, the others most likely are too, so the driver is queried once.
        let oldest = || {
            let (index, block) = fitting().next()?;
            let many = state.held.get(&size).is_some_and(|&held| held >= MOST_BUSY);
            (many || !block.uses.are_pending()).then_some((index, block))
        };
        let (index, _) = smallest_for(None).or_else(|| smallest_for(own)).or_else(oldest)?;
        let block = state.idle.remove(index)?;
        state.idle_bytes -= block.memory.bytes;
        state.stats.hits += 1;
        Some(block)
    }

    fn allocate(&self, size: usize) -> Result<Memory> {
        let count = |state: &mut State| {
            state.stats.misses += 1;
            state.stats.driver_calls += 1;
        };
        count(&mut self.state.lock());
        let at = match self.driver.alloc_pinned(size) {
            // Free the idle blocks and try again.
            Err(Error::OutOfPinnedMemory { .. }) if self.trim(0) > 0 => self.driver.alloc_pinned(size),
            result => result,
        }?;
        let state = &mut *self.state.lock();
        state.stats.held += size;
        *state.held.entry(size).or_default() += size;
        Ok(Memory { at, bytes: size })
    }

    fn give(&self, block: Returned) {
        let over = {
            let mut state = self.state.lock();
            state.stats.in_use -= block.memory.bytes;
            state.idle_bytes += block.memory.bytes;
            state.idle.push_back(block);
            state.idle_bytes > MOST_IDLE
        };
        if over {
            self.trim(MOST_IDLE);
        }
    }

    /// Unpins idle blocks in the order in which they were returned, until at most `keep` bytes are idle. Returns
    /// the number of bytes that were unpinned.
    pub(crate) fn trim(&self, keep: usize) -> usize {
        let mut unpinned = Vec::new();
        {
            let state = &mut *self.state.lock();
            let mut left = VecDeque::with_capacity(state.idle.len());
            for block in state.idle.drain(..) {
                if state.idle_bytes <= keep || block.uses.are_pending() {
                    left.push_back(block);
                    continue;
                }
                state.idle_bytes -= block.memory.bytes;
                state.stats.held -= block.memory.bytes;
                *state.held.entry(block.memory.bytes).or_default() -= block.memory.bytes;
                state.stats.driver_calls += 1;
                unpinned.push(block.memory);
            }
            state.idle = left;
        }
        unpinned.iter().for_each(|memory| self.driver.free_pinned(memory.at, memory.bytes));
        unpinned.iter().map(|memory| memory.bytes).sum()
    }
}

impl Drop for PinnedPool {
    fn drop(&mut self) {
        for block in self.state.get_mut().idle.drain(..) {
            match block.uses.wait_idle() {
                Ok(()) => self.driver.free_pinned(block.memory.at, block.memory.bytes),
                // The driver can't tell when the last copy ends, which may still write. So the memory stays pinned, and
                // the driver's context stays, with which it would go.
                Err(_) => std::mem::forget(self.driver.clone()),
            }
        }
    }
}

/// Staging space for small uploads, placed one after another in a pinned block. Enqueueing one does not block, and
/// only a new block pins memory.
#[derive(Default)]
pub(crate) struct UploadRing(Lock<Option<(Arc<PinnedBlock>, usize)>>);

/// Bytes of one block of the ring.
const RING_BLOCK: usize = 1 << 20;

impl UploadRing {
    /// Copies `bytes` (at most one block of the ring) to pinned memory. Returns the block and the address of the
    /// copy. The caller records the upload as a use of the block.
    pub(crate) fn stage(&self, pool: &Arc<PinnedPool>, bytes: &[u8]) -> Result<(Arc<PinnedBlock>, *const u8)> {
        let mut current = self.0.lock();
        let fits = |block: &(Arc<PinnedBlock>, usize)| bytes.len() <= RING_BLOCK - block.1;
        let (block, start) = match current.take().filter(fits) {
            Some(current) => current,
            // A full block returns to the pool, which reuses it once its uploads are complete.
            None => (pool.take(RING_BLOCK.max(bytes.len()))?, 0),
        };
        // SAFETY: the range lies in the block. No range is used twice before the block has returned to its pool,
        // and the pool reuses a block only when no copy uses it.
        let at = unsafe {
            let at = block.as_ptr().add(start);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len());
            at
        };
        let next = (start + bytes.len()).next_multiple_of(64);
        *current = (next < RING_BLOCK).then(|| (block.clone(), next));
        Ok((block, at))
    }

    /// Returns the block to its pool.
    pub(crate) fn clear(&self) {
        let block = self.0.lock().take();
        drop(block);
    }
}

/// `len` values of `T` in pinned (page-locked) host memory: the source or target of copies that overlap other
/// work.
///
/// Made by [`Device::pinned`](crate::Device::pinned). Host access first waits for copies that use the memory.
pub struct PinnedBuffer<T: Plain> {
    block: Arc<PinnedBlock>,
    len: usize,
    of: PhantomData<T>,
}

impl<T: Plain> PinnedBuffer<T> {
    pub(crate) fn new(pool: &Arc<PinnedPool>, len: usize) -> Result<Self> {
        let buffer = Self::unwritten(pool, len)?;
        // SAFETY: the block has room for the values and belongs to us; zero is a valid plain value.
        unsafe { buffer.block.as_ptr().write_bytes(0, len * size_of::<T>()) };
        Ok(buffer)
    }

    /// Memory that a copy is about to fill, and that is dropped if the copy can't be enqueued: the host's access waits
    /// for the copy, and fails if it does.
    pub(crate) fn unwritten(pool: &Arc<PinnedPool>, len: usize) -> Result<Self> {
        // Copies read the bytes of values that the host writes here.
        const { T::CHECK };
        let bytes = len
            .checked_mul(size_of::<T>())
            .filter(|&bytes| bytes <= isize::MAX as usize && align_of::<T>() <= PAGE)
            .ok_or_else(|| Error::shape("Device::pinned", format!("{len} values overflow the address space")))?;
        Ok(Self { block: pool.take(bytes)?, len, of: PhantomData })
    }

    pub(crate) fn block(&self) -> &Arc<PinnedBlock> {
        &self.block
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Access to the values, after waiting for copies that use them. Fails if such a copy failed, for example because
    /// the device was lost: the values are then not what it was to write. While the result exists, graphs that copy
    /// this memory can't be replayed.
    pub fn slice(&mut self) -> Result<PinnedSlice<'_, T>> {
        // Borrow before waiting, so that a graph replayed in the meantime is rejected.
        self.block.usage().lock().borrowed = true;
        let slice = PinnedSlice { buffer: self };
        slice.buffer.block.wait()?;
        Ok(slice)
    }
}

impl<T: Plain> std::fmt::Debug for PinnedBuffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PinnedBuffer<{}>({})", std::any::type_name::<T>(), self.len)
    }
}

/// The values of a [`PinnedBuffer`], for reading and writing by the host.
pub struct PinnedSlice<'a, T: Plain> {
    buffer: &'a mut PinnedBuffer<T>,
}

impl<T: Plain> Deref for PinnedSlice<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the block holds `len` initialised plain values and is aligned to a page. No copy uses it, and
        // none can start while it is marked as borrowed.
        unsafe { std::slice::from_raw_parts(self.buffer.block.as_ptr().cast(), self.buffer.len) }
    }
}

impl<T: Plain> DerefMut for PinnedSlice<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and the buffer is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.buffer.block.as_ptr().cast(), self.buffer.len) }
    }
}

impl<T: Plain> Drop for PinnedSlice<'_, T> {
    fn drop(&mut self) {
        self.buffer.block.usage().lock().borrowed = false;
    }
}

impl<T: Plain> std::fmt::Debug for PinnedSlice<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PinnedSlice<{}>({})", std::any::type_name::<T>(), self.buffer.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_waste_little() {
        assert_eq!(class(1), Some(SMALLEST_PINNED));
        assert_eq!(class(100_000), Some(128 << 10));
        assert_eq!(class(9 << 30), Some(9 << 30));
        for bytes in (0..4000).map(|i| i * 1_234_567) {
            let size = class(bytes).unwrap();
            assert!(size >= bytes && size <= (2 * bytes).max(SMALLEST_PINNED), "{bytes} in {size}");
            assert!(bytes < 1 << 20 || size - bytes <= bytes / 8, "{bytes} in {size}");
        }
        assert_eq!(class(usize::MAX), None);
        assert_eq!(class(usize::MAX / 2 + 2), None);
    }
}
