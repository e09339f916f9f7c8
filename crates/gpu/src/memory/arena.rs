//! Device memory: one reserved address range per device, mapped as it grows and divided into buffers.
//!
//! A freed block records the work that may still use it. A stream reuses a block immediately if no other stream
//! used it or the other streams' work is complete; otherwise the stream first waits, on the device, for exactly
//! that work. So a workload in steady state allocates nothing from the driver, and a block is never reused while a
//! kernel still accesses it.
//!
//! The range has addresses for all of the device's memory, and memory is mapped behind parts of it by CUDA's virtual
//! memory calls. So opening a device takes no memory, several processes can share a GPU, no large buffer fails because
//! memory came in separate chunks, and the number of driver calls stays logarithmic.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::free_list::{Claim, Found, FreeList};
use crate::base::{Error, Result};
use crate::drivers::{DevicePtr, Driver};
use crate::queue::Uses;

/// Alignment of every buffer in bytes: covers the widest access and a cache line.
const ALIGNMENT: usize = 256;

/// The allocation policy of buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// Buffers are allocated from the arena.
    Arena,
    /// Each buffer has a driver allocation of its own, so that `compute-sanitizer` sees its bounds. Slow; for
    /// debugging.
    Direct,
}

/// Statistics of a memory pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// Bytes in live buffers.
    pub in_use: usize,
    /// The peak of `in_use`.
    pub peak: usize,
    /// Bytes allocated from the driver.
    pub held: usize,
    /// Allocations served without the driver.
    pub hits: u64,
    /// Allocations that needed memory from the driver.
    pub misses: u64,
    /// Number of driver allocation calls.
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

/// A buffer's address, and earlier work on its memory that may still be running.
pub(super) struct Placement {
    pub(super) at: DevicePtr,
    pub(super) uses: Uses,
}

pub(super) struct Arena {
    base: Option<DevicePtr>,
    reserved: usize,
    /// The mappings: the length of each by its offset from the base. A mapping can only be unmapped as a whole.
    pieces: BTreeMap<usize, usize>,
    free: FreeList,
    /// Unused bytes after each buffer, so that the emulated device detects accesses past its end.
    gap: usize,
    pooling: Pooling,
    limit: Option<usize>,
    stats: PoolStats,
    /// The peak of each `PeakWatch`, by its number.
    watches: BTreeMap<u64, usize>,
    next_watch: u64,
}

impl Arena {
    pub(super) fn new(pooling: Pooling, limit: Option<usize>, gap: usize) -> Self {
        Self {
            base: None,
            reserved: 0,
            pieces: BTreeMap::new(),
            free: FreeList::default(),
            gap,
            pooling,
            limit,
            stats: PoolStats::default(),
            watches: BTreeMap::new(),
            next_watch: 0,
        }
    }

    pub(super) fn stats(&self) -> PoolStats {
        self.stats
    }

    /// Begins to measure a peak, starting from the bytes in use now.
    pub(super) fn watch(&mut self) -> u64 {
        self.next_watch += 1;
        self.watches.insert(self.next_watch, self.stats.in_use);
        self.next_watch
    }

    /// The peak bytes in use since the watch began.
    pub(super) fn watched(&self, watch: u64) -> usize {
        self.watches.get(&watch).copied().unwrap_or(0)
    }

    pub(super) fn end_watch(&mut self, watch: u64) {
        self.watches.remove(&watch);
    }

    pub(super) fn limit(&self) -> Option<usize> {
        self.limit
    }

    pub(super) fn set_limit(&mut self, limit: Option<usize>) {
        self.limit = limit;
    }

    fn footprint(&self, bytes: usize) -> Option<usize> {
        bytes.max(1).checked_add(self.gap)?.checked_next_multiple_of(ALIGNMENT)
    }

    /// Allocates `bytes`.
    pub(super) fn alloc(&mut self, driver: &dyn Driver, bytes: usize, claim: Claim<'_>) -> Result<Placement> {
        let size = self.footprint(bytes).ok_or_else(|| self.exhausted(driver, bytes))?;
        if self.limit.is_some_and(|limit| size > limit.saturating_sub(self.stats.in_use)) {
            return Err(self.exhausted(driver, bytes));
        }
        let placement = match self.pooling {
            Pooling::Direct => {
                self.stats.misses += 1;
                self.stats.driver_calls += 1;
                let at = driver.alloc(bytes.max(1)).map_err(|e| self.explain(driver, bytes, e))?;
                Placement { at, uses: Uses::default() }
            }
            Pooling::Arena => {
                let Found { offset, uses } = self.place(driver, size, bytes, claim)?;
                let at = self.base.expect("a free block lies in a reserved range").offset(offset);
                driver.mark(at, bytes, true);
                Placement { at, uses }
            }
        };
        self.stats.in_use += size;
        self.stats.peak = self.stats.peak.max(self.stats.in_use);
        self.watches.values_mut().for_each(|peak| *peak = (*peak).max(self.stats.in_use));
        Ok(placement)
    }

    fn place(&mut self, driver: &dyn Driver, size: usize, bytes: usize, claim: Claim<'_>) -> Result<Found> {
        if let Some(found) = self.free.take(size, claim) {
            self.stats.hits += 1;
            return Ok(found);
        }
        self.stats.misses += 1;
        match (self.grow(driver, size, claim), claim) {
            (Ok(Some(found)), _) => return Ok(found),
            (Ok(None), _) => {}
            // A replayed graph can't wait for memory, but its capture can.
            (Err(Error::OutOfMemory { .. }), Claim::Graph) => self.free.wait()?,
            (Err(error), _) => return Err(self.explain(driver, bytes, error)),
        }
        if let Some(found) = self.free.take(size, claim) {
            return Ok(found);
        }
        // New memory may have merged with memory that is in use.
        self.free.wait()?;
        self.free.take(size, claim).ok_or_else(|| self.exhausted(driver, bytes))
    }

    /// Frees a buffer. `uses` is the work that may still access it.
    pub(super) fn free(&mut self, driver: &dyn Driver, at: DevicePtr, bytes: usize, uses: Uses) {
        let size = self.footprint(bytes).expect("the size of a live buffer");
        self.stats.in_use -= size;
        match self.pooling {
            Pooling::Direct => {
                // The driver would free the memory while a kernel may still access it. If it can't tell when that ends,
                // the memory is left to the context.
                if uses.wait_idle().is_ok() {
                    self.stats.driver_calls += 1;
                    driver.free(at);
                }
            }
            Pooling::Arena => {
                let base = self.base.expect("a live buffer lies in a reserved range");
                driver.mark(at, bytes, false);
                self.free.give((at.0 - base.0) as usize, size, uses);
            }
        }
    }

    /// Grows the arena to at least `bytes`.
    pub(super) fn hold(&mut self, driver: &dyn Driver, bytes: usize) -> Result<()> {
        if self.pooling == Pooling::Direct || bytes <= self.stats.held {
            return Ok(());
        }
        self.reserve(driver)?;
        let needed = bytes - self.stats.held;
        let gap =
            self.gaps().into_iter().max_by_key(|&(_, length)| length).filter(|&(_, length)| length >= needed);
        let Some((start, _)) = gap else { return Err(self.exhausted(driver, bytes)) };
        let mapped = self.map(driver, start, needed).map_err(|error| self.explain(driver, bytes, error))?;
        self.free.give(start, mapped, Uses::default());
        Ok(())
    }

    /// Returns idle memory to the driver. The result is the number of bytes.
    pub(super) fn trim(&mut self, driver: &dyn Driver) -> usize {
        let Some(base) = self.base else { return 0 };
        let before = self.stats.held;
        for (offset, bytes) in self.pieces.clone() {
            if self.free.withdraw(offset, bytes) {
                driver.unmap(base.offset(offset), bytes);
                self.stats.driver_calls += 1;
                self.pieces.remove(&offset);
                self.stats.held -= bytes;
            }
        }
        before - self.stats.held
    }

    fn reserve(&mut self, driver: &dyn Driver) -> Result<DevicePtr> {
        if let Some(base) = self.base {
            return Ok(base);
        }
        self.reserved = driver.properties().memory_bytes.next_multiple_of(driver.granularity());
        self.stats.driver_calls += 1;
        Ok(*self.base.insert(driver.reserve(self.reserved)?))
    }

    /// Offset and length of each unmapped part of the reserved range.
    fn gaps(&self) -> Vec<(usize, usize)> {
        let mut gaps = Vec::new();
        let mut end = 0;
        for (&offset, &bytes) in &self.pieces {
            if offset > end {
                gaps.push((end, offset - end));
            }
            end = offset + bytes;
        }
        if end < self.reserved {
            gaps.push((end, self.reserved - end));
        }
        gaps
    }

    /// Maps enough memory for a block of `size`, counting free neighbours, and returns the block if all of it is
    /// newly mapped.
    fn grow(&mut self, driver: &dyn Driver, size: usize, claim: Claim<'_>) -> Result<Option<Found>> {
        self.reserve(driver)?;
        let place = self.gaps().into_iter().find_map(|(start, length)| {
            let before = self.free.before(start, claim);
            let needed = size.saturating_sub(before);
            let fits = needed <= length || needed <= length + self.free.after(start + length, claim);
            fits.then_some((start, length, needed.min(length)))
        });
        let Some((start, length, needed)) = place else { return Err(self.exhausted(driver, size)) };
        // Growing in proportion to the memory held keeps the number of driver calls logarithmic.
        let generous = needed.max((self.stats.held / 4).min(1 << 30)).min(length);
        let mapped = match self.map(driver, start, generous) {
            Err(_) if generous > needed => self.map(driver, start, needed)?,
            result => result?,
        };
        if mapped < size {
            self.free.give(start, mapped, Uses::default());
            return Ok(None);
        }
        // Not through the free list, where new memory would merge with neighbours that work still uses.
        if mapped > size {
            self.free.give(start + size, mapped - size, Uses::default());
        }
        Ok(Some(Found { offset: start, uses: Uses::default() }))
    }

    /// Maps `bytes`, rounded up to the granularity, at an offset where that range is unmapped. Returns the mapped
    /// bytes.
    fn map(&mut self, driver: &dyn Driver, offset: usize, bytes: usize) -> Result<usize> {
        let base = self.base.expect("reserved before anything is mapped");
        // Mappings and the reserved range are multiples of the granularity, so unmapped ranges are too.
        let bytes = bytes.next_multiple_of(driver.granularity());
        self.stats.driver_calls += 1;
        driver.map(base.offset(offset), bytes)?;
        self.pieces.insert(offset, bytes);
        self.stats.held += bytes;
        Ok(bytes)
    }

    fn exhausted(&self, driver: &dyn Driver, requested: usize) -> Error {
        let properties = driver.properties();
        let free = driver.memory().map_or(0, |m| m.free) + self.stats.held.saturating_sub(self.stats.in_use);
        Error::OutOfMemory {
            device: properties.to_string(),
            requested,
            free: self.limit.map_or(free, |limit| free.min(limit.saturating_sub(self.stats.in_use))),
            total: properties.memory_bytes,
            in_use: self.stats.in_use,
            limit: self.limit,
        }
    }

    /// Adds the arena's numbers to the driver's out-of-memory error.
    fn explain(&self, driver: &dyn Driver, requested: usize, error: Error) -> Error {
        match error {
            Error::OutOfMemory { .. } => self.exhausted(driver, requested),
            other => other,
        }
    }

    /// Returns all memory to the driver. No buffer may be live and no stream may be open. If the driver can't tell when
    /// the last work on it ends, the memory stays mapped, because a kernel may still write to it, and the driver stays,
    /// too, which would unmap it in the end.
    pub(super) fn release(&mut self, driver: &Arc<dyn Driver>) {
        let Some(base) = self.base.take() else { return };
        match self.free.wait() {
            Ok(()) => driver.release(base, self.reserved),
            Err(_) => std::mem::forget(driver.clone()),
        }
    }
}
