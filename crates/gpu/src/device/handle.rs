//! The device handle.

use std::any::Any;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, OnceLock, Weak};

use super::keep::{Keep, KeepLimits, KeepStats};
use super::observer::{Observed, Observer};
use super::options::{Options, Staging};
use super::returned::Returned;
use crate::base::{DeviceKind, Lock, MemoryInfo, Plain, Properties, Result, numa};
use crate::code::{Cache, LaunchPolicy, Loaded, Module, Source};
use crate::drivers::Driver;
use crate::memory::{Activity, Block, Buffer, Core, Lane, PinnedBuffer, PoolStats, View};
use crate::queue::Timeline;

/// A handle to an open device. Cloning it gives another handle to the same device.
///
/// The device closes when its last handle, stream, buffer and kernel are dropped: its streams finish their work,
/// then its memory is returned to the driver.
#[derive(Clone)]
pub struct Device {
    core: Arc<Core>,
    shared: Arc<Shared>,
}

/// State that the handles and streams of a device share. Buffers and kernels hold only the [`Core`].
struct Shared {
    keep: Keep,
    /// The streams for kernels, uploads and downloads, created on first use.
    lanes: [OnceLock<Arc<Lane>>; 4],
    cache: Cache,
    launch_policy: Arc<Lock<LaunchPolicy>>,
    staging: Lock<Staging>,
    observed: Observed,
    /// A kept value that stays until the device closes.
    held: OnceLock<Arc<dyn Any + Send + Sync>>,
    returned: Returned,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.returned.close(self.lanes[0].get().map(|lane| lane.timeline()));
    }
}

impl Shared {
    fn new(core: &Arc<Core>, options: &Options) -> Arc<Self> {
        let keep =
            options.keep.unwrap_or(KeepLimits { values: 4096, bytes: core.driver.properties().memory_bytes / 16 });
        let shared = Arc::new(Self {
            keep: Keep::new(keep),
            lanes: Default::default(),
            cache: Cache::with_limit(options.cache.clone(), options.cache_limit),
            launch_policy: Arc::new(Lock::new(options.launch_policy)),
            staging: Lock::new(options.staging.clamped()),
            observed: Observed::default(),
            held: OnceLock::new(),
            returned: Returned::default(),
        });
        let above: Arc<dyn Any + Send + Sync> = shared.clone();
        *core.above.lock() = Arc::downgrade(&above);
        shared
    }
}

impl Device {
    pub(crate) fn with_driver(driver: Arc<dyn Driver>, options: Options) -> Self {
        let core = Core::new(driver, options.pooling, options.memory_limit, Box::new(options.clone()));
        core.use_chains(options.chains);
        Self { shared: Shared::new(&core, &options), core }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// The device's properties.
    pub fn properties(&self) -> &Properties {
        self.core.driver.properties()
    }

    /// CUDA or emulated.
    pub fn kind(&self) -> DeviceKind {
        self.properties().kind
    }

    /// Whether both handles refer to the same open device.
    pub fn is(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }

    /// One of the device's own streams.
    pub(crate) fn lane(&self, index: usize) -> Result<Arc<Lane>> {
        let lane = &self.shared.lanes[index];
        match lane.get() {
            Some(lane) => Ok(lane.clone()),
            None => {
                let opened = self.core.open_lane()?;
                Ok(lane.get_or_init(|| opened).clone())
            }
        }
    }

    /// Takes note of memory that another library gives back, until the device's next work.
    pub(crate) fn give_back(&self, block: &Arc<Block>) -> Result<()> {
        // Whoever takes it back needs this stream.
        self.lane(0)?;
        self.shared.returned.add(block);
        Ok(())
    }

    /// Takes memory back that other libraries have given back: later work of this stream starts after their work. Fails
    /// if that is not possible now, and the stream's next work uses such memory.
    pub(crate) fn take_back<'a, R: ?Sized + 'a>(
        &self,
        later: &Arc<Timeline>,
        used: impl Iterator<Item = &'a Arc<R>>,
    ) -> Result<()> {
        match self.shared.lanes[0].get() {
            Some(compute) => {
                let used = used.map(|resource| Arc::as_ptr(resource).cast());
                self.shared.returned.order_before(compute.timeline(), later, used)
            }
            None => Ok(()),
        }
    }

    /// Takes memory back as [`Self::take_back`] does, with no work that is to use it. Memory that can't be taken
    /// back now stays in use.
    fn take_back_now(&self) {
        if let Some(compute) = self.shared.lanes[0].get() {
            let _ = self.take_back(compute.timeline(), std::iter::empty::<&Arc<Block>>());
        }
    }

    /// Makes an observer the one that is told of the device's work, or nobody.
    pub(crate) fn observe(&self, observer: Option<Arc<dyn Observer>>) {
        self.shared.observed.set(observer);
    }

    pub(crate) fn observer(&self) -> Option<Arc<dyn Observer>> {
        self.shared.observed.get()
    }

    /// Lets the calling thread, and threads that it starts from now on, run only on CPUs of the NUMA node that the
    /// device is attached to: for threads that feed the device. Where the host has one node, nothing happens.
    pub fn stay_near(&self) {
        if let Some(node) = self.properties().numa_node {
            numa::stay_on(node);
        }
    }

    /// Blocks until every stream has finished. It does not wait for work that another thread is capturing.
    pub fn synchronize(&self) -> Result<()> {
        self.core.synchronize()
    }

    /// Counters of the device's launches and copies so far.
    pub fn activity(&self) -> Activity {
        Activity { submissions: self.core.submissions(), ..self.core.counters.activity() }
    }

    // --- memory -------------------------------------------------------------------------------------------

    /// Free and total memory of the whole device now.
    pub fn memory(&self) -> Result<MemoryInfo> {
        self.core.driver.memory()
    }

    /// The bytes that new work can use now: free on the device or idle in the pool, and within the limit.
    pub fn available_memory(&self) -> Result<usize> {
        let info = self.memory()?;
        Ok(self.available_beside(info.free))
    }

    /// The part of the [available](Self::available_memory) bytes that is idle in the pool. The driver is not
    /// asked, which takes it tens of microseconds.
    pub fn idle_memory(&self) -> usize {
        self.available_beside(0)
    }

    /// The idle bytes of the pool and these, within the limit.
    fn available_beside(&self, free: usize) -> usize {
        self.take_back_now();
        let pool = self.memory_stats();
        let free = free + pool.held.saturating_sub(pool.in_use);
        self.memory_limit().map_or(free, |limit| free.min(limit.saturating_sub(pool.in_use)))
    }

    /// The bytes that new work can use now if each of `devices` does such work, this one among them: openings of one
    /// GPU (`cuda:0`, `cuda:0#1`) share its memory. Emulated ones do not.
    pub fn available_among<'a>(&self, devices: impl IntoIterator<Item = &'a Device>) -> Result<usize> {
        let sharing = self.properties().sharing(devices.into_iter().map(Device::properties));
        Ok(self.available_memory()? / sharing)
    }

    /// Statistics of the device memory pool.
    pub fn memory_stats(&self) -> PoolStats {
        self.core.memory_stats()
    }

    /// Statistics of the pinned memory pool.
    pub fn pinned_stats(&self) -> PoolStats {
        self.core.pinned.stats()
    }

    /// The maximum bytes of live buffers, if a limit is set.
    pub fn memory_limit(&self) -> Option<usize> {
        self.core.memory_limit()
    }

    /// Sets or removes that limit.
    pub fn set_memory_limit(&self, limit: Option<usize>) {
        self.core.set_memory_limit(limit);
    }

    /// Allocates at least `bytes` from the driver now, so that later allocations need no driver call.
    pub fn hold(&self, bytes: usize) -> Result<()> {
        self.core.hold(bytes)
    }

    /// Frees everything that is not in use: cached values, idle device memory and idle pinned memory. Returns the
    /// bytes of device memory and of pinned memory that were freed.
    ///
    /// Later work has to allocate memory, load modules and compute tables again. So call it when the device will
    /// be idle, or when another process needs the memory.
    pub fn trim(&self) -> (usize, usize) {
        self.shared.keep.clear();
        self.take_back_now();
        self.core.trim()
    }

    /// Pinned (page-locked) host memory for `len` values, initialised to zero.
    pub fn pinned<T: Plain>(&self, len: usize) -> Result<PinnedBuffer<T>> {
        PinnedBuffer::new(&self.core.pinned, len)
    }

    /// The settings for copies of pageable host memory.
    pub fn staging(&self) -> Staging {
        *self.shared.staging.lock()
    }

    /// Changes how pageable host memory is copied.
    pub fn set_staging(&self, staging: Staging) {
        *self.shared.staging.lock() = staging.clamped();
    }

    // --- code ---------------------------------------------------------------------------------------------

    /// Compiles a source (or reads it from the disk cache) and loads it. A source that is loaded already is
    /// shared.
    pub fn compile(&self, source: &Source) -> Result<Module> {
        let key = source.key(&self.core.driver.compiler()?);
        // No lock is held here, so different sources compile in parallel.
        let loaded = self.kept(&key, |device| {
            let shared = &device.shared;
            let loaded = Loaded::new(&device.core, &shared.launch_policy, &shared.cache, source, &key)?;
            Ok((loaded, 0))
        })?;
        Ok(Module::new(loaded))
    }

    /// Whether [`compile`](Self::compile) would find the source in the disk cache.
    pub fn is_cached(&self, source: &Source) -> Result<bool> {
        Ok(self.shared.cache.has(&source.key(&self.core.driver.compiler()?)))
    }

    /// Counts a run of a program that was interpreted because its kernels are not there yet (see
    /// [`Activity::interpreted`]).
    pub fn count_interpreted(&self) {
        self.core.counters.interpreted();
    }

    /// The cached value for `key` (a compiled kernel, table or program), created by `make` on first use. `make`
    /// also returns the bytes of device memory and pinned memory that the value holds.
    ///
    /// The cache is bounded ([`KeepLimits`]) and evicts the least recently used values, but never one that is
    /// still referenced. If two threads request the same new key at the same time, both call `make`; one of the
    /// two values is cached and returned to both.
    ///
    /// Whoever has the key reaches the value, and may be the first to make it. Kernels that trust their numbers, and
    /// buffers whose lengths kernels rely on, are therefore kept under a type of key that nobody else can name.
    ///
    /// A value may hold buffers and kernels. A value that holds a `Device` or a `Stream` keeps the device open
    /// until [`trim`](Self::trim) is called or the process ends.
    pub fn kept<K, V>(&self, key: &K, make: impl FnOnce(&Self) -> Result<(V, usize)>) -> Result<Arc<V>>
    where
        K: Hash + Eq + Clone + Send + 'static,
        V: Send + Sync + 'static,
    {
        if let Some(value) = self.shared.keep.get(key) {
            return Ok(value);
        }
        let before = self.core.failures();
        let (value, bytes) = make(self)?;
        // Launches that are gathered are part of making it. A value that they failed to write must not be kept: who has
        // it gets the error when it is used, and the next caller makes it again.
        self.core.submit_all();
        if self.core.failures() != before {
            return Ok(Arc::new(value));
        }
        Ok(self.shared.keep.insert(key.clone(), value, bytes))
    }

    /// Keeps a value of that cache until the device closes; the first one.
    pub(crate) fn hold_kept(&self, value: Arc<dyn Any + Send + Sync>) {
        self.shared.held.get_or_init(|| value);
    }

    /// The value in that cache, if there is one.
    pub(crate) fn kept_already<K, V>(&self, key: &K) -> Option<Arc<V>>
    where
        K: Hash + Eq + Clone + Send + 'static,
        V: Send + Sync + 'static,
    {
        self.shared.keep.get(key)
    }

    /// Statistics of that cache.
    pub fn keep_stats(&self) -> KeepStats {
        self.shared.keep.stats()
    }

    /// Changes the limits of that cache.
    pub fn set_keep_limits(&self, limits: KeepLimits) {
        self.shared.keep.set_limits(limits);
    }

    /// The compiler used for this device, with its version and target.
    pub fn compiler(&self) -> Result<String> {
        self.core.driver.compiler()
    }

    /// The disk cache of compiled kernels.
    pub fn cache(&self) -> &Cache {
        &self.shared.cache
    }

    /// The policy that picks block sizes.
    pub fn launch_policy(&self) -> LaunchPolicy {
        *self.shared.launch_policy.lock()
    }

    /// Changes how block sizes are picked.
    pub fn set_launch_policy(&self, policy: LaunchPolicy) {
        *self.shared.launch_policy.lock() = policy;
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.fmt(f)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({self}, {})", self.properties().name)
    }
}

impl<T: Plain> Buffer<T> {
    /// The device that holds it.
    pub fn device(&self) -> Device {
        device_of(self.view())
    }
}

impl<T: Plain> View<'_, T> {
    /// The device that holds it.
    pub fn device(&self) -> Device {
        device_of(*self)
    }
}

/// A buffer keeps only the [`Core`] of its device alive. If every handle and stream has been dropped, the state
/// above it is created again.
fn device_of<T: Plain>(view: View<'_, T>) -> Device {
    let core = view.block().core().clone();
    let above = Weak::upgrade(&core.above.lock());
    let shared = above.and_then(|above| above.downcast::<Shared>().ok());
    let shared = shared.unwrap_or_else(|| {
        let options = core.options.downcast_ref::<Options>().expect("the options that the device was opened with");
        Shared::new(&core, options)
    });
    Device { core, shared }
}
