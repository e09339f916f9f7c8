//! An open device.

use std::any::Any;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, OnceLock, Weak};

use super::keep::{Keep, KeepLimits, KeepStats};
use super::options::{Options, Staging};
use crate::base::{Kind, Lock, MemoryInfo, Plain, Properties, Result};
use crate::code::{Cache, LaunchPolicy, Loaded, Module, Source};
use crate::drivers::Driver;
use crate::memory::{Activity, Buffer, Core, Lane, PinnedBuffer, PoolStats, View};

/// An open device. Cloning gives another handle to the same one.
///
/// It closes when the last handle, stream, buffer and kernel of it are dropped: its streams finish their work, then its
/// memory goes back to the driver.
#[derive(Clone)]
pub struct Device {
    core: Arc<Core>,
    shared: Arc<Shared>,
}

/// What the handles and streams of a device share, and its buffers and kernels do not need.
struct Shared {
    keep: Keep,
    /// The streams for kernels, copies up, and copies down, made when first asked for.
    lanes: [OnceLock<Arc<Lane>>; 3],
    cache: Cache,
    launch_policy: Arc<Lock<LaunchPolicy>>,
    staging: Lock<Staging>,
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
            staging: Lock::new(options.staging),
        });
        let above: Arc<dyn Any + Send + Sync> = shared.clone();
        *core.above.lock() = Arc::downgrade(&above);
        shared
    }
}

impl Device {
    pub(crate) fn with_driver(driver: Arc<dyn Driver>, options: Options) -> Self {
        let core = Core::new(driver, options.pooling, options.memory_limit, Box::new(options.clone()));
        Self { shared: Shared::new(&core, &options), core }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// What the device is.
    pub fn properties(&self) -> &Properties {
        self.core.driver.properties()
    }

    /// CUDA or emulated.
    pub fn kind(&self) -> Kind {
        self.properties().kind
    }

    /// Whether two handles mean the same open device.
    pub fn is(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }

    /// One of the device's own three streams.
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

    /// Waits until every stream is done. Work that a capture records on another thread is not waited for.
    pub fn synchronize(&self) -> Result<()> {
        self.core.synchronize()
    }

    /// What the device has been asked to do so far.
    pub fn activity(&self) -> Activity {
        self.core.counters.activity()
    }

    // --- memory -------------------------------------------------------------------------------------------

    /// Memory of the whole device now.
    pub fn memory(&self) -> Result<MemoryInfo> {
        self.core.driver.memory()
    }

    /// What the device's memory pool has done so far.
    pub fn memory_stats(&self) -> PoolStats {
        self.core.memory_stats()
    }

    /// What the pinned-memory pool has done so far.
    pub fn pinned_stats(&self) -> PoolStats {
        self.core.pinned.stats()
    }

    /// The most bytes that live buffers may take, if a limit is set.
    pub fn memory_limit(&self) -> Option<usize> {
        self.core.memory_limit()
    }

    /// Sets or lifts the limit.
    pub fn set_memory_limit(&self, limit: Option<usize>) {
        self.core.set_memory_limit(limit);
    }

    /// Takes at least `bytes` from the driver now, so that later allocations need no call to it.
    pub fn hold(&self, bytes: usize) -> Result<()> {
        self.core.hold(bytes)
    }

    /// Gives back what is not in use: values kept for reuse, device memory to the driver, pinned memory to the host.
    /// Returns the bytes of device memory and of pinned memory.
    ///
    /// The next work takes memory from the driver, loads modules and makes tables again. So call it when the device
    /// will be idle, or when another process needs its memory.
    pub fn trim(&self) -> (usize, usize) {
        self.shared.keep.clear();
        self.core.trim()
    }

    /// Page-locked host memory for `len` values, all zero.
    pub fn pinned<T: Plain>(&self, len: usize) -> Result<PinnedBuffer<T>> {
        PinnedBuffer::new(&self.core.pinned, len)
    }

    /// How ordinary host memory is copied.
    pub fn staging(&self) -> Staging {
        *self.shared.staging.lock()
    }

    /// Changes how ordinary host memory is copied.
    pub fn set_staging(&self, staging: Staging) {
        *self.shared.staging.lock() = Staging { chunk: staging.chunk.max(4096), threads: staging.threads.max(1) };
    }

    // --- code ---------------------------------------------------------------------------------------------

    /// Compiles a source (or finds it in the cache) and loads it. The same source is loaded once while it is in use
    /// or kept for reuse.
    pub fn compile(&self, source: &Source) -> Result<Module> {
        let key = source.key(&self.core.driver.compiler()?);
        // Different sources compile at the same time.
        let loaded = self.kept(&key, |device| {
            let shared = &device.shared;
            let loaded = Loaded::new(&device.core, &shared.launch_policy, &shared.cache, source, &key)?;
            Ok((loaded, 0))
        })?;
        Ok(Module::new(loaded))
    }

    /// The value that belongs to `key`, made when first asked for and kept for reuse: compiled kernels, tables,
    /// programs. `make` also returns the bytes of device memory and pinned memory that the value holds.
    ///
    /// The device keeps a bounded number of values ([`KeepLimits`]) and drops those that were used least recently.
    /// A value stays while somebody holds it. Two threads that ask for the same new key at the same time both make
    /// it; one of the two values is kept and returned to both.
    ///
    /// A value may hold buffers and kernels. One that holds a `Device` or a `Stream` keeps the device open until
    /// [`trim`](Self::trim) or the process's end.
    pub fn kept<K, V>(&self, key: &K, make: impl FnOnce(&Self) -> Result<(V, usize)>) -> Result<Arc<V>>
    where
        K: Hash + Eq + Clone + Send + 'static,
        V: Send + Sync + 'static,
    {
        if let Some(value) = self.shared.keep.get(key) {
            return Ok(value);
        }
        let (value, bytes) = make(self)?;
        Ok(self.shared.keep.insert(key.clone(), value, bytes))
    }

    /// What the device keeps for reuse now.
    pub fn keep_stats(&self) -> KeepStats {
        self.shared.keep.stats()
    }

    /// Changes how much the device keeps for reuse.
    pub fn set_keep_limits(&self, limits: KeepLimits) {
        self.shared.keep.set_limits(limits);
    }

    /// The compiler used for this device, with its version and target.
    pub fn compiler(&self) -> Result<String> {
        self.core.driver.compiler()
    }

    /// The cache of compiled kernels.
    pub fn cache(&self) -> &Cache {
        &self.shared.cache
    }

    /// How block sizes are picked.
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

/// A buffer keeps the memory of its device; the rest is there while a handle or a stream is, and made again if not.
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
