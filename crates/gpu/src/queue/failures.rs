//! Work that failed after it had its number, by its numbers.
//!
//! A gathered launch is counted before the driver sees it, and a device may be lost while it works. Whoever notices is
//! rarely the one who needs the values: another thread that launches on the same stream, an event that measures, a
//! guard that is dropped. So an error is not handed to the first who comes by. It stays here, and everybody who reads
//! what the work was to write, or waits for it, gets it, as often as they ask.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::{Error, Lock};

/// The most failures that a stream remembers one by one. Beyond them, two become one that covers the work between them,
/// too: those with the least work between them.
const MOST_FAILURES: usize = 256;

/// The failed work of one stream.
pub(super) struct Failures {
    /// All work with a smaller number succeeded, as far as known.
    from: AtomicU64,
    /// All work with a larger number succeeded, as far as known.
    to: AtomicU64,
    /// The known failures, in the order of their numbers.
    known: Lock<Vec<Failure>>,
    /// The number up to which somebody was told of failed work.
    told: AtomicU64,
}

/// Work number `first` to number `last` failed.
struct Failure {
    first: u64,
    last: u64,
    error: Error,
}

impl Failure {
    fn covers(&self, at: u64) -> bool {
        (self.first..=self.last).contains(&at)
    }
}

impl Default for Failures {
    fn default() -> Self {
        Self {
            from: AtomicU64::new(u64::MAX),
            to: AtomicU64::new(0),
            known: Lock::default(),
            told: AtomicU64::new(0),
        }
    }
}

impl Failures {
    /// Records that work number `first` to number `last` failed.
    pub(super) fn add(&self, first: u64, last: u64, error: Error) {
        let mut known = self.known.lock();
        let at = known.partition_point(|failure| failure.first <= first);
        known.insert(at, Failure { first, last, error });
        if known.len() > MOST_FAILURES {
            let between = |i: &usize| known[i + 1].first.saturating_sub(known[*i].last);
            let nearest = (0..known.len() - 1).min_by_key(between).expect("several");
            let second = known.remove(nearest + 1);
            known[nearest].last = known[nearest].last.max(second.last);
        }
        self.to.fetch_max(last, Ordering::Release);
        self.from.fetch_min(first, Ordering::Release);
    }

    /// Whether work number `at` failed, for those who do not pass the error on.
    pub(super) fn cover(&self, at: u64) -> bool {
        self.may_cover(at) && self.known.lock().iter().any(|failure| failure.covers(at))
    }

    fn may_cover(&self, at: u64) -> bool {
        self.from.load(Ordering::Acquire) <= at && at <= self.to.load(Ordering::Acquire)
    }

    /// The error of work number `at`, if it failed.
    pub(super) fn of(&self, at: u64) -> Option<Error> {
        if !self.may_cover(at) {
            return None;
        }
        let known = self.known.lock();
        let failure = known.iter().find(|failure| failure.covers(at))?;
        self.is_told(failure);
        Some(failure.error.clone())
    }

    /// The error of the first work after number `since` that failed.
    pub(super) fn after(&self, since: u64) -> Option<Error> {
        if self.to.load(Ordering::Acquire) <= since {
            return None;
        }
        let known = self.known.lock();
        let failure = known.iter().find(|failure| failure.last > since)?;
        self.is_told(failure);
        Some(failure.error.clone())
    }

    /// Records that the caller of the work up to number `last` got its error.
    pub(super) fn tell(&self, last: u64) {
        self.told.fetch_max(last, Ordering::Relaxed);
    }

    /// The number up to which somebody was told of failed work.
    pub(super) fn told(&self) -> u64 {
        self.told.load(Ordering::Relaxed)
    }

    fn is_told(&self, failure: &Failure) {
        // A lost device is told to everybody.
        if failure.last != u64::MAX {
            self.tell(failure.last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(detail: &str) -> Error {
        Error::shape("test", detail)
    }

    fn text(found: Option<Error>) -> Option<String> {
        found.map(|error| error.to_string())
    }

    #[test]
    fn work_in_the_range_fails_and_no_other() {
        let failures = Failures::default();
        assert!(failures.of(7).is_none() && failures.after(0).is_none());
        failures.add(5, 8, error("first"));
        failures.add(11, 11, error("second"));
        let failed: Vec<u64> = (0..20).filter(|&at| failures.of(at).is_some()).collect();
        assert_eq!(failed, [5, 6, 7, 8, 11]);
        assert!(text(failures.of(8)).unwrap().contains("first"), "as often as somebody asks");
        assert!(text(failures.after(7)).unwrap().contains("first"));
        assert!(text(failures.after(8)).unwrap().contains("second"));
        assert!(failures.after(11).is_none());
    }

    #[test]
    fn failures_are_bounded_and_none_is_forgotten() {
        let failures = Failures::default();
        let numbers = (1..=3 * MOST_FAILURES as u64).map(|i| 10 * i);
        numbers.clone().for_each(|at| failures.add(at, at, error("failed")));
        assert!(failures.known.lock().len() <= MOST_FAILURES);
        assert!(numbers.clone().all(|at| failures.of(at).is_some()));
        assert!(failures.of(5).is_none() && failures.after(10_000).is_none());
    }

    /// Work that is kept for long, between two failures that are far apart, stays good.
    #[test]
    fn work_between_failures_that_are_far_apart_is_not_blamed() {
        let failures = Failures::default();
        failures.add(5, 5, error("failed"));
        let numbers = (0..3 * MOST_FAILURES as u64).map(|i| 1_000_000 + 10 * i);
        numbers.for_each(|at| failures.add(at, at, error("failed")));
        assert!(failures.of(5).is_some() && failures.of(1_000_000).is_some());
        assert!((6..1_000_000).step_by(997).all(|at| failures.of(at).is_none() && !failures.cover(at)));
    }
}
