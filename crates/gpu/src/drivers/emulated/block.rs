//! Runs the blocks of a grid, one at a time, on one worker.
//!
//! The threads of a block are fibers. A round resumes each thread that can run. When none can, either every live
//! thread waits at the same barrier, which then opens, or the block is deadlocked and the launch fails.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::emulation::ThreadOrder;
use super::fault::{self, Stuck};
use super::fiber::{StackSet, resume};
use super::region::{POISON, Region, SHARED};
use super::runtime::{Array, Block, MAX_ARRAYS, Slot, Thread, WARP, wait};
use super::warp::{NotNamed, Warp, lanes};
use crate::base::Lock;
use crate::drivers::Grid;

/// Unused bytes around each shared array, to detect out-of-bounds accesses.
const REDZONE: usize = 256;
/// Maximum static shared memory of a kernel, as on a GPU.
const MAX_STATIC: usize = 48 << 10;

/// A grid that workers run together.
pub(super) struct Launch<'a> {
    pub(super) entry: unsafe extern "C" fn(*const *const c_void),
    pub(super) arguments: *const *const c_void,
    pub(super) grid: Grid,
    pub(super) region: &'a Region,
    pub(super) order: ThreadOrder,
    pub(super) checked: bool,
    next: AtomicU64,
    failed: AtomicBool,
    failure: Lock<Option<String>>,
}

// SAFETY: the arguments are only read, and outlive the launch.
unsafe impl Sync for Launch<'_> {}

impl<'a> Launch<'a> {
    pub(super) fn new(
        entry: unsafe extern "C" fn(*const *const c_void),
        arguments: *const *const c_void,
        grid: Grid,
        region: &'a Region,
        order: ThreadOrder,
        checked: bool,
    ) -> Self {
        let (next, failed, failure) = (AtomicU64::new(0), AtomicBool::new(false), Lock::new(None));
        Self { entry, arguments, grid, region, order, checked, next, failed, failure }
    }

    pub(super) fn blocks(&self) -> u64 {
        self.grid.blocks.iter().map(|&n| n as u64).product()
    }

    /// Whether there are blocks that no worker has started.
    pub(super) fn has_more(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.blocks() && !self.failed.load(Ordering::Relaxed)
    }

    /// The next block, in ascending order, because a block may wait for earlier ones.
    fn take(&self) -> Option<u64> {
        if !self.has_more() {
            return None;
        }
        let block = self.next.fetch_add(1, Ordering::Relaxed);
        (block < self.blocks()).then_some(block)
    }

    pub(super) fn fail(&self, detail: String) {
        if !self.failed.swap(true, Ordering::Relaxed) {
            self.region.hurry.fetch_add(1, Ordering::Relaxed);
        }
        self.failure.lock().get_or_insert(detail);
    }

    /// The failure, if any, after all workers have finished.
    pub(super) fn into_failure(self) -> Option<String> {
        if self.failed.into_inner() {
            self.region.hurry.fetch_sub(1, Ordering::Relaxed);
        }
        self.failure.into_inner()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Ready,
    AtWarp,
    AtBlock,
    Done,
}

/// Threads that wait at a barrier of the block.
#[derive(Default)]
struct Arrivals {
    count: usize,
    /// One bit for each kind of barrier.
    kinds: u32,
    /// The number of these threads that passed a true predicate.
    ayes: usize,
}

/// One worker's part in a launch.
pub(super) struct Worker<'a> {
    launch: &'a Launch<'a>,
    set: StackSet,
    /// Shared with the fibers, so it is only accessed through the pointer.
    block: *mut Block,
    state: Vec<State>,
    /// The stack of each thread that has started.
    stack: Vec<u16>,
    /// Unused stacks. The most recently used one is taken first, because it is in the cache.
    idle: Vec<u16>,
    coordinates: Vec<[u32; 3]>,
    sequence: Vec<u16>,
    live: usize,
    arrivals: Arrivals,
    /// The offset of the next static shared array.
    shared_end: usize,
    static_bytes: usize,
}

impl<'a> Worker<'a> {
    pub(super) fn new(launch: &'a Launch<'a>, mut set: StackSet) -> Result<Self, String> {
        let [x, y, z] = launch.grid.threads;
        let count = (x * y * z) as usize;
        set.open(count).map_err(|error| format!("no stacks for {count} threads: {error}"))?;
        let dynamic = launch.region.shared(set.number) + REDZONE;
        let bytes = launch.grid.shared as usize;
        launch.region.set(dynamic, bytes, true);
        let block = Block {
            worker: 0,
            index: [0; 3],
            threads: launch.grid.threads,
            blocks: launch.grid.blocks,
            dynamic_bytes: bytes as u32,
            dynamic,
            fault: 0,
            fault_bytes: 0,
            fault_write: 0,
            arrays: 0,
            fault_address: 0,
            message: std::ptr::null(),
            array: [Array { slot: std::ptr::null(), at: 0 }; MAX_ARRAYS],
        };
        Ok(Self {
            launch,
            set,
            block: Box::into_raw(Box::new(block)),
            state: vec![State::New; count],
            stack: vec![0; count],
            idle: Vec::with_capacity(count),
            coordinates: (0..count as u32).map(|i| [i % x, i / x % y, i / x / y]).collect(),
            sequence: (0..count as u16).collect(),
            live: 0,
            arrivals: Arrivals::default(),
            shared_end: (dynamic + bytes).next_multiple_of(8) + REDZONE,
            static_bytes: 0,
        })
    }

    /// Runs the next block; false if there is none.
    pub(super) fn run_next(&mut self) -> bool {
        let Some(number) = self.launch.take() else { return false };
        let [x, y, _] = self.launch.grid.blocks.map(u64::from);
        // SAFETY: no fiber is running; the pointer came from a Box that lives as long as the worker.
        unsafe { (*self.block).index = [number % x, number / x % y, number / x / y].map(|i| i as u32) };
        match self.run_block(number) {
            Ok(()) => true,
            Err(detail) => {
                self.launch.fail(detail);
                false
            }
        }
    }

    fn run_block(&mut self, number: u64) -> Result<(), String> {
        let count = self.state.len();
        self.state.fill(State::New);
        self.live = count;
        self.arrivals = Arrivals::default();
        self.idle.clear();
        self.idle.extend((0..count as u16).rev());
        if self.launch.checked {
            self.poison_shared();
        }
        let mut random = match self.launch.order {
            ThreadOrder::Ascending => None,
            ThreadOrder::Shuffled(seed) => Some(Random::new(seed, number)),
        };
        // In ascending order, a warp runs until it waits for other warps, because its stacks are in the cache.
        let batch = if random.is_some() { count } else { WARP };
        while self.live > 0 {
            let mut waited_only = true;
            for first in (0..count).step_by(batch) {
                let last = count.min(first + batch);
                loop {
                    if let Some(random) = &mut random {
                        random.shuffle(&mut self.sequence);
                    }
                    for i in first..last {
                        let thread = self.sequence[i] as usize;
                        if matches!(self.state[thread], State::New | State::Ready) {
                            waited_only &= self.step(thread)?;
                        }
                    }
                    if !self.meet_warps(first, last)? {
                        break;
                    }
                }
            }
            if self.state.contains(&State::Ready) {
                // All threads poll for a write by another block, or by a later thread of this block.
                if waited_only {
                    if self.launch.failed.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                    std::thread::yield_now();
                }
            } else if self.live > 0 {
                self.open_barrier()?;
            }
        }
        Ok(())
    }

    /// Resumes a thread until it waits; true if it only yielded.
    fn step(&mut self, t: usize) -> Result<bool, String> {
        let thread = if self.state[t] == State::New { self.begin(t) } else { self.thread(t) };
        loop {
            // SAFETY: the thread was started and owns its stack until it ends. It runs kernel code that the caller
            // of this launch guarantees, on its own stack, and switches back here when it waits.
            let wait = unsafe {
                (*thread).wait = wait::RUN;
                resume(thread);
                (*thread).wait
            };
            self.state[t] = match wait {
                wait::DONE => {
                    self.live -= 1;
                    self.idle.push(self.stack[t]);
                    State::Done
                }
                wait::SPIN => {
                    self.state[t] = State::Ready;
                    return Ok(true);
                }
                wait::DECLARE => {
                    self.declare(thread)?;
                    continue;
                }
                // SAFETY: the fiber is suspended, so nothing else accesses thread and block.
                wait::FAULT => return Err(unsafe { fault::describe(&*thread, &*self.block, self.launch.region) }),
                wait::BLOCK_SYNC..=wait::BLOCK_COUNT => {
                    self.arrivals.count += 1;
                    self.arrivals.kinds |= 1 << wait;
                    // SAFETY: the fiber is suspended.
                    self.arrivals.ayes += unsafe { (*thread).value != 0 } as usize;
                    State::AtBlock
                }
                _ => State::AtWarp,
            };
            return Ok(false);
        }
    }

    fn thread(&self, t: usize) -> *mut Thread {
        self.set.thread(self.stack[t] as usize)
    }

    fn begin(&mut self, t: usize) -> *mut Thread {
        let stack = self.idle.pop().expect("there is a stack for each thread");
        self.stack[t] = stack;
        let thread = self.set.thread(stack as usize);
        // SAFETY: the stack is open and unused, and so is its thread; the launch's entry and arguments are valid
        // during the launch.
        unsafe {
            (*thread).block = self.block;
            (*thread).index = self.coordinates[t];
            (*thread).linear = t as u32;
            (*thread).spins = 0;
            self.set.start(stack as usize, self.launch.entry, self.launch.arguments);
        }
        thread
    }

    /// Completes warp operations whose lanes have all arrived; true if threads can run again.
    fn meet_warps(&mut self, first: usize, last: usize) -> Result<bool, String> {
        let mut any = false;
        for base in (first..last).step_by(WARP) {
            let width = WARP.min(last - base);
            let states = &self.state[base..base + width];
            let set = |wanted: fn(&State) -> bool| {
                states.iter().enumerate().fold(0u32, |set, (lane, state)| set | (wanted(state) as u32) << lane)
            };
            let waiting = set(|&state| state == State::AtWarp);
            if waiting == 0 {
                continue;
            }
            let live = set(|&state| state != State::Done);
            let mut warp = Warp { lanes: [std::ptr::null_mut(); WARP], waiting, live };
            for lane in lanes(waiting) {
                warp.lanes[lane] = self.thread(base + lane);
            }
            // SAFETY: waiting threads have started, and their fibers are suspended.
            let free = unsafe { warp.meet() }.map_err(|NotNamed { lane, mask }| {
                let who = fault::who(self.coordinates[base + lane], self.index());
                format!("{who} is lane {lane}, which is not in the mask {mask:#010x} of its warp operation")
            })?;
            lanes(free).for_each(|lane| self.state[base + lane] = State::Ready);
            any |= free != 0;
        }
        Ok(any)
    }

    /// Every live thread waits: opens the barrier if all wait at the same one, otherwise reports the deadlock.
    fn open_barrier(&mut self) -> Result<(), String> {
        let Arrivals { count, kinds, ayes } = std::mem::take(&mut self.arrivals);
        if count != self.live || !kinds.is_power_of_two() {
            let live = (0..self.state.len()).filter(|&t| self.state[t] != State::Done);
            // SAFETY: all live threads have started, and their fibers are suspended.
            let stuck = live.map(|t| unsafe { &*self.thread(t) });
            return Err(Stuck::new(stuck, self.index()).to_string());
        }
        let kind = kinds.trailing_zeros();
        let result = match kind {
            wait::BLOCK_OR => (ayes > 0) as u64,
            wait::BLOCK_AND => (ayes == count) as u64,
            _ => ayes as u64,
        };
        for t in 0..self.state.len() {
            if self.state[t] == State::AtBlock {
                self.state[t] = State::Ready;
                if kind != wait::BLOCK_SYNC {
                    // SAFETY: the thread waits, so its fiber is suspended.
                    unsafe { (*self.thread(t)).value = result };
                }
            }
        }
        Ok(())
    }

    fn index(&self) -> [u32; 3] {
        // SAFETY: the pointer came from a Box that lives as long as the worker.
        unsafe { (*self.block).index }
    }

    /// Allocates a `__shared__` declaration, at its first use in this launch on this worker.
    fn declare(&mut self, thread: *mut Thread) -> Result<(), String> {
        // SAFETY: the fiber is suspended; before this wait it stored the address of a `Slot` of its module, which
        // is loaded, in `value`.
        let (block, slot) = unsafe { (&mut *self.block, (*thread).value as *const Slot) };
        // SAFETY: as above.
        let (bytes, align) = unsafe { ((*slot).bytes as usize, (*slot).align as usize) };
        self.static_bytes += bytes;
        if block.arrays as usize == MAX_ARRAYS {
            return Err(format!("the kernel declares more than {MAX_ARRAYS} __shared__ variables"));
        }
        if self.static_bytes > MAX_STATIC {
            let size = self.static_bytes;
            return Err(format!(
                "the kernel declares {size} bytes of static shared memory; the maximum is {MAX_STATIC}"
            ));
        }
        let at = self.shared_end.next_multiple_of(align.max(16));
        self.shared_end = (at + bytes).next_multiple_of(8) + REDZONE;
        debug_assert!(self.shared_end <= self.launch.region.shared(self.set.number) + SHARED);
        self.launch.region.set(at, bytes, true);
        if self.launch.checked {
            // SAFETY: the slab of this set is mapped, and the kernel does not have the address yet.
            unsafe { std::ptr::write_bytes(at as *mut u8, POISON, bytes) };
        }
        block.array[block.arrays as usize] = Array { slot, at };
        block.arrays += 1;
        // SAFETY: the fiber is suspended.
        unsafe { (*thread).value = at as u64 };
        Ok(())
    }

    /// Overwrites shared memory, so that no block sees the contents left by the previous one.
    fn poison_shared(&mut self) {
        // SAFETY: no fiber runs; the arrays lie in the slab of this set, which is mapped; slots live as long as
        // their module.
        unsafe {
            let block = &*self.block;
            std::ptr::write_bytes(block.dynamic as *mut u8, POISON, block.dynamic_bytes as usize);
            for array in &block.array[..block.arrays as usize] {
                std::ptr::write_bytes(array.at as *mut u8, POISON, (*array.slot).bytes as usize);
            }
        }
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        let slab = self.launch.region.shared(self.set.number);
        self.launch.region.clear(slab, self.shared_end - slab);
        // SAFETY: came from `Box::into_raw`; all fibers have ended or are abandoned.
        drop(unsafe { Box::from_raw(self.block) });
    }
}

/// SplitMix64, for shuffling.
struct Random(u64);

impl Random {
    /// A sequence that depends only on seed and block, not on the worker.
    fn new(seed: u64, block: u64) -> Self {
        Self(seed ^ block.wrapping_mul(0xd134_2543_de82_ef95))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn shuffle(&mut self, items: &mut [u16]) {
        for i in (1..items.len()).rev() {
            let j = (self.next() as u128 * (i as u128 + 1)) >> 64;
            items.swap(i, j as usize);
        }
    }
}
