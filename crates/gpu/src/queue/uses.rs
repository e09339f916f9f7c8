//! Tracks which work uses a piece of memory or code.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Timeline;
use crate::base::{Error, Lock, Result};

/// The last work that uses a resource, for each stream that does.
#[derive(Clone, Default)]
pub(crate) struct Uses(SmallVec<[Use; 2]>);

#[derive(Clone)]
struct Use {
    timeline: Arc<Timeline>,
    /// The number of the work.
    at: u64,
}

/// A resource that work can use: device memory, pinned memory, code.
pub(crate) trait Resource: Send + Sync + 'static {
    fn usage(&self) -> &Lock<Usage>;

    /// The point after which work may use it.
    fn origin(&self) -> Option<&Origin> {
        None
    }
}

/// A point in a stream after which something may be used. For memory it is the allocation: earlier work of the
/// stream may still use the same memory.
pub(crate) struct Origin {
    timeline: Arc<Timeline>,
    at: u64,
}

impl Origin {
    /// The current end of the stream.
    pub(crate) fn now(timeline: &Arc<Timeline>) -> Self {
        Self::of(timeline, timeline.issued())
    }

    /// The end of work number `at` of the stream.
    pub(crate) fn of(timeline: &Arc<Timeline>, at: u64) -> Self {
        Self { timeline: timeline.clone(), at }
    }

    /// Makes later work of `timeline` start after this point.
    pub(crate) fn order_before(&self, timeline: &Arc<Timeline>) -> Result<()> {
        if Arc::ptr_eq(&self.timeline, timeline) || self.timeline.is_known_complete(self.at) {
            return Ok(());
        }
        if timeline.is_capturing() {
            // A capture can't wait for work outside it, but the host can.
            return self.timeline.wait_idle(self.at);
        }
        timeline.start_after(&self.timeline, self.at)
    }
}

/// The state of a resource.
#[derive(Default)]
pub(crate) struct Usage {
    /// All work that uses it, after which its place may be used for something else.
    pub(crate) uses: Uses,
    /// The work that wrote it. Whoever reads it depends on that.
    written: Uses,
    /// Whether the host has access to it now, so that no new work may use it. Only pinned memory is ever borrowed.
    pub(crate) borrowed: bool,
}

impl Usage {
    /// The state of a resource that earlier work may still use.
    pub(crate) fn used(uses: Uses) -> Self {
        Self { uses, ..Self::default() }
    }

    /// Records that work number `at` of `timeline` writes the resource.
    pub(crate) fn note_written(&mut self, timeline: &Arc<Timeline>, at: u64) {
        self.written.note_and(timeline, at, Uses::forget_successful);
    }

    /// Fails if work failed that wrote the resource, so that it does not hold what it should.
    pub(crate) fn check_written(&self) -> Result<()> {
        let failure = |known: &Use| known.timeline.failure_of(known.at);
        self.written.0.iter().find_map(failure).map_or(Ok(()), Err)
    }

    /// Fails if the host has borrowed the memory.
    pub(crate) fn check_not_borrowed(&self) -> Result<()> {
        if self.borrowed {
            return Err(Error::shape(
                "Graph::replay",
                "the graph copies pinned memory that the host is using; drop the slice of it first",
            ));
        }
        Ok(())
    }
}

impl Uses {
    /// Records that work number `at` of `timeline` uses the resource.
    pub(crate) fn note(&mut self, timeline: &Arc<Timeline>, at: u64) {
        self.note_and(timeline, at, Self::forget_complete);
    }

    /// Adds a use. For the first one of a stream it makes room with `forget`, because otherwise the uses of streams
    /// that were opened and closed would accumulate.
    fn note_and(&mut self, timeline: &Arc<Timeline>, at: u64, forget: impl FnOnce(&mut Self)) {
        match self.0.iter_mut().find(|known| Arc::ptr_eq(&known.timeline, timeline)) {
            Some(known) => known.at = known.at.max(at),
            None => {
                forget(self);
                self.0.push(Use { timeline: timeline.clone(), at });
            }
        }
    }

    /// Adds the uses of a block that is merged into this one.
    pub(crate) fn merge(&mut self, other: Uses) {
        other.0.into_iter().for_each(|theirs| self.note(&theirs.timeline, theirs.at));
    }

    /// Removes work that is known to be complete.
    pub(crate) fn forget_complete(&mut self) {
        self.0.retain(|known| !known.timeline.is_known_complete(known.at));
    }

    /// Removes work that is known to be complete and did not fail.
    fn forget_successful(&mut self) {
        self.0.retain(|known| !known.timeline.is_known_complete(known.at) || known.timeline.has_failed(known.at));
    }

    /// Whether streams other than `own` have uses that are not known to be complete. Does not query the driver.
    pub(crate) fn concern_others(&self, own: Option<&Arc<Timeline>>) -> bool {
        self.0.iter().any(|known| {
            own.is_none_or(|own| !Arc::ptr_eq(own, &known.timeline)) && !known.timeline.is_known_complete(known.at)
        })
    }

    /// Whether any of the work may still be running; queries the driver.
    pub(crate) fn are_pending(&self) -> bool {
        self.0.iter().any(|known| known.timeline.is_pending(known.at))
    }

    /// Queries the driver for how far each stream is, except those in `asked`, and adds them to it.
    pub(crate) fn poll(&self, asked: &mut SmallVec<[*const Timeline; 8]>) {
        for known in self.0.iter().filter(|known| !known.timeline.is_known_complete(known.at)) {
            if !asked.contains(&Arc::as_ptr(&known.timeline)) {
                asked.push(Arc::as_ptr(&known.timeline));
                known.timeline.poll();
            }
        }
    }

    /// Records a mark after each use that has none, so that waiting for the use does not wait for later work.
    pub(crate) fn mark(&self) {
        // If recording fails, the mark is recorded again when it is needed.
        self.0.iter().for_each(|known| drop(known.timeline.mark_after(known.at)));
    }

    /// Blocks the host until none of the work runs any more, whether it failed or not.
    pub(crate) fn wait_idle(&self) -> Result<()> {
        self.0.iter().try_for_each(|known| known.timeline.wait_idle(known.at))
    }

    /// Blocks the host until all of the work is complete. Fails if any of it failed.
    pub(crate) fn wait(&self) -> Result<()> {
        self.0.iter().try_for_each(|known| known.timeline.wait_until(known.at))
    }

    /// Makes later work of `own` start after the uses of all other streams. Afterwards `own` is the only user.
    pub(crate) fn order_before(&mut self, own: &Arc<Timeline>) -> Result<()> {
        for known in self.0.iter().filter(|known| !Arc::ptr_eq(own, &known.timeline)) {
            own.start_after(&known.timeline, known.at)?;
        }
        let at = own.issued();
        self.0.clear();
        self.note(own, at);
        Ok(())
    }
}

#[cfg(test)]
impl Uses {
    /// The number of the last use on `timeline`.
    pub(crate) fn of(&self, timeline: &Arc<Timeline>) -> Option<u64> {
        self.0.iter().find(|known| Arc::ptr_eq(&known.timeline, timeline)).map(|known| known.at)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
