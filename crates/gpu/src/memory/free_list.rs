//! The free blocks of an arena.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::queue::{Timeline, Uses};

/// Free blocks by offset, for merging neighbours, and by size, for finding the best fit.
#[derive(Default)]
pub(super) struct FreeList {
    by_offset: BTreeMap<usize, Free>,
    by_size: BTreeSet<(usize, usize)>,
}

struct Free {
    size: usize,
    /// Work that may still use the block.
    uses: Uses,
}

/// A block taken from the list.
pub(super) struct Found {
    pub(super) offset: usize,
    pub(super) uses: Uses,
}

/// The future user of a block.
#[derive(Clone, Copy)]
pub(super) enum Claim<'a> {
    /// A stream. Its work runs in order and can wait for other streams.
    Stream(&'a Arc<Timeline>),
    /// A graph. It may run on any stream, so it needs idle memory.
    Graph,
}

impl Claim<'_> {
    /// Whether a block can be used without waiting, as far as known.
    fn can_use(self, uses: &Uses) -> bool {
        match self {
            Self::Stream(timeline) => !uses.concern_others(Some(timeline)),
            Self::Graph => !uses.concern_others(None),
        }
    }
}

impl FreeList {
    /// The smallest block of at least `size` bytes that can be used without waiting. If there is none, a stream
    /// gets the smallest block of that size and has to wait for it.
    pub(super) fn take(&mut self, size: usize, claim: Claim<'_>) -> Option<Found> {
        let found = self.ready(size, claim).or_else(|| {
            // Query the driver only if no block is known to be usable, and once per stream.
            let mut asked = SmallVec::new();
            self.fitting(size).for_each(|offset| self.by_offset[&offset].uses.poll(&mut asked));
            self.ready(size, claim)
        });
        let offset = match (found, claim) {
            (Some(offset), _) => Some(offset),
            (None, Claim::Stream(_)) => self.fitting(size).next(),
            (None, Claim::Graph) => None,
        };
        offset.map(|offset| self.carve(offset, size))
    }

    /// The offsets of blocks of at least `size` bytes, smallest block first.
    fn fitting(&self, size: usize) -> impl Iterator<Item = usize> {
        self.by_size.range((size, 0)..).map(|&(_, offset)| offset)
    }

    fn ready(&self, size: usize, claim: Claim<'_>) -> Option<usize> {
        self.fitting(size).find(|offset| claim.can_use(&self.by_offset[offset].uses))
    }

    fn carve(&mut self, offset: usize, size: usize) -> Found {
        let mut block = self.remove(offset);
        block.uses.forget_complete();
        if block.size > size {
            self.insert(offset + size, Free { size: block.size - size, uses: block.uses.clone() });
        }
        Found { offset, uses: block.uses }
    }

    /// Returns a block to the list and merges it with free neighbours.
    pub(super) fn give(&mut self, mut offset: usize, mut size: usize, mut uses: Uses) {
        if let Some((&before, block)) = self.by_offset.range(..offset).next_back()
            && before + block.size == offset
        {
            let block = self.remove(before);
            offset = before;
            size += block.size;
            uses.merge(block.uses);
        }
        if self.by_offset.contains_key(&(offset + size)) {
            let block = self.remove(offset + size);
            size += block.size;
            uses.merge(block.uses);
        }
        uses.forget_complete();
        self.insert(offset, Free { size, uses });
    }

    /// Free bytes directly before `end` that can be used without waiting.
    pub(super) fn before(&self, end: usize, claim: Claim<'_>) -> usize {
        match self.by_offset.range(..end).next_back() {
            Some((&offset, block)) if offset + block.size == end && claim.can_use(&block.uses) => block.size,
            _ => 0,
        }
    }

    /// Free bytes from `start` on that can be used without waiting.
    pub(super) fn after(&self, start: usize, claim: Claim<'_>) -> usize {
        self.by_offset.get(&start).filter(|block| claim.can_use(&block.uses)).map_or(0, |block| block.size)
    }

    /// Blocks the host until no work uses any free block.
    pub(super) fn wait(&self) -> crate::base::Result<()> {
        self.by_offset.values().try_for_each(|block| block.uses.wait_idle())
    }

    /// Removes `[offset, offset + size)` if all of it is free and idle.
    pub(super) fn withdraw(&mut self, offset: usize, size: usize) -> bool {
        let Some((&start, block)) = self.by_offset.range(..=offset).next_back() else { return false };
        let end = start + block.size;
        if end < offset + size || block.uses.are_pending() {
            return false;
        }
        self.remove(start);
        if start < offset {
            self.insert(start, Free { size: offset - start, uses: Uses::default() });
        }
        if end > offset + size {
            self.insert(offset + size, Free { size: end - offset - size, uses: Uses::default() });
        }
        true
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
    use crate::queue::scripted::Scripted;

    #[test]
    fn neighbours_merge_and_the_best_fit_is_taken() {
        let mut free = FreeList::default();
        free.give(0, 256, Uses::default());
        free.give(1024, 2048, Uses::default());
        free.give(256, 256, Uses::default());
        assert_eq!(free.by_offset.len(), 2);
        assert_eq!(free.take(512, Claim::Graph).unwrap().offset, 0);
        assert_eq!(free.take(512, Claim::Graph).unwrap().offset, 1024);
        assert_eq!(free.take(1536, Claim::Graph).unwrap().offset, 1536);
        assert!(free.take(1, Claim::Graph).is_none());
    }

    #[test]
    fn a_stream_prefers_memory_that_it_need_not_wait_for() {
        let driver = Scripted::new();
        let (own, other) = (driver.queue(), driver.queue());
        let mut free = FreeList::default();
        free.give(0, 256, driver.used_on(&other));
        free.give(512, 512, driver.used_on(&own));
        assert_eq!(free.take(256, Claim::Stream(&own.timeline)).unwrap().offset, 512);
        // Only the other stream's memory is left, with the use to wait for.
        let rest = free.take(512, Claim::Stream(&own.timeline));
        assert!(rest.is_none(), "256 bytes are left in each block");
        let found = free.take(256, Claim::Stream(&other.timeline)).unwrap();
        assert_eq!((found.offset, found.uses.of(&other.timeline)), (0, Some(1)));
    }

    #[test]
    fn a_use_vanishes_when_its_work_is_complete() {
        let driver = Scripted::new();
        let (own, other) = (driver.queue(), driver.queue());
        let mut free = FreeList::default();
        let uses = driver.used_on(&other);
        uses.mark();
        free.give(0, 256, uses);
        // The other stream continues with unrelated work.
        driver.complete_all();
        driver.used_on(&other);
        let found = free.take(256, Claim::Stream(&own.timeline)).unwrap();
        assert_eq!(found.uses.len(), 0);
    }

    #[test]
    fn a_graph_takes_idle_memory_only() {
        let driver = Scripted::new();
        let own = driver.queue();
        let mut free = FreeList::default();
        free.give(0, 256, driver.used_on(&own));
        assert!(free.take(256, Claim::Graph).is_none());
        assert_eq!(free.before(256, Claim::Graph), 0, "an unusable tail does not count");
        driver.complete_all();
        assert!(free.take(256, Claim::Graph).is_some());
    }

    #[test]
    fn only_idle_memory_is_withdrawn() {
        let driver = Scripted::new();
        let own = driver.queue();
        let mut free = FreeList::default();
        free.give(0, 1024, driver.used_on(&own));
        assert!(!free.withdraw(256, 512));
        driver.complete_all();
        assert!(free.withdraw(256, 512));
        assert!(!free.withdraw(0, 512));
        let sizes: Vec<_> = free.by_offset.iter().map(|(&offset, block)| (offset, block.size)).collect();
        assert_eq!(sizes, [(0, 256), (768, 256)]);
    }

    #[test]
    fn random_traffic_never_overlaps_and_ends_whole() {
        let mut free = FreeList::default();
        let end = 1 << 16;
        free.give(0, end, Uses::default());
        let mut live: Vec<(usize, usize)> = Vec::new();
        let mut state = 1u64;
        for _ in 0..5000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let draw = (state >> 33) as usize;
            if draw & 1 == 0 || live.is_empty() {
                let size = (draw >> 1) % 4096 + 1;
                if let Some(found) = free.take(size, Claim::Graph) {
                    assert!(found.offset + size <= end);
                    assert!(live.iter().all(|&(o, s)| found.offset + size <= o || o + s <= found.offset));
                    live.push((found.offset, size));
                }
            } else {
                let (offset, size) = live.swap_remove((draw >> 1) % live.len());
                free.give(offset, size, Uses::default());
            }
        }
        for (offset, size) in live {
            free.give(offset, size, Uses::default());
        }
        assert_eq!(free.by_offset.len(), 1);
        assert_eq!(free.before(end, Claim::Graph), end);
    }
}
