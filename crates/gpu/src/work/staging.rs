//! Staging of pageable host memory through pinned memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::base::{DeviceKind, Lock, Plain, Result};
use crate::device::{Device, Staging};
use crate::memory::{PinnedBlock, View, ViewMut};
use crate::work::Stream;
use crate::work::small::{Delivery, MOST_WRITTEN, SmallCopies};

/// Copies of at most this many bytes run on one thread.
pub(super) const SMALL: usize = 256 << 10;

/// Each host thread of a copy has at least this many bytes to copy, but for the last one.
const BYTES_PER_THREAD: usize = 1 << 20;

/// Pinned blocks per host thread: one is filled while the other is being transferred.
const BLOCKS_PER_THREAD: usize = 2;

impl Device {
    /// Pins the memory through which large copies of ordinary host memory go, which takes tens of milliseconds and
    /// would otherwise be part of the first such copy. On a GPU, loads the kernels of small copies, too, which are kept
    /// until the device closes.
    pub fn prepare_copies(&self) -> Result<()> {
        if self.kind() == DeviceKind::Cuda {
            self.hold_kept(SmallCopies::load(self)?);
        }
        let Staging { chunk, threads } = self.staging();
        let blocks = (0..BLOCKS_PER_THREAD * threads).map(|_| self.core().pinned.take_for(chunk, None));
        // Dropped together: one that is returned would be taken again.
        blocks.collect::<Result<Vec<_>>>().map(drop)
    }

    /// Compiles the kernels of small copies, for the cache.
    pub fn compile_copies(&self) -> Result<()> {
        SmallCopies::compile(self).map(drop)
    }
}

impl Stream {
    /// Uploads a few bytes, which are copied to pinned memory or to a launch's arguments before this returns.
    pub(super) fn write_small<T: Plain>(&self, to: ViewMut<'_, T>, bytes: &[u8]) -> Result<()> {
        let core = self.core();
        core.counters.uploaded(bytes.len());
        if bytes.is_empty() {
            return Ok(());
        }
        if let Some(kernels) = SmallCopies::on(self.device())
            && kernels.write(self, &to, bytes)?
        {
            return Ok(());
        }
        let (staged, at) = core.ring.stage(&core.pinned, bytes)?;
        let mut work = self.begin(&[], &[to.block()])?;
        work.uses(&staged);
        // SAFETY: the view is a live range of this device with the length of the staged copy, which does not
        // change until this work is complete.
        unsafe { core.driver.upload(work.stream()?, *to.at(), at, bytes.len()) }
    }

    /// Sets a few bytes together with the launches around. Returns whether it did.
    pub(super) fn fill_small<T: Plain>(&self, to: &ViewMut<'_, T>, byte: u8) -> Result<bool> {
        let bytes = to.view().bytes();
        match SmallCopies::on(self.device()) {
            Some(kernels) if bytes <= MOST_WRITTEN => kernels.write(self, to, &[byte; MOST_WRITTEN][..bytes]),
            _ => Ok(false),
        }
    }

    /// Fills `to` through pinned blocks: `fill(offset, block)` writes the bytes of `to` from `offset` on into
    /// `block`.
    pub(super) fn write_staged<T: Plain>(
        &self,
        to: ViewMut<'_, T>,
        fill: impl Fn(usize, &mut [u8]) + Sync,
    ) -> Result<()> {
        let bytes = to.view().bytes();
        self.core().counters.uploaded(bytes);
        self.staged(bytes, |block, at, len| {
            block.wait_idle()?;
            // SAFETY: the block is at least as large as a chunk, no copy uses it, and this thread owns it.
            fill(at, unsafe { std::slice::from_raw_parts_mut(block.as_ptr(), len) });
            let mut work = self.begin(&[], &[to.block()])?;
            work.uses(block);
            // SAFETY: the range lies in the view; the block is not touched before this work is complete.
            unsafe { self.core().driver.upload(work.stream()?, to.at().offset(at), block.as_ptr(), len) }
        })
    }

    /// Begins to copy a view to the host by a kernel, if it is small and the device has that kernel.
    pub(super) fn deliver_small<T: Plain>(&self, from: View<'_, T>) -> Result<Option<Delivery>> {
        match SmallCopies::on(self.device()) {
            Some(kernels) => kernels.deliver(self, from),
            None => Ok(None),
        }
    }

    /// Copies a view to pageable memory of the same length, and waits for the copy.
    pub(super) fn read_staged<T: Plain>(&self, from: View<'_, T>, values: &mut [u8]) -> Result<()> {
        self.core().counters.downloaded(values.len());
        if let Some(delivery) = self.deliver_small(from)? {
            delivery.wait(self, values)?;
            self.core().settle();
            return self.waited();
        }
        let target = Target(values.as_mut_ptr());
        self.staged(values.len(), |block, at, len| {
            block.wait_idle()?;
            {
                let mut work = self.begin(&[from.block()], &[])?;
                work.uses(block);
                // SAFETY: the range lies in the view; no copy uses the block, which is not touched before this
                // one is done.
                unsafe { self.core().driver.download(work.stream()?, block.as_ptr(), from.at().offset(at), len)? };
            }
            block.wait()?;
            // SAFETY: chunks are disjoint parts of the slice, which is borrowed for the whole call.
            unsafe { std::ptr::copy_nonoverlapping(block.as_ptr(), target.at(at), len) };
            Ok(())
        })?;
        self.core().settle();
        self.waited()
    }

    /// Runs `step(block, offset, length)` for each chunk of `bytes`, on several host threads.
    fn staged(
        &self,
        bytes: usize,
        step: impl Fn(&Arc<PinnedBlock>, usize, usize) -> Result<()> + Sync,
    ) -> Result<()> {
        let (pinned, own) = (&self.core().pinned, Some(self.timeline()));
        if bytes <= SMALL {
            // One chunk, and possibly none.
            return if bytes == 0 { self.synchronize() } else { step(&pinned.take_for(bytes, own)?, 0, bytes) };
        }
        let Staging { chunk: most, threads } = self.device().staging();
        // Use smaller chunks for small copies, so that every thread has work.
        let chunk = most.min((bytes / (2 * threads)).next_power_of_two().max(SMALL));
        // A copy of several of the large blocks takes them for its smaller chunks, too: pinning others may take longer
        // than the copy. Smaller copies leave them alone, since they may be behind a long kernel.
        let largest = if bytes > most { most } else { chunk };
        let take = |_| pinned.take_up_to(chunk, largest, own);
        let chunks = bytes.div_ceil(chunk);
        // Taken here and not by the threads, so that their number does not depend on the threads' timing.
        let blocks = (0..chunks.min(BLOCKS_PER_THREAD * threads)).map(take).collect::<Result<Vec<_>>>()?;
        // A thread costs as much as copying some hundred KiB.
        let threads = threads.min(chunks).min(bytes.div_ceil(BYTES_PER_THREAD));
        let (started, next) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let failure = Lock::new(None);
        let run = || -> Result<()> {
            let thread = started.fetch_add(1, Ordering::Relaxed);
            for block in blocks.iter().skip(thread).step_by(threads).cycle() {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= chunks {
                    break;
                }
                let at = index * chunk;
                step(block, at, chunk.min(bytes - at))?;
            }
            Ok(())
        };
        let work = || {
            if let Err(error) = run() {
                next.store(chunks, Ordering::Relaxed);
                failure.lock().get_or_insert(error);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // If the system has no more threads, those that there are do the work.
                if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            work();
        });
        blocks.iter().for_each(|block| block.mark());
        match failure.into_inner() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

/// A host address shared by the threads of one staged download.
struct Target(*mut u8);

// SAFETY: the threads write to disjoint chunks.
unsafe impl Sync for Target {}

impl Target {
    /// # Safety
    /// `offset` lies within the allocation.
    unsafe fn at(&self, offset: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(offset) }
    }
}
