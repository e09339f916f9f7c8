//! Chains of launches: kernels that are submitted to the driver with one call.
//!
//! A launch costs the host several microseconds, whatever the kernel does. An instantiated graph whose nodes are
//! kernels in a row runs them with other shapes and arguments once these are set in its nodes, which costs a tenth of a
//! launch each. A chain is such a graph. It is made when a sequence of kernels is launched for the second time.
//!
//! A chain is only used for the kernels that it was made of. The driver documents that a node can be given another
//! kernel, but if one takes more local memory or more bytes of parameters than the other, launches of other chains run
//! with wrong descriptors: CUDA 13.0 on an H200 then gave wrong results, illegal addresses and misaligned ones (the
//! test `kernels_of_all_kinds_are_gathered`).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::base::{Lock, Result};
use crate::drivers::{Chain, Driver, Launch, Raw};

/// The numbers of the kernels of a chain, in order.
type Kernels = SmallVec<[u64; 16]>;

/// The most sequences of kernels that a device knows. Beyond them it begins anew, so that kernels which are no longer
/// used do not take memory for ever.
const MOST_SEQUENCES: usize = 4096;

/// The idle chains of a device, by their kernels. A sequence without chains was launched before.
pub(crate) struct ChainPool {
    driver: Arc<dyn Driver>,
    idle: Lock<HashMap<Kernels, Vec<Chain>>>,
    submissions: AtomicU64,
}

/// What a device knows of a sequence of kernels.
enum Known {
    Idle(Chain),
    LaunchedBefore,
    New,
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

    fn take(&self, kernels: &Kernels) -> Known {
        let mut idle = self.idle.lock();
        match idle.get_mut(kernels) {
            Some(chains) => chains.pop().map_or(Known::LaunchedBefore, Known::Idle),
            None => {
                if idle.len() >= MOST_SEQUENCES {
                    idle.drain().flat_map(|(_, chains)| chains).for_each(|chain| self.driver.destroy_chain(chain));
                }
                idle.insert(kernels.clone(), Vec::new());
                Known::New
            }
        }
    }
}

impl Drop for ChainPool {
    fn drop(&mut self) {
        for chain in std::mem::take(self.idle.get_mut()).into_values().flatten() {
            self.driver.destroy_chain(chain);
        }
    }
}

/// The most chains of the same kernels that a stream has. Beyond them, launches are submitted one by one.
const MOST_UNDER_WAY: usize = 64;

/// The chains of one stream. The driver runs the launches of a chain one after another, so streams do not share them.
/// A chain is used again only when its last launch is complete.
pub(super) struct Chains {
    pub(super) pool: Arc<ChainPool>,
    /// By kernels: the chains in the order of their last launches, with the number of the work that these were.
    by_kernels: HashMap<Kernels, VecDeque<(Chain, u64)>>,
}

impl Chains {
    pub(super) fn new(pool: Arc<ChainPool>) -> Self {
        Self { pool, by_kernels: HashMap::new() }
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
        let one_by_one = || {
            launches.iter().try_for_each(|launch| {
                self.pool.submitted();
                // SAFETY: guaranteed by the caller.
                unsafe { driver.launch(stream, launch.function, launch.grid, &launch.parameters()) }
            })
        };
        if launches.len() < 2 {
            return one_by_one();
        }
        let kernels: Kernels = launches.iter().map(|launch| launch.kernel).collect();
        let under_way = self.by_kernels.get_mut(&kernels);
        let complete = under_way.and_then(|chains| chains.pop_front_if(|(_, last)| *last <= completed));
        let known = match complete {
            Some((chain, _)) => Known::Idle(chain),
            None => self.pool.take(&kernels),
        };
        let chain = match known {
            Known::Idle(chain) => Some(chain),
            Known::LaunchedBefore if self.has_room(&kernels) => None,
            Known::LaunchedBefore | Known::New => return one_by_one(),
        };
        // SAFETY: guaranteed by the caller.
        let (chain, result) = unsafe { driver.launch_chain(stream, launches, chain) };
        let calls = if chain.is_some() { 1 } else { launches.len() };
        (0..calls).for_each(|_| self.pool.submitted());
        if let Some(chain) = chain {
            self.by_kernels.entry(kernels).or_default().push_back((chain, at));
        }
        result
    }

    /// Whether the stream may have one more chain of these kernels.
    fn has_room(&self, kernels: &Kernels) -> bool {
        match self.by_kernels.get(kernels) {
            Some(chains) => chains.len() < MOST_UNDER_WAY,
            None => self.by_kernels.len() < MOST_SEQUENCES,
        }
    }

    /// Gives all chains back to the pool, once the stream's work is complete.
    pub(super) fn give_back(&mut self) {
        let mut idle = self.pool.idle.lock();
        for (kernels, chains) in self.by_kernels.drain() {
            idle.entry(kernels).or_default().extend(chains.into_iter().map(|(chain, _)| chain));
        }
    }
}
