//! Chains of launches: kernels that are submitted to the driver with one call.
//!
//! A launch costs the host several microseconds, whatever the kernel does. An instantiated graph whose nodes are
//! kernels in a row runs any kernels once their functions, shapes and arguments are set in its nodes, which costs a
//! tenth of a launch each. A chain is such a graph; it is made once for each number of kernels.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::{Lock, Result};
use crate::drivers::{Chain, Driver, Launch, Raw};

/// The idle chains of a device, by length.
pub(crate) struct ChainPool {
    driver: Arc<dyn Driver>,
    idle: Lock<HashMap<usize, Vec<Chain>>>,
    submissions: AtomicU64,
}

impl ChainPool {
    pub(crate) fn new(driver: Arc<dyn Driver>) -> Arc<Self> {
        Arc::new(Self { driver, idle: Lock::default(), submissions: AtomicU64::new(0) })
    }

    /// The number of calls so far that submitted kernels.
    pub(crate) fn submissions(&self) -> u64 {
        self.submissions.load(Ordering::Relaxed)
    }

    pub(super) fn submitted(&self) {
        self.submissions.fetch_add(1, Ordering::Relaxed);
    }

    fn take(&self, length: usize) -> Option<Chain> {
        self.idle.lock().get_mut(&length)?.pop()
    }
}

impl Drop for ChainPool {
    fn drop(&mut self) {
        for chain in std::mem::take(self.idle.get_mut()).into_values().flatten() {
            self.driver.destroy_chain(chain);
        }
    }
}

/// The most chains of one length that a stream has under way. Beyond them, launches are submitted one by one.
const MOST_UNDER_WAY: usize = 64;

/// The chains of one stream. The driver runs the launches of a chain one after another, so streams do not share them.
///
/// The driver says that a graph may be set anew while it runs, but in long runs with many threads kernels were found
/// with descriptors of their launch destroyed, and no more since a chain is used again only when its last launch is
/// complete (docs/performance.md).
pub(super) struct Chains {
    pub(super) pool: Arc<ChainPool>,
    /// By length: the chains in the order of their last launches, with the number of the work that these were.
    by_length: HashMap<usize, VecDeque<(Chain, u64)>>,
}

impl Chains {
    pub(super) fn new(pool: Arc<ChainPool>) -> Self {
        Self { pool, by_length: HashMap::new() }
    }

    /// Submits launches, in order, as work up to number `at` of a stream whose work is complete up to number
    /// `completed`.
    ///
    /// # Safety
    ///
    /// As for [`CodeDriver::launch`](crate::drivers::CodeDriver::launch), for each of them.
    pub(super) unsafe fn submit(
        &mut self,
        driver: &dyn Driver,
        stream: Raw,
        launches: &[Launch],
        at: u64,
        completed: u64,
    ) -> Result<()> {
        let length = launches.len();
        let under_way = self.by_length.entry(length).or_default();
        let known = under_way.pop_front_if(|(_, last)| *last <= completed).map(|(chain, _)| chain);
        let known = known.or_else(|| self.pool.take(length));
        if known.is_none() && under_way.len() >= MOST_UNDER_WAY {
            return launches.iter().try_for_each(|launch| {
                self.pool.submitted();
                // SAFETY: guaranteed by the caller.
                unsafe { driver.launch(stream, launch.function, launch.grid, &launch.parameters()) }
            });
        }
        // SAFETY: guaranteed by the caller.
        let (chain, result) = unsafe { driver.launch_chain(stream, launches, known) };
        let calls = if chain.is_some() { 1 } else { length };
        (0..calls).for_each(|_| self.pool.submitted());
        under_way.extend(chain.map(|chain| (chain, at)));
        result
    }

    /// Gives all chains back to the pool, once the stream's work is complete.
    pub(super) fn give_back(&mut self) {
        let mut idle = self.pool.idle.lock();
        for (length, chains) in self.by_length.drain() {
            idle.entry(length).or_default().extend(chains.into_iter().map(|(chain, _)| chain));
        }
    }
}
