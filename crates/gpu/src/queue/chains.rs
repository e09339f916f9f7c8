//! Chains of launches: kernels that are submitted to the driver with one call.
//!
//! A launch costs the host several microseconds, whatever the kernel does. An instantiated graph whose nodes are
//! kernels in a row runs them with other shapes and arguments once these are set in its nodes, which costs a tenth of a
//! launch each. A chain is such a graph. It is made when a sequence of kernels is launched for the second time.
//!
//! # The rule of CUDA that chains keep
//!
//! **A node of an instantiated graph only ever runs the kernel that it was made with.** What is set in it before a
//! launch is the shape and the arguments, never the function. So chains are kept by the sequence of their kernels
//! ([`ChainPool`]), kernels are numbered and no number is used again
//! ([`kernel_number`](crate::drivers::kernel_number)), because a driver's handle may be that of another kernel after
//! a module was unloaded, and a sequence that is new gets a chain of its own.
//!
//! The driver documents that a node can be given another kernel. But if the two differ in local memory and in the bytes
//! of their parameters, launches of other chains run with wrong descriptors: CUDA 13.0 on an H200 then gave wrong
//! results, illegal addresses and misaligned ones. The test `kernels_of_all_kinds_are_gathered` shows it within seconds
//! if the rule is broken, and `rigel doctor` runs the same launches for a second (`testing/chains.rs`), in case a
//! driver does not keep even this rule. Then `RIGEL_CHAINS=off` has gathered launches submitted one by one.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use smallvec::SmallVec;

use crate::base::{Lock, Result};
use crate::drivers::{Chain, Driver, Launch, Raw};

/// The numbers of the kernels of a chain, in order.
type Kernels = SmallVec<[u64; 16]>;

/// The most sequences of kernels that a device remembers. Beyond them it forgets all.
const MOST_SEQUENCES: usize = 1 << 14;

/// The most chains of a device. Beyond them, those that are idle are destroyed.
const MOST_CHAINS: usize = 1 << 12;

/// The idle chains of a device, by their kernels. A sequence without chains was launched before.
pub(crate) struct ChainPool {
    driver: Arc<dyn Driver>,
    idle: Lock<HashMap<Kernels, Vec<Chain>>>,
    /// The number of chains, idle or not.
    chains: AtomicUsize,
    submissions: AtomicU64,
    /// The number of submissions that failed.
    failures: AtomicU64,
    /// Whether all gathered launches are launched one by one.
    is_off: AtomicBool,
}

/// The state of a sequence of kernels on a device.
enum Known {
    Idle(Chain),
    LaunchedBefore,
    New,
}

impl ChainPool {
    pub(crate) fn new(driver: Arc<dyn Driver>) -> Arc<Self> {
        let (chains, submissions, failures) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self {
            driver,
            idle: Lock::default(),
            chains,
            submissions,
            failures,
            is_off: AtomicBool::new(false),
        })
    }

    /// Switches chains on or off: gathered launches are submitted by chains, or one by one.
    pub(crate) fn use_them(&self, on: bool) {
        self.is_off.store(!on, Ordering::Relaxed);
    }

    /// The number of calls so far that submitted kernels.
    pub(crate) fn submissions(&self) -> u64 {
        self.submissions.load(Ordering::Relaxed)
    }

    /// The number of submissions of gathered launches so far that failed.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Acquire)
    }

    pub(super) fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Release);
    }

    pub(super) fn submitted(&self, calls: usize) {
        self.submissions.fetch_add(calls as u64, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn chains(&self) -> usize {
        self.chains.load(Ordering::Relaxed)
    }

    fn take(&self, kernels: &Kernels) -> Known {
        let mut idle = self.idle.lock();
        if let Some(chains) = idle.get_mut(kernels) {
            return chains.pop().map_or(Known::LaunchedBefore, Known::Idle);
        }
        let forgotten = if idle.len() < MOST_SEQUENCES { HashMap::new() } else { std::mem::take(&mut *idle) };
        idle.insert(kernels.clone(), Vec::new());
        drop(idle);
        self.destroy(forgotten.into_values().flatten());
        Known::New
    }

    /// Whether there may be one more chain, once idle ones are destroyed if there are too many.
    fn has_room(&self) -> bool {
        let is_full = || self.chains.load(Ordering::Relaxed) >= MOST_CHAINS;
        if is_full() {
            let idle: Vec<Chain> = self.idle.lock().values_mut().flat_map(std::mem::take).collect();
            self.destroy(idle);
        }
        !is_full()
    }

    /// Destroys chains. The driver completes a launch in progress.
    fn destroy(&self, chains: impl IntoIterator<Item = Chain>) {
        for chain in chains {
            self.driver.destroy_chain(chain);
            self.chains.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for ChainPool {
    fn drop(&mut self) {
        let idle = std::mem::take(self.idle.get_mut());
        self.destroy(idle.into_values().flatten());
    }
}

/// The chains of one stream. The driver runs the launches of a chain one after another, so streams do not share them.
/// A chain is used again only when its last launch is known to be complete, or at its very end: the last kernel may
/// have told the host so itself (`work/small.rs`).
pub(super) struct Chains {
    pub(super) pool: Arc<ChainPool>,
    /// The chains of each sequence of kernels, in the order of their last launches, each with the number of the
    /// work of that launch.
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
        let pool = self.pool.clone();
        let one_by_one = || {
            launches.iter().try_for_each(|launch| {
                pool.submitted(1);
                // SAFETY: guaranteed by the caller.
                unsafe { driver.launch(stream, launch.function, launch.grid, &launch.parameters()) }
            })
        };
        if launches.len() < 2 || pool.is_off.load(Ordering::Relaxed) {
            return one_by_one();
        }
        let kernels: Kernels = launches.iter().map(|launch| launch.kernel).collect();
        let own = self.by_kernels.get_mut(&kernels);
        let known = match own.and_then(|chains| chains.pop_front_if(|(_, last)| *last <= completed)) {
            Some((chain, _)) => Known::Idle(chain),
            None => self.pool.take(&kernels),
        };
        let chain = match known {
            Known::Idle(chain) => Some(chain),
            Known::LaunchedBefore if self.has_room(completed) => None,
            Known::LaunchedBefore | Known::New => return one_by_one(),
        };
        let before = usize::from(chain.is_some());
        // SAFETY: guaranteed by the caller.
        let (chain, result) = unsafe { driver.launch_chain(stream, launches, chain) };
        self.pool.submitted(if chain.is_some() { 1 } else { launches.len() });
        // It was made, or it was discarded, or neither.
        self.pool.chains.fetch_add(usize::from(chain.is_some()), Ordering::Relaxed);
        self.pool.chains.fetch_sub(before, Ordering::Relaxed);
        if let Some(chain) = chain {
            self.by_kernels.entry(kernels).or_default().push_back((chain, at));
        }
        result
    }

    /// Whether there may be one more chain, once those are destroyed that the device or this stream does not use, if
    /// there are too many.
    fn has_room(&mut self, completed: u64) -> bool {
        if self.pool.has_room() {
            return true;
        }
        for chains in self.by_kernels.values_mut() {
            let complete = chains.partition_point(|(_, last)| *last <= completed);
            self.pool.destroy(chains.drain(..complete).map(|(chain, _)| chain));
        }
        self.by_kernels.retain(|_, chains| !chains.is_empty());
        self.pool.has_room()
    }

    /// Destroys all chains, of a stream that is destroyed.
    pub(super) fn destroy(&mut self) {
        let chains = self.by_kernels.drain().flat_map(|(_, chains)| chains);
        self.pool.destroy(chains.map(|(chain, _)| chain));
    }

    /// Gives all chains back to the pool, once the stream's work is complete.
    pub(super) fn give_back(&mut self) {
        let mut idle = self.pool.idle.lock();
        for (kernels, chains) in self.by_kernels.drain() {
            idle.entry(kernels).or_default().extend(chains.into_iter().map(|(chain, _)| chain));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::drivers::{Grid, Raw};
    use crate::queue::Queue;
    use crate::queue::scripted::Scripted;

    /// Launches kernels together, and returns the calls that this takes.
    fn run(driver: &Scripted, queue: &Queue, kernels: &[u64]) -> Vec<String> {
        let grid = Grid { blocks: [1; 3], threads: [1; 3], shared: 0 };
        queue.timeline.gather(true);
        for &kernel in kernels {
            let mut work = queue.timeline.begin().unwrap();
            // SAFETY: the scripted driver runs nothing, and there are no arguments.
            unsafe { work.launch((kernel, Raw(kernel)), grid, &[], std::iter::empty()) }.unwrap();
        }
        queue.timeline.gather(false);
        driver.calls().into_iter().filter(|call| call.contains("launch") || call.contains("chain")).collect()
    }

    /// All work is complete, and the queue knows it.
    fn complete(driver: &Scripted, queue: &Queue) {
        queue.timeline.poll();
        driver.complete_all();
        queue.timeline.poll();
        driver.calls();
    }

    #[test]
    fn a_chain_runs_its_own_kernels_and_one_launch_at_a_time() {
        let driver = Scripted::new();
        let queue = driver.queue();
        assert_eq!(run(&driver, &queue, &[1, 2]), ["launch", "launch"], "new kernels");
        let made = run(&driver, &queue, &[1, 2]);
        let [make, first] = &made[..] else { panic!("{made:?}") };
        assert_eq!(*make, format!("make {first}"));
        let second = run(&driver, &queue, &[1, 2]);
        assert_eq!(second[0], format!("make {}", second[1]), "the first may be running");
        assert_ne!(second[1], *first);
        assert_eq!(run(&driver, &queue, &[1]), ["launch"]);
        assert_eq!(run(&driver, &queue, &[2, 1]), ["launch", "launch"], "other kernels");
        complete(&driver, &queue);
        assert_eq!(run(&driver, &queue, &[1, 2]), std::slice::from_ref(first));
        assert_eq!(run(&driver, &queue, &[1, 2]), second[1..]);
        assert!(run(&driver, &queue, &[2, 1])[0].starts_with("make"));
        drop(queue);
        let mut destroyed = driver.calls();
        destroyed.retain(|call| call.starts_with("destroy chain"));
        assert_eq!(destroyed.len(), 3, "{destroyed:?}");
        destroyed.sort();
        destroyed.dedup();
        assert_eq!(destroyed.len(), 3, "one was destroyed twice: {destroyed:?}");
    }

    #[test]
    fn chains_are_bounded() {
        let driver = Scripted::new();
        let queue = driver.queue();
        let beyond = super::MOST_CHAINS as u64 + 10;
        // The chains of one stream, whose work is complete.
        for kernel in 1..beyond {
            run(&driver, &queue, &[kernel, kernel]);
            let calls = run(&driver, &queue, &[kernel, kernel]);
            assert!(calls.iter().any(|call| call.starts_with("make")), "{calls:?}");
            if kernel % 64 == 0 {
                complete(&driver, &queue);
            }
        }
        let chains = |queue: &Queue| queue.timeline.chains();
        assert!(chains(&queue) <= super::MOST_CHAINS, "{}", chains(&queue));
        assert!(run(&driver, &queue, &[beyond - 1, beyond - 1])[0].contains("chain"), "the last ones are there");
    }
}
