//! The lowest layer of an open device: its driver, its memory and its queues.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Weak};

use super::arena::{Arena, Placement, PoolStats, Pooling};
use super::block::Block;
use super::counters::Counters;
use super::free_list::Claim;
use super::pinned::{PinnedPool, UploadRing};
use crate::base::{DeviceKind, Error, Lock, Result};
use crate::drivers::{DevicePtr, Driver, Raw};
use crate::queue::{ChainPool, EventPool, Origin, Queue, StreamPool, Timeline, Uses};

/// The part of a device that everything with access to its memory or streams holds.
///
/// This makes the order of closing independent of the order of drops: a queue waits for its work when it is
/// dropped, and the arena is unmapped with the core, after the last queue and the last buffer.
pub(crate) struct Core {
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) counters: Counters,
    pub(crate) ring: UploadRing,
    pub(crate) pinned: Arc<PinnedPool>,
    arena: Lock<Arena>,
    timelines: Lock<Vec<Weak<Timeline>>>,
    /// Values to drop once the work that uses them is complete.
    retired: Lock<Vec<(Uses, Box<dyn Any + Send>)>>,
    events: Arc<EventPool>,
    chains: Arc<ChainPool>,
    streams: Arc<StreamPool>,
    /// The layer above, while it exists, and the options to create it again: how a buffer finds its device.
    pub(crate) above: Lock<Weak<dyn Any + Send + Sync>>,
    pub(crate) options: Box<dyn Any + Send + Sync>,
}

/// The smallest block, in bytes, at whose release the streams that used it record a mark.
const LARGE: usize = 1 << 20;

/// An open stream of a device.
pub(crate) struct Lane {
    // Drop order: the queue closes, then retired values are dropped, then the reference to the core.
    queue: Queue,
    core: Settle,
}

/// Drops retired values when it is dropped.
struct Settle(Arc<Core>);

impl Drop for Settle {
    fn drop(&mut self) {
        self.0.settle();
    }
}

impl Lane {
    pub(crate) fn timeline(&self) -> &Arc<Timeline> {
        &self.queue.timeline
    }

    pub(crate) fn raw(&self) -> Raw {
        self.queue.raw()
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core.0
    }
}

impl Core {
    pub(crate) fn new(
        driver: Arc<dyn Driver>,
        pooling: Pooling,
        memory_limit: Option<usize>,
        options: Box<dyn Any + Send + Sync>,
    ) -> Arc<Self> {
        // The emulated device detects accesses past a buffer's end by the gap after it.
        let gap = if driver.properties().kind == DeviceKind::Emulated { 256 } else { 0 };
        let pinned = PinnedPool::new(driver.clone());
        Arc::new(Self {
            counters: Counters::default(),
            ring: UploadRing::default(),
            pinned,
            arena: Lock::new(Arena::new(pooling, memory_limit, gap)),
            timelines: Lock::default(),
            retired: Lock::default(),
            events: EventPool::new(driver.clone()),
            chains: ChainPool::new(driver.clone()),
            streams: StreamPool::new(driver.clone()),
            driver,
            above: Lock::new(Weak::<()>::new()),
            options,
        })
    }

    // --- queues -------------------------------------------------------------------------------------------

    pub(crate) fn open_lane(self: &Arc<Self>) -> Result<Arc<Lane>> {
        let (events, chains, streams) = (self.events.clone(), self.chains.clone(), self.streams.clone());
        let queue = Queue::open(self.driver.clone(), events, chains, streams)?;
        let mut timelines = self.timelines.lock();
        timelines.retain(|timeline| timeline.upgrade().is_some_and(|timeline| !timeline.is_closed()));
        timelines.push(Arc::downgrade(&queue.timeline));
        Ok(Arc::new(Lane { queue, core: Settle(self.clone()) }))
    }

    /// Submits what all streams have gathered. Whoever depends on what fails gets the error.
    pub(crate) fn submit_all(&self) {
        self.open_timelines().iter().for_each(|timeline| timeline.submit_gathered());
    }

    /// Whether gathered launches are submitted by chains.
    pub(crate) fn use_chains(&self, on: bool) {
        self.chains.use_them(on);
    }

    /// The number of submissions of gathered launches so far that failed.
    pub(crate) fn failures(&self) -> u64 {
        self.chains.failures()
    }

    fn open_timelines(&self) -> Vec<Arc<Timeline>> {
        self.timelines.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// The number of driver calls so far that submitted launches.
    pub(crate) fn submissions(&self) -> u64 {
        self.chains.submissions()
    }

    /// Blocks the host until the work of all streams is complete. It does not wait for captured work, which is
    /// only recorded.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let timelines = self.open_timelines();
        // All streams, also after an error in one of them.
        let results: Vec<_> = timelines.iter().map(|timeline| timeline.synchronize_untold()).collect();
        self.settle();
        results.into_iter().collect()
    }

    // --- memory -------------------------------------------------------------------------------------------

    /// Allocates `bytes` for use on a stream.
    pub(crate) fn alloc(self: &Arc<Self>, timeline: &Arc<Timeline>, bytes: usize) -> Result<Arc<Block>> {
        let capturing = timeline.is_capturing();
        let claim = if capturing { Claim::Graph } else { Claim::Stream(timeline) };
        let Placement { at, uses } = self.arena.lock().alloc(&*self.driver, bytes, claim)?;
        let waits = !capturing && uses.concern_others(Some(timeline));
        let is_idle = !uses.concern_others(None);
        // If anything below fails, dropping the block frees it with all of its uses.
        let mut block = Block::new(self.clone(), at, bytes, uses);
        if waits {
            block.order_before(timeline)?;
        }
        if !is_idle {
            block.starts_at(Origin::now(timeline));
        }
        Ok(Arc::new(block))
    }

    pub(super) fn free(&self, at: DevicePtr, bytes: usize, uses: Uses) {
        // Other streams reuse large blocks. With the mark they wait for this block's work only, not for later
        // work. The emulated device checks accesses when launches are submitted, so gathered ones must be.
        let checked = self.driver.properties().kind == DeviceKind::Emulated;
        if checked || (bytes >= LARGE && self.timelines.lock().len() > 1) {
            uses.mark();
        }
        self.arena.lock().free(&*self.driver, at, bytes, uses);
    }

    /// Drops `owner` once the work that uses it is complete. Does not block.
    pub(crate) fn retire(&self, owner: Box<dyn Any + Send>, uses: Uses) {
        self.retired.lock().push((uses, owner));
        self.settle();
    }

    /// Drops retired values that are no longer in use.
    pub(crate) fn settle(&self) {
        let gone: Vec<_> = self.retired.lock().extract_if(.., |(uses, _)| !uses.are_pending()).collect();
        // Outside the lock: dropping an owner may run arbitrary code.
        drop(gone);
    }

    /// Frees idle device memory and idle pinned memory, and returns the bytes of each.
    pub(crate) fn trim(&self) -> (usize, usize) {
        self.settle();
        self.ring.clear();
        (self.arena.lock().trim(&*self.driver), self.pinned.trim(0))
    }

    pub(crate) fn memory_stats(&self) -> PoolStats {
        self.arena.lock().stats()
    }

    pub(crate) fn memory_limit(&self) -> Option<usize> {
        self.arena.lock().limit()
    }

    pub(crate) fn set_memory_limit(&self, limit: Option<usize>) {
        self.arena.lock().set_limit(limit);
    }

    pub(crate) fn hold(&self, bytes: usize) -> Result<()> {
        self.arena.lock().hold(&*self.driver, bytes)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // Every stream of this device holds the core, so none is open. Copies from other devices may still run.
        for (uses, owner) in self.retired.get_mut().drain(..) {
            match uses.wait_idle() {
                Ok(()) => drop(owner),
                // The driver can't tell when the work ends, which may still use what the owner keeps.
                Err(_) => std::mem::forget(owner),
            }
        }
        self.streams.clear();
        self.arena.get_mut().release(&self.driver);
    }
}

impl fmt::Display for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.driver.properties().fmt(f)
    }
}

/// Fails if memory, streams or code belong to another device.
pub(crate) fn same_device(operation: &str, expected: &Arc<Core>, found: &Arc<Core>) -> Result<()> {
    if Arc::ptr_eq(expected, found) {
        return Ok(());
    }
    Err(Error::WrongDevice {
        operation: operation.into(),
        expected: expected.to_string(),
        found: found.to_string(),
    })
}

/// Measures the peak of device memory in use since its creation, independently of other watches.
pub(crate) struct PeakWatch {
    core: Arc<Core>,
    number: u64,
}

impl PeakWatch {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        Self { number: core.arena.lock().watch(), core: core.clone() }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.core.arena.lock().watched(self.number)
    }
}

impl Drop for PeakWatch {
    fn drop(&mut self) {
        self.core.arena.lock().end_watch(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Resource;
    use crate::queue::scripted::Scripted;

    fn core(driver: &Arc<Scripted>) -> Arc<Core> {
        Core::new(driver.clone(), Pooling::Arena, None, Box::new(()))
    }

    /// Allocates a block, uses it on `lane` and frees it.
    fn used_and_freed(core: &Arc<Core>, lane: &Lane, bytes: usize) {
        let block = core.alloc(lane.timeline(), bytes).unwrap();
        lane.timeline().begin().unwrap().uses(&block);
    }

    #[test]
    fn an_upload_does_not_wait_for_compute_that_has_nothing_to_do_with_it() {
        let driver = Scripted::new();
        let core = core(&driver);
        let (compute, upload) = (core.open_lane().unwrap(), core.open_lane().unwrap());
        used_and_freed(&core, &compute, LARGE);
        // The compute stream completes this work and continues with other work.
        driver.complete_all();
        (0..5).for_each(|_| drop(compute.timeline().begin().unwrap()));
        driver.calls();
        core.alloc(upload.timeline(), LARGE).unwrap();
        assert_eq!(driver.calls(), Vec::<String>::new(), "the same memory, without a wait");
    }

    #[test]
    fn a_stream_waits_for_the_work_that_uses_its_memory() {
        let driver = Scripted::new();
        let core = core(&driver);
        let (compute, upload) = (core.open_lane().unwrap(), core.open_lane().unwrap());
        used_and_freed(&core, &compute, 4096 - 256);
        driver.calls();
        core.alloc(upload.timeline(), 4096 - 256).unwrap();
        assert_eq!(driver.calls(), ["wait for event"]);
    }

    #[test]
    fn a_reader_waits_for_the_writer_and_nobody_waits_for_the_reader() {
        let driver = Scripted::new();
        let core = core(&driver);
        let lanes: Vec<_> = (0..3).map(|_| core.open_lane().unwrap()).collect();
        let block = core.alloc(lanes[0].timeline(), 4096 - 256).unwrap();
        lanes[0].timeline().begin().unwrap().uses(&block);
        driver.calls();
        block.order_reader(lanes[0].timeline()).unwrap();
        assert_eq!(driver.calls(), [] as [&str; 0], "the writer itself");
        for reader in &lanes[1..] {
            block.order_reader(reader.timeline()).unwrap();
            assert_eq!(driver.calls().iter().filter(|call| *call == "wait for event").count(), 1);
        }
    }

    #[test]
    fn memory_of_a_failed_allocation_is_not_forgotten() {
        let driver = Scripted::new();
        let core = core(&driver);
        let lanes: Vec<_> = (0..3).map(|_| core.open_lane().unwrap()).collect();
        used_and_freed(&core, &lanes[0], 4096 - 256);
        driver.fail_waits(true);
        assert!(core.alloc(lanes[1].timeline(), 4096 - 256).is_err());
        driver.fail_waits(false);
        driver.calls();
        core.alloc(lanes[2].timeline(), 4096 - 256).unwrap();
        assert_eq!(driver.calls(), ["wait for event"], "the first stream may still use it");
    }

    #[test]
    fn memory_that_another_library_used_is_taken_after_its_work() {
        let driver = Scripted::new();
        let core = core(&driver);
        let (compute, other) = (core.open_lane().unwrap(), core.open_lane().unwrap());
        let block = core.alloc(compute.timeline(), 4096 - 256).unwrap();
        compute.timeline().begin().unwrap().uses(&block);
        assert!(block.usage().lock().uses.are_pending());
        driver.complete_all();
        assert!(!block.usage().lock().uses.are_pending(), "Rigel's own work is done");
        // The other library's kernels run now, on a stream that is not known here.
        compute.timeline().wait_for_all(std::slice::from_ref(&block)).unwrap();
        drop(block);
        driver.calls();
        assert_eq!(core.trim(), (0, 0), "it is in use");
        drop(core.alloc(other.timeline(), 4096 - 256).unwrap());
        assert_eq!(driver.calls(), ["wait for event"]);
    }

    #[test]
    fn memory_stays_mapped_if_the_driver_cannot_tell_when_its_last_work_ends() {
        for pooling in [Pooling::Arena, Pooling::Direct] {
            let driver = Scripted::new();
            let core = Core::new(driver.clone(), pooling, None, Box::new(()));
            let lane = core.open_lane().unwrap();
            driver.fail_waits(true);
            used_and_freed(&core, &lane, 4096 - 256);
            drop(lane);
            drop(core);
            let calls = driver.calls();
            assert!(!calls.iter().any(|call| call == "release" || call == "free"), "{pooling:?}: {calls:?}");
            // CUDA's driver unmaps the arena when it is dropped; other memory goes with the context.
            assert_eq!(Arc::strong_count(&driver) > 1, pooling == Pooling::Arena, "{pooling:?}: the driver stays");
        }
    }

    #[test]
    fn host_memory_that_a_lost_device_was_to_write_cannot_be_read() {
        let driver = Scripted::new();
        let core = core(&driver);
        let lane = core.open_lane().unwrap();
        let mut pinned = super::super::PinnedBuffer::<u32>::unwritten(&core.pinned, 4).unwrap();
        lane.timeline().begin().unwrap().uses(pinned.block());
        driver.lose();
        assert!(!pinned.block().usage().lock().uses.are_pending(), "somebody else learns of it");
        for _ in 0..2 {
            assert!(matches!(pinned.slice(), Err(Error::DeviceLost { .. })));
        }
    }

    #[test]
    fn a_capture_finds_room_behind_memory_that_is_busy() {
        let driver = Scripted::new();
        let core = core(&driver);
        let lane = core.open_lane().unwrap();
        used_and_freed(&core, &lane, 4096 - 256);
        let capture = crate::queue::Capture::begin(lane.timeline()).unwrap();
        // The free memory at the end is in use, so it does not count.
        core.alloc(lane.timeline(), 4096 - 256).unwrap();
        drop(capture);
    }

    #[test]
    fn a_capture_waits_on_the_host_when_all_memory_is_busy() {
        let driver = Scripted::new();
        let core = core(&driver);
        let lane = core.open_lane().unwrap();
        used_and_freed(&core, &lane, (4 << 20) - 256);
        let capture = crate::queue::Capture::begin(lane.timeline()).unwrap();
        driver.calls();
        core.alloc(lane.timeline(), (4 << 20) - 256).unwrap();
        assert_eq!(driver.calls(), ["synchronize event"]);
        drop(capture);
    }

    #[test]
    fn streams_are_closed_before_memory_is_unmapped() {
        let driver = Scripted::new();
        let core = core(&driver);
        let lane = core.open_lane().unwrap();
        let block = core.alloc(lane.timeline(), 100).unwrap();
        lane.timeline().begin().unwrap().uses(&block);
        driver.calls();
        // The order of drops does not matter.
        drop(core);
        drop(block);
        drop(lane);
        assert_eq!(driver.calls(), ["synchronize stream", "destroy stream", "release"]);
    }

    #[test]
    fn other_streams_use_memory_after_its_allocation() {
        let driver = Scripted::new();
        let core = core(&driver);
        let (first, second) = (core.open_lane().unwrap(), core.open_lane().unwrap());
        // The first stream still uses the memory that it gets again.
        used_and_freed(&core, &first, 1000);
        let block = core.alloc(first.timeline(), 1000).unwrap();
        driver.calls();
        let origin = block.origin().expect("earlier work of the stream may still use the memory");
        origin.order_before(first.timeline()).unwrap();
        assert_eq!(driver.calls(), Vec::<String>::new(), "a stream runs in order");
        origin.order_before(second.timeline()).unwrap();
        assert_eq!(driver.calls(), ["wait for event"]);
    }

    #[test]
    fn trim_unmaps_what_is_idle_and_growth_fills_the_holes() {
        let driver = Scripted::new();
        let core = core(&driver);
        let lane = core.open_lane().unwrap();
        let blocks: Vec<_> = (0..3).map(|_| core.alloc(lane.timeline(), 4096 - 256).unwrap()).collect();
        let [first, middle, last] = <[_; 3]>::try_from(blocks).ok().unwrap();
        lane.timeline().synchronize_untold().unwrap();
        drop(middle);
        driver.calls();
        assert_eq!(core.trim(), (4096, 0));
        assert_eq!(driver.calls(), ["unmap 0x1000 4096"]);
        core.alloc(lane.timeline(), 100).unwrap();
        assert_eq!(driver.calls(), ["map 0x1000 4096"]);
        drop((first, last));
    }

    #[test]
    fn what_is_retired_goes_when_its_work_is_complete() {
        struct Owner(Arc<Lock<u32>>);
        impl Drop for Owner {
            fn drop(&mut self) {
                *self.0.lock() += 1;
            }
        }
        let (driver, gone) = (Scripted::new(), Arc::new(Lock::new(0)));
        let core = core(&driver);
        let lane = core.open_lane().unwrap();
        let mut uses = Uses::default();
        drop(lane.timeline().begin().unwrap());
        uses.note(lane.timeline(), lane.timeline().issued());
        core.retire(Box::new(Owner(gone.clone())), uses);
        assert_eq!(*gone.lock(), 0);
        core.settle();
        assert_eq!(*gone.lock(), 0);
        driver.complete_all();
        core.settle();
        assert_eq!(*gone.lock(), 1);
    }

    #[test]
    fn idle_pinned_memory_is_reused_and_busy_memory_is_not() {
        let driver = Scripted::new();
        let core = core(&driver);
        let lane = core.open_lane().unwrap();
        let copied = || {
            let block = core.pinned.take(1000).unwrap();
            lane.timeline().begin().unwrap().uses(&block);
        };
        copied();
        copied();
        assert_eq!(driver.calls(), ["pin 65536", "pin 65536"]);
        driver.complete_all();
        copied();
        assert_eq!(driver.calls(), Vec::<String>::new());
        assert_eq!(core.pinned.stats().in_use, 0);
    }

    #[test]
    fn staging_pins_nothing_more_after_its_first_round() {
        let driver = Scripted::new();
        let core = core(&driver);
        let lane = core.open_lane().unwrap();
        for round in 0..4 {
            // Sixteen blocks at once, whose copies are not complete when the next round begins.
            let blocks: Vec<_> = (0..16).map(|_| core.pinned.take(4 << 20).unwrap()).collect();
            blocks.iter().for_each(|block| lane.timeline().begin().unwrap().uses(block));
            let pinned = driver.calls().iter().filter(|call| call.starts_with("pin")).count();
            assert_eq!(pinned, if round == 0 { 16 } else { 0 }, "round {round}");
        }
    }

    #[test]
    fn smaller_chunks_use_larger_blocks() {
        let driver = Scripted::new();
        let core = core(&driver);
        let (lane, other) = (core.open_lane().unwrap(), core.open_lane().unwrap());
        let staged = |lane: &Lane, bytes, most| {
            let block = core.pinned.take_up_to(bytes, most, Some(lane.timeline())).unwrap();
            lane.timeline().begin().unwrap().uses(&block);
        };
        let pinned =
            || -> Vec<String> { driver.calls().into_iter().filter(|call| call.starts_with("pin")).collect() };
        staged(&lane, 4 << 20, 4 << 20);
        assert_eq!(pinned(), ["pin 4194304"]);
        // Its copy is not complete. One of the same stream comes after it, one of another stream may not.
        staged(&lane, 1 << 20, 4 << 20);
        assert_eq!(pinned(), Vec::<String>::new());
        staged(&other, 1 << 20, 4 << 20);
        assert_eq!(pinned(), ["pin 1048576"]);
        // Both are free now, and known to be. The larger one was returned first.
        driver.complete_all();
        [&lane, &other].into_iter().for_each(|lane| lane.timeline().synchronize_untold().unwrap());
        let smallest = core.pinned.take_up_to(512 << 10, 4 << 20, Some(lane.timeline())).unwrap();
        assert_eq!(core.pinned.stats().in_use, 1 << 20);
        // Who does not ask for larger blocks gets none, nor does who asks for less than there is.
        drop((core.pinned.take_for(2 << 20, None).unwrap(), smallest));
        assert_eq!(pinned(), ["pin 2097152"]);
        staged(&lane, 256 << 10, 512 << 10);
        assert_eq!(pinned(), ["pin 262144"]);
    }

    #[test]
    fn uploads_that_nobody_waits_for_do_not_pin_without_end() {
        let driver = Scripted::new();
        let core = core(&driver);
        let lane = core.open_lane().unwrap();
        for _ in 0..1000 {
            let (block, _) = core.ring.stage(&core.pinned, &[7; 200 << 10]).unwrap();
            lane.timeline().begin().unwrap().uses(&block);
        }
        assert!(core.pinned.stats().held <= 72 << 20, "{}", core.pinned.stats().held);
    }
}
