//! A device: its driver, its pools, its streams and its code.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use crate::arena::{Arena, PoolStats, Pooling, StreamSet};
use crate::blas::Blas;
use crate::buffer::{Block, Buffer};
use crate::bytes::Bytes;
use crate::cache::Cache;
use crate::driver::{DevicePtr, Driver};
use crate::error::{Error, Result};
use crate::foreign::{Departures, Owner};
use crate::kept::{Keep, KeepLimits, KeepStats};
use crate::launch::LaunchPolicy;
use crate::module::{Loaded, Module};
use crate::pinned::{PinnedBuffer, PinnedPool};
use crate::plain::Plain;
use crate::properties::{Kind, MemoryInfo, Properties};
use crate::source::Source;
use crate::stream::{Event, Queue, Stream, Streams};
use crate::transfer::Staging;

/// An open device. Cloning gives another handle to the same one.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

/// How a device is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The most bytes that live buffers may take.
    pub memory_limit: Option<usize>,
    /// Where buffers come from.
    pub pooling: Pooling,
    /// How block sizes are picked.
    pub launch_policy: LaunchPolicy,
    /// Where compiled kernels are kept; `None` keeps none.
    pub cache: Option<PathBuf>,
    /// How ordinary host memory is copied.
    pub staging: Staging,
}

impl Options {
    /// `RIGEL_MEMORY_LIMIT` (`2GiB`), `RIGEL_POOL` (`arena` or `direct`), `RIGEL_LAUNCH`, `RIGEL_CACHE`.
    pub fn from_env() -> Result<Self> {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let limit = set("RIGEL_MEMORY_LIMIT").map(|text| text.parse::<Bytes>()).transpose();
        let memory_limit =
            limit.map_err(|detail| Error::shape("RIGEL_MEMORY_LIMIT", detail))?.map(|bytes| bytes.0);
        let pooling = match set("RIGEL_POOL").as_deref() {
            None | Some("arena") => Pooling::Arena,
            Some("direct") => Pooling::Direct,
            Some(other) => {
                return Err(Error::shape("RIGEL_POOL", format!("{other:?} is neither `arena` nor `direct`")));
            }
        };
        Ok(Self {
            memory_limit,
            pooling,
            launch_policy: LaunchPolicy::from_env()?,
            cache: Cache::default_folder(),
            staging: Staging::default(),
        })
    }
}

/// What a device has been asked to do so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Kernels launched (those inside a replayed graph not counted).
    pub launches: u64,
    /// Graphs replayed.
    pub replays: u64,
    /// Copies from the host.
    pub uploads: u64,
    /// Bytes copied from the host.
    pub bytes_up: u64,
    /// Copies to the host.
    pub downloads: u64,
    /// Bytes copied to the host.
    pub bytes_down: u64,
}

/// Counts activity. Relaxed: the numbers are read between phases, not to order anything.
#[derive(Default)]
pub(crate) struct Counters {
    launches: AtomicU64,
    replays: AtomicU64,
    uploads: AtomicU64,
    bytes_up: AtomicU64,
    downloads: AtomicU64,
    bytes_down: AtomicU64,
}

impl Counters {
    pub(crate) fn launched(&self) {
        self.launches.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn replayed(&self) {
        self.replays.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn uploaded(&self, bytes: usize) {
        self.uploads.fetch_add(1, Ordering::Relaxed);
        self.bytes_up.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn downloaded(&self, bytes: usize) {
        self.downloads.fetch_add(1, Ordering::Relaxed);
        self.bytes_down.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// The part of a device that its code refers to: kernels keep it, not the pools.
pub(crate) struct Core {
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) counters: Counters,
    pub(crate) launch_policy: Mutex<LaunchPolicy>,
}

impl fmt::Display for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let properties = self.driver.properties();
        write!(f, "{}:{}", properties.kind, properties.ordinal)
    }
}

/// Refuses memory, streams or code of another device.
pub(crate) fn must_own(operation: &str, expected: &Arc<Core>, found: &Arc<Core>) -> Result<()> {
    if Arc::ptr_eq(expected, found) {
        return Ok(());
    }
    Err(Error::WrongDevice {
        operation: operation.into(),
        expected: expected.to_string(),
        found: found.to_string(),
    })
}

struct Inner {
    pinned: PinnedPool,
    arena: Mutex<Arena>,
    /// The streams for copies up, kernels, and copies down, made when first asked for.
    lanes: [OnceLock<Arc<Queue>>; 3],
    streams: Arc<Streams>,
    modules: Mutex<HashMap<String, Arc<Loaded>>>,
    kept: Keep,
    programs: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    cache: Cache,
    staging: Mutex<Staging>,
    departures: Departures,
    blas: Mutex<Option<Arc<Blas>>>,
    core: Arc<Core>,
}

impl Device {
    pub(crate) fn with_driver(driver: Arc<dyn Driver>, options: Options) -> Self {
        // The emulated device finds the end of a buffer by the gap behind it.
        let gap = if driver.properties().kind == Kind::Emulated { 256 } else { 0 };
        Self(Arc::new(Inner {
            pinned: PinnedPool::new(driver.clone()),
            arena: Mutex::new(Arena::new(options.pooling, options.memory_limit, gap)),
            lanes: Default::default(),
            streams: Arc::new(Streams::new()),
            modules: Mutex::default(),
            kept: Keep::new(KeepLimits { values: 4096, bytes: driver.properties().memory_bytes / 16 }),
            programs: Mutex::default(),
            cache: Cache::new(options.cache),
            staging: Mutex::new(options.staging),
            departures: Departures::default(),
            blas: Mutex::default(),
            core: Arc::new(Core {
                driver,
                counters: Counters::default(),
                launch_policy: Mutex::new(options.launch_policy),
            }),
        }))
    }

    /// What the device is.
    pub fn properties(&self) -> &Properties {
        self.0.core.driver.properties()
    }

    /// CUDA or emulated.
    pub fn kind(&self) -> Kind {
        self.properties().kind
    }

    /// Memory of the whole device now.
    pub fn memory(&self) -> Result<MemoryInfo> {
        self.0.core.driver.memory()
    }

    // --- streams ------------------------------------------------------------------------------------------

    /// The stream for kernels.
    pub fn compute(&self) -> Result<Stream> {
        self.lane(0)
    }

    /// The stream for copies to the device, beside the kernels.
    pub fn upload_lane(&self) -> Result<Stream> {
        self.lane(1)
    }

    /// The stream for copies from the device, beside the kernels.
    pub fn download_lane(&self) -> Result<Stream> {
        self.lane(2)
    }

    fn lane(&self, index: usize) -> Result<Stream> {
        let lane = &self.0.lanes[index];
        let queue = match lane.get() {
            Some(queue) => queue.clone(),
            None => {
                let made = self.new_queue()?;
                lane.get_or_init(|| made).clone()
            }
        };
        Ok(Stream::new(self.clone(), queue))
    }

    /// A further stream.
    pub fn new_stream(&self) -> Result<Stream> {
        Ok(Stream::new(self.clone(), self.new_queue()?))
    }

    fn new_queue(&self) -> Result<Arc<Queue>> {
        Ok(Arc::new(Queue::new(self.0.core.driver.clone(), self.0.streams.clone())?))
    }

    /// Waits until every stream is done.
    pub fn synchronize(&self) -> Result<()> {
        self.0.streams.with(|open| open.of(StreamSet::MAX).try_for_each(|raw| self.driver().synchronize(raw)))?;
        self.settle();
        Ok(())
    }

    // --- memory -------------------------------------------------------------------------------------------

    /// What the device's memory pool has done so far.
    pub fn memory_stats(&self) -> PoolStats {
        lock(&self.0.arena).stats()
    }

    /// Starts measuring the peak anew.
    pub fn reset_peak(&self) {
        lock(&self.0.arena).reset_peak();
    }

    /// What the pinned-memory pool has done so far.
    pub fn pinned_stats(&self) -> PoolStats {
        self.0.pinned.stats()
    }

    /// The most bytes that live buffers may take, if a limit is set.
    pub fn memory_limit(&self) -> Option<usize> {
        lock(&self.0.arena).limit()
    }

    /// Sets or lifts the limit.
    pub fn set_memory_limit(&self, limit: Option<usize>) {
        lock(&self.0.arena).set_limit(limit);
    }

    /// Takes at least `bytes` from the driver now, so that later allocations need no call to it.
    pub fn hold(&self, bytes: usize) -> Result<()> {
        lock(&self.0.arena).hold(&*self.0.core.driver, bytes)
    }

    /// Page-locked host memory for `len` values, all zero.
    pub fn pinned<T: Plain>(&self, len: usize) -> Result<PinnedBuffer<T>> {
        PinnedBuffer::new(self.clone(), len)
    }

    pub(crate) fn alloc_on<T: Plain>(&self, stream: &Stream, len: usize) -> Result<Buffer<T>> {
        self.must_own("Stream::alloc", stream.device())?;
        let bytes = len
            .checked_mul(size_of::<T>())
            .ok_or_else(|| Error::shape("Stream::alloc", format!("{len} values overflow the address space")))?;
        let queue = stream.queue();
        let block = self.0.streams.with(|open| {
            // A capture can't wait for another stream, nor the other way round.
            let usable = if queue.is_capturing() { 0 } else { !open.capturing() };
            let placed = lock(&self.0.arena).alloc(&**self.driver(), bytes, queue.bit, usable)?;
            let block = Block::new(self.clone(), placed.at, bytes, queue.bit);
            for other in open.of(placed.wait_for) {
                let event = Event::new(self.driver().clone(), false)?;
                self.driver().record_event(event.raw, other)?;
                stream.wait(&event)?;
            }
            Ok(block)
        })?;
        let buffer = Buffer::from_block(block, len);
        if queue.is_capturing() {
            queue.uses(Buffer::block(&buffer));
        }
        Ok(buffer)
    }

    pub(crate) fn free(&self, at: DevicePtr, bytes: usize, streams: StreamSet) {
        lock(&self.0.arena).free(&*self.0.core.driver, at, bytes, streams);
    }

    /// Ends the use of foreign memory that `streams` may still be using.
    pub(crate) fn let_go(&self, owner: Owner, streams: StreamSet) {
        self.0.departures.add(owner, streams);
        self.settle();
    }

    /// Drops the owners of foreign memory that no stream uses any more.
    pub(crate) fn settle(&self) {
        self.0.departures.settle(self.driver(), &self.0.streams);
    }

    pub(crate) fn pinned_pool(&self) -> &PinnedPool {
        &self.0.pinned
    }

    /// How ordinary host memory is copied.
    pub fn staging(&self) -> Staging {
        *lock(&self.0.staging)
    }

    /// Changes how ordinary host memory is copied.
    pub fn set_staging(&self, staging: Staging) {
        *lock(&self.0.staging) = Staging { chunk: staging.chunk.max(4096), threads: staging.threads.max(1) };
    }

    // --- code ---------------------------------------------------------------------------------------------

    /// Compiles a source (or finds it in the cache) and loads it. The same source is loaded once.
    pub fn compile(&self, source: &Source) -> Result<Module> {
        let key = source.key(&self.0.core.driver.compiler()?);
        if let Some(loaded) = lock(&self.0.modules).get(&key) {
            return Ok(Module::new(loaded.clone()));
        }
        // Not under the lock: different sources compile at the same time.
        let loaded = Arc::new(Loaded::new(self, source, &key)?);
        let loaded = lock(&self.0.modules).entry(key).or_insert(loaded).clone();
        Ok(Module::new(loaded))
    }

    /// The value of type `P` that belongs to this device, made when first asked for: where an operation keeps its
    /// compiled kernels.
    pub fn program<P: Any + Send + Sync>(&self, make: impl FnOnce(&Self) -> Result<P>) -> Result<Arc<P>> {
        let key = TypeId::of::<P>();
        let known = lock(&self.0.programs).get(&key).cloned();
        let program = match known {
            Some(program) => program,
            None => {
                let made: Arc<dyn Any + Send + Sync> = Arc::new(make(self)?);
                lock(&self.0.programs).entry(key).or_insert(made).clone()
            }
        };
        Ok(program.downcast().expect("the key is the type"))
    }

    /// The value that belongs to `key`, made when first asked for and kept for reuse: compiled kernels, tables,
    /// programs. `make` also returns the bytes of device memory and pinned memory that the value holds.
    ///
    /// The device keeps a bounded number of values ([`KeepLimits`]) and drops those that were used least recently.
    /// A value stays while somebody holds it. Two threads that ask for the same new key at the same time both make
    /// it; one of the two values is kept and returned to both.
    pub fn kept<K, V>(&self, key: &K, make: impl FnOnce(&Self) -> Result<(V, usize)>) -> Result<Arc<V>>
    where
        K: Hash + Eq + Clone + Send + 'static,
        V: Send + Sync + 'static,
    {
        if let Some(value) = self.0.kept.get(key) {
            return Ok(value);
        }
        let (value, bytes) = make(self)?;
        Ok(self.0.kept.insert(key.clone(), value, bytes))
    }

    /// What the device keeps for reuse now.
    pub fn keep_stats(&self) -> KeepStats {
        self.0.kept.stats()
    }

    /// Changes how much the device keeps for reuse.
    pub fn set_keep_limits(&self, limits: KeepLimits) {
        self.0.kept.set_limits(limits);
    }

    /// Lets go of all values that [`program`](Self::program) keeps. A device whose programs hold buffers stays open
    /// until this is called or the process ends.
    pub fn clear_programs(&self) {
        let programs = std::mem::take(&mut *lock(&self.0.programs));
        drop(programs);
        self.0.kept.clear();
    }

    /// The device's one library for matrix products, made when first asked for.
    pub(crate) fn kept_blas(&self, make: impl FnOnce(&Arc<Core>) -> Result<Blas>) -> Result<Arc<Blas>> {
        let mut kept = lock(&self.0.blas);
        if let Some(blas) = &*kept {
            return Ok(blas.clone());
        }
        Ok(kept.insert(Arc::new(make(&self.0.core)?)).clone())
    }

    /// The compiler used for this device, with its version and target.
    pub fn compiler(&self) -> Result<String> {
        self.0.core.driver.compiler()
    }

    /// The cache of compiled kernels.
    pub fn cache(&self) -> &Cache {
        &self.0.cache
    }

    /// How block sizes are picked.
    pub fn launch_policy(&self) -> LaunchPolicy {
        *lock(&self.0.core.launch_policy)
    }

    /// Changes how block sizes are picked.
    pub fn set_launch_policy(&self, policy: LaunchPolicy) {
        *lock(&self.0.core.launch_policy) = policy;
    }

    // --- the rest -----------------------------------------------------------------------------------------

    /// What the device has been asked to do so far.
    pub fn activity(&self) -> Activity {
        let counters = &self.0.core.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Activity {
            launches: read(&counters.launches),
            replays: read(&counters.replays),
            uploads: read(&counters.uploads),
            bytes_up: read(&counters.bytes_up),
            downloads: read(&counters.downloads),
            bytes_down: read(&counters.bytes_down),
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.0.core.counters
    }

    pub(crate) fn driver(&self) -> &Arc<dyn Driver> {
        &self.0.core.driver
    }

    /// Whether two handles mean the same open device.
    pub fn is(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn must_own(&self, operation: &str, other: &Device) -> Result<()> {
        must_own(operation, &self.0.core, &other.0.core)
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0.core
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.departures.finish(&*self.core.driver, &self.streams);
        let arena = self.arena.get_mut().expect("no panic while the lock is held");
        arena.release(&*self.core.driver);
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.core.fmt(f)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({self}, {})", self.properties().name)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic while the lock is held")
}
