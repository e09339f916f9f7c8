//! Device memory: one range of addresses per device, backed by memory as it grows, carved into buffers.
//!
//! A freed block remembers the streams that may still use it. A block that only this stream used is handed out at
//! once (work on a stream runs in order); for any other block the allocating stream first waits for those streams.
//! So a steady workload makes no driver call, and no reuse can overtake a kernel.

use std::collections::{BTreeMap, BTreeSet};

use crate::driver::{DevicePtr, Driver};
use crate::error::{Error, Result};

/// Every buffer starts at a multiple of this, in bytes: the widest access and cache line that kernels care about.
const ALIGNMENT: usize = 256;

/// A set of streams of one device, by slot.
pub(crate) type StreamSet = u64;

/// How buffers get their memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// From the arena.
    Arena,
    /// Each from the driver, so that `compute-sanitizer` sees its bounds. Slow; for debugging.
    Direct,
}

/// What a device's memory pool has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Bytes in live buffers.
    pub in_use: usize,
    /// The most bytes that were ever in live buffers.
    pub peak: usize,
    /// Bytes taken from the driver.
    pub held: usize,
    /// Allocations served from memory already held.
    pub hits: u64,
    /// Allocations that had to ask the driver for memory.
    pub misses: u64,
    /// Calls to the driver's allocator.
    pub driver_calls: u64,
}

impl PoolStats {
    /// The share of allocations since `before` that needed no driver call.
    pub fn hit_rate_since(&self, before: &Self) -> f64 {
        let hits = (self.hits - before.hits) as f64;
        let all = hits + (self.misses - before.misses) as f64;
        if all == 0.0 { 1.0 } else { hits / all }
    }
}

/// Where a buffer lies, and which streams to wait for before its first use.
pub(crate) struct Placement {
    pub at: DevicePtr,
    /// Streams whose work so far must finish first.
    pub wait_for: StreamSet,
}

pub(crate) struct Arena {
    base: Option<DevicePtr>,
    reserved: usize,
    /// Bytes from the base that have memory behind them.
    mapped: usize,
    free: FreeList,
    /// Bytes left unused after each buffer, so that the emulated device sees a buffer's end.
    gap: usize,
    pooling: Pooling,
    limit: Option<usize>,
    stats: PoolStats,
}

impl Arena {
    pub(crate) fn new(pooling: Pooling, limit: Option<usize>, gap: usize) -> Self {
        Self {
            base: None,
            reserved: 0,
            mapped: 0,
            free: FreeList::default(),
            gap,
            pooling,
            limit,
            stats: PoolStats::default(),
        }
    }

    pub(crate) fn stats(&self) -> PoolStats {
        self.stats
    }

    pub(crate) fn reset_peak(&mut self) {
        self.stats.peak = self.stats.in_use;
    }

    pub(crate) fn limit(&self) -> Option<usize> {
        self.limit
    }

    pub(crate) fn set_limit(&mut self, limit: Option<usize>) {
        self.limit = limit;
    }

    fn footprint(&self, bytes: usize) -> Option<usize> {
        bytes.max(1).checked_add(self.gap)?.checked_next_multiple_of(ALIGNMENT)
    }

    /// Memory for `bytes`, for use on the stream of slot `stream`. `usable` are the streams that may be waited for
    /// (all but those being captured).
    pub(crate) fn alloc(
        &mut self,
        driver: &dyn Driver,
        bytes: usize,
        stream: StreamSet,
        usable: StreamSet,
    ) -> Result<Placement> {
        let size = self.footprint(bytes).ok_or_else(|| self.exhausted(driver, bytes))?;
        if self.limit.is_some_and(|limit| size > limit.saturating_sub(self.stats.in_use)) {
            return Err(self.exhausted(driver, bytes));
        }
        let placement = match self.pooling {
            Pooling::Direct => {
                self.stats.misses += 1;
                self.stats.driver_calls += 1;
                let at = driver.alloc(bytes.max(1)).map_err(|e| self.explain(driver, bytes, e))?;
                Placement { at, wait_for: 0 }
            }
            Pooling::Arena => {
                let found = match self.free.take(size, stream, usable) {
                    Some(found) => {
                        self.stats.hits += 1;
                        found
                    }
                    None => {
                        self.stats.misses += 1;
                        self.grow(driver, size).map_err(|e| self.explain(driver, bytes, e))?;
                        self.free.take(size, stream, usable).ok_or_else(|| self.exhausted(driver, bytes))?
                    }
                };
                let base = self.base.expect("a free block lies in a reserved range");
                let at = base.offset(found.offset);
                driver.mark(at, bytes, true);
                Placement { at, wait_for: found.streams & !stream }
            }
        };
        self.stats.in_use += size;
        self.stats.peak = self.stats.peak.max(self.stats.in_use);
        Ok(placement)
    }

    /// Takes a buffer back. `streams` may still be using it.
    pub(crate) fn free(&mut self, driver: &dyn Driver, at: DevicePtr, bytes: usize, streams: StreamSet) {
        let size = self.footprint(bytes).expect("the size of a live buffer");
        self.stats.in_use -= size;
        match self.pooling {
            Pooling::Direct => {
                self.stats.driver_calls += 1;
                driver.free(at);
            }
            Pooling::Arena => {
                let base = self.base.expect("a live buffer lies in a reserved range");
                driver.mark(at, bytes, false);
                self.free.give((at.0 - base.0) as usize, size, streams);
            }
        }
    }

    /// Holds at least `bytes` of memory from now on.
    pub(crate) fn hold(&mut self, driver: &dyn Driver, bytes: usize) -> Result<()> {
        if self.pooling == Pooling::Arena && bytes > self.mapped {
            self.map_more(driver, bytes - self.mapped).map_err(|e| self.explain(driver, bytes, e))?;
        }
        Ok(())
    }

    /// Maps enough behind the end for a block of `size` to fit there.
    fn grow(&mut self, driver: &dyn Driver, size: usize) -> Result<()> {
        let tail = self.free.tail(self.mapped);
        let needed = size - tail.min(size);
        // Growing by a share of what is held keeps the number of driver calls logarithmic.
        let generous = needed.max((self.mapped / 4).min(1 << 30));
        match self.map_more(driver, generous) {
            Err(_) if generous > needed => self.map_more(driver, needed),
            result => result,
        }
    }

    fn map_more(&mut self, driver: &dyn Driver, bytes: usize) -> Result<()> {
        let unit = driver.granularity();
        let base = match self.base {
            Some(base) => base,
            None => {
                self.reserved = driver.properties().memory_bytes.next_multiple_of(unit);
                self.stats.driver_calls += 1;
                *self.base.insert(driver.reserve(self.reserved)?)
            }
        };
        let bytes = bytes.checked_next_multiple_of(unit).unwrap_or(usize::MAX);
        if bytes > self.reserved - self.mapped {
            return Err(self.exhausted(driver, bytes));
        }
        self.stats.driver_calls += 1;
        driver.map(base.offset(self.mapped), bytes)?;
        self.free.give(self.mapped, bytes, 0);
        self.mapped += bytes;
        self.stats.held = self.mapped;
        Ok(())
    }

    fn exhausted(&self, driver: &dyn Driver, requested: usize) -> Error {
        let properties = driver.properties();
        let free = driver.memory().map_or(0, |m| m.free) + (self.mapped - self.stats.in_use.min(self.mapped));
        Error::OutOfMemory {
            device: format!("{}:{}", properties.kind, properties.ordinal),
            requested,
            free: self.limit.map_or(free, |limit| free.min(limit.saturating_sub(self.stats.in_use))),
            total: properties.memory_bytes,
            in_use: self.stats.in_use,
            limit: self.limit,
        }
    }

    /// A driver's "out of memory", with the arena's numbers.
    fn explain(&self, driver: &dyn Driver, requested: usize, error: Error) -> Error {
        match error {
            Error::OutOfMemory { .. } => self.exhausted(driver, requested),
            other => other,
        }
    }

    /// Gives everything back to the driver. No buffer may be live.
    pub(crate) fn release(&mut self, driver: &dyn Driver) {
        if let Some(base) = self.base.take() {
            driver.release(base, self.reserved);
        }
    }
}

/// Free blocks by place, so that neighbours merge, and by size, so that the best fit is found.
#[derive(Default)]
struct FreeList {
    by_offset: BTreeMap<usize, Free>,
    by_size: BTreeSet<(usize, usize)>,
}

#[derive(Clone, Copy)]
struct Free {
    size: usize,
    streams: StreamSet,
}

struct Found {
    offset: usize,
    streams: StreamSet,
}

impl FreeList {
    /// The smallest block that fits, preferring one that no other stream has used.
    fn take(&mut self, size: usize, stream: StreamSet, usable: StreamSet) -> Option<Found> {
        let mut shared = None;
        for &(_, offset) in self.by_size.range((size, 0)..) {
            let streams = self.by_offset[&offset].streams;
            if streams & !stream == 0 {
                return Some(self.carve(offset, size));
            }
            if shared.is_none() && streams & !stream & !usable == 0 {
                shared = Some(offset);
            }
        }
        shared.map(|offset| self.carve(offset, size))
    }

    fn carve(&mut self, offset: usize, size: usize) -> Found {
        let block = self.remove(offset);
        if block.size > size {
            self.insert(offset + size, Free { size: block.size - size, streams: block.streams });
        }
        Found { offset, streams: block.streams }
    }

    fn give(&mut self, mut offset: usize, mut size: usize, mut streams: StreamSet) {
        if let Some((&before, block)) = self.by_offset.range(..offset).next_back()
            && before + block.size == offset
        {
            let block = self.remove(before);
            offset = before;
            size += block.size;
            streams |= block.streams;
        }
        if self.by_offset.contains_key(&(offset + size)) {
            let block = self.remove(offset + size);
            size += block.size;
            streams |= block.streams;
        }
        self.insert(offset, Free { size, streams });
    }

    /// Bytes free right before `end`.
    fn tail(&self, end: usize) -> usize {
        match self.by_offset.last_key_value() {
            Some((&offset, block)) if offset + block.size == end => block.size,
            _ => 0,
        }
    }

    fn insert(&mut self, offset: usize, block: Free) {
        self.by_size.insert((block.size, offset));
        self.by_offset.insert(offset, block);
    }

    fn remove(&mut self, offset: usize) -> Free {
        let block = self.by_offset.remove(&offset).expect("a free block starts here");
        self.by_size.remove(&(block.size, offset));
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: StreamSet = StreamSet::MAX;

    #[test]
    fn neighbours_merge_and_the_best_fit_is_taken() {
        let mut free = FreeList::default();
        free.give(0, 256, 0);
        free.give(1024, 2048, 0);
        free.give(256, 256, 0);
        assert_eq!(free.by_offset.len(), 2);
        assert_eq!(free.take(512, 1, ANY).unwrap().offset, 0);
        assert_eq!(free.take(512, 1, ANY).unwrap().offset, 1024);
        assert_eq!(free.take(1536, 1, ANY).unwrap().offset, 1536);
        assert!(free.take(1, 1, ANY).is_none());
    }

    #[test]
    fn a_stream_prefers_its_own_memory() {
        let mut free = FreeList::default();
        free.give(0, 256, 0b10);
        free.give(512, 512, 0b01);
        let own = free.take(256, 0b01, ANY).unwrap();
        assert_eq!((own.offset, own.streams), (512, 0b01));
        let other = free.take(256, 0b10, ANY).unwrap();
        assert_eq!((other.offset, other.streams), (0, 0b10));
    }

    #[test]
    fn a_stream_under_capture_is_not_waited_for() {
        let mut free = FreeList::default();
        free.give(0, 256, 0b10);
        assert!(free.take(256, 0b01, !0b10).is_none());
        assert_eq!(free.take(256, 0b01, ANY).unwrap().streams, 0b10);
    }

    #[test]
    fn random_traffic_never_overlaps_and_ends_whole() {
        let mut free = FreeList::default();
        let end = 1 << 16;
        free.give(0, end, 0);
        let mut live: Vec<(usize, usize)> = Vec::new();
        let mut state = 1u64;
        for _ in 0..5000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let draw = (state >> 33) as usize;
            if draw & 1 == 0 || live.is_empty() {
                let size = (draw >> 1) % 4096 + 1;
                if let Some(found) = free.take(size, 1, ANY) {
                    assert!(found.offset + size <= end);
                    assert!(live.iter().all(|&(o, s)| found.offset + size <= o || o + s <= found.offset));
                    live.push((found.offset, size));
                }
            } else {
                let (offset, size) = live.swap_remove((draw >> 1) % live.len());
                free.give(offset, size, 1);
            }
        }
        for (offset, size) in live {
            free.give(offset, size, 1);
        }
        assert_eq!(free.by_offset.len(), 1);
        assert_eq!(free.tail(end), end);
    }
}
