//! A driver around another one, whose n-th call of a kind fails.
//!
//! It shows what everything above the driver makes of a failure at any point: an error, or the right result, and never
//! a wrong one. Calls are counted whether one is to fail or not, so a run without a failure tells how many points there
//! are. The call that fails does not reach the driver behind: nothing is launched, copied, recorded or waited for.
//!
//! It also counts the memory and the handles that the driver behind has given out and not got back, which is how a leak
//! shows once the device is closed.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use super::driver::{
    BlasDriver, Chain, CodeDriver, CopyDriver, DevicePtr, Driver, Function, Gemm, GraphDriver, Grid, Image,
    Launch, MemoryDriver, Occupancy, PeerCopy, PeerDriver, QueueDriver, Raw, Unit,
};
use crate::base::{Error, Link, Lock, MemoryInfo, Properties, Result};

/// A kind of call of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// Reserving, mapping or allocating device memory.
    Allocate,
    /// Allocating pinned host memory.
    Pin,
    /// Launching one kernel, a product of matrices or a graph.
    Launch,
    /// Submitting gathered launches together.
    Chain,
    /// Copying or filling memory.
    Copy,
    /// Recording an event.
    Record,
    /// Waiting for a stream or an event, on the host or on the device, or asking an event whether it is complete or for
    /// its time.
    Wait,
    /// Instantiating a graph. For gathered launches this is no failure: they are then launched one by one.
    Instantiate,
    /// Creating a stream or an event.
    Create,
    /// Loading a module, or finding a kernel in it.
    Load,
}

impl Call {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::Allocate,
        Self::Pin,
        Self::Launch,
        Self::Chain,
        Self::Copy,
        Self::Record,
        Self::Wait,
        Self::Instantiate,
        Self::Create,
        Self::Load,
    ];

    /// The call's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocate => "allocate",
            Self::Pin => "pin",
            Self::Launch => "launch",
            Self::Chain => "chain",
            Self::Copy => "copy",
            Self::Record => "record",
            Self::Wait => "wait",
            Self::Instantiate => "instantiate",
            Self::Create => "create",
            Self::Load => "load",
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The beginning of every injected failure's message.
const INJECTED: &str = "injected fault";

/// The number of calls of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls([u64; Call::ALL.len()]);

impl Calls {
    /// The number of calls of one kind.
    pub fn of(&self, call: Call) -> u64 {
        self.0[call as usize]
    }
}

/// The resources that the driver has handed out and not got back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Bytes of device memory.
    pub device_bytes: usize,
    /// Bytes of pinned memory.
    pub pinned_bytes: usize,
    /// Streams.
    pub streams: i64,
    /// Events.
    pub events: i64,
    /// Graphs, instantiated graphs and chains.
    pub graphs: i64,
    /// Loaded modules.
    pub modules: i64,
}

/// The failures of one device's driver: which call is to fail, and what was called. It outlives the device.
#[derive(Clone, Default)]
pub struct Faults(Arc<Lock<State>>);

#[derive(Default)]
struct State {
    calls: Calls,
    armed: Option<Armed>,
    struck: u64,
    mapped: BTreeMap<u64, usize>,
    pinned: BTreeMap<usize, usize>,
    streams: i64,
    events: i64,
    graphs: i64,
    modules: i64,
}

/// The calls that are to go wrong: so many of a kind, from a number on.
#[derive(Clone, Copy, Debug)]
struct Armed {
    call: Call,
    first: u64,
    count: u64,
    /// Whether they do nothing and say that they have succeeded, instead of failing.
    silently: bool,
}

/// The outcome of a call that does not fail: it reaches the driver, or is swallowed.
#[derive(PartialEq, Eq)]
enum Fate {
    Reached,
    Swallowed,
}

impl Faults {
    /// Counts calls anew. The call of this kind with this number, from 1, fails.
    pub fn arm(&self, call: Call, number: u64) {
        self.arm_several(call, number, 1);
    }

    /// Counts calls anew. Of the calls of this kind, `count` fail, from this number on; calls are counted from 1.
    pub fn arm_several(&self, call: Call, number: u64, count: u64) {
        self.set(Some(Armed { call, first: number, count, silently: false }));
    }

    /// Counts calls anew. The call of this kind with this number does nothing and reports success, as a broken
    /// driver would. Only for [`Call::Chain`]; other calls fail.
    pub fn swallow(&self, call: Call, number: u64) {
        self.set(Some(Armed { call, first: number, count: 1, silently: call == Call::Chain }));
    }

    /// Counts calls anew, and none fails.
    pub fn disarm(&self) {
        self.set(None);
    }

    fn set(&self, armed: Option<Armed>) {
        let mut state = self.0.lock();
        (state.calls, state.armed, state.struck) = (Calls::default(), armed, 0);
    }

    /// The calls since the last [`Self::arm`] or [`Self::disarm`].
    pub fn calls(&self) -> Calls {
        self.0.lock().calls
    }

    /// The number of calls that have failed since then.
    pub fn struck(&self) -> u64 {
        self.0.lock().struck
    }

    /// The resources that the driver has handed out and not got back.
    pub fn held(&self) -> Held {
        let state = self.0.lock();
        Held {
            device_bytes: state.mapped.values().sum(),
            pinned_bytes: state.pinned.values().sum(),
            streams: state.streams,
            events: state.events,
            graphs: state.graphs,
            modules: state.modules,
        }
    }

    /// Whether a message is of an injected failure.
    pub fn is_named_in(message: &str) -> bool {
        message.contains(INJECTED)
    }

    fn note(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.lock());
    }

    /// Counts a call. Fails if it is one that is to fail.
    fn count(&self, call: Call, device: &Properties, operation: &'static str) -> Result<Fate> {
        let mut state = self.0.lock();
        state.calls.0[call as usize] += 1;
        let number = state.calls.of(call);
        let meant =
            |armed: &Armed| armed.call == call && number >= armed.first && number - armed.first < armed.count;
        let Some(armed) = state.armed.filter(meant) else { return Ok(Fate::Reached) };
        state.struck += 1;
        if armed.silently {
            return Ok(Fate::Swallowed);
        }
        let detail = format!("{INJECTED}: call {number} of kind \"{call}\" was made to fail");
        Err(Error::Driver { device: device.to_string(), operation, detail })
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.lock();
        f.debug_struct("Faults").field("armed", &state.armed).field("struck", &state.struck).finish()
    }
}

/// A driver, and its failures.
struct Injected {
    behind: Arc<dyn Driver>,
    faults: Faults,
}

/// Puts failures in front of a driver.
pub(crate) fn around(behind: Arc<dyn Driver>, faults: &Faults) -> Arc<dyn Driver> {
    Arc::new(Injected { behind, faults: faults.clone() })
}

impl Injected {
    fn count(&self, call: Call, operation: &'static str) -> Result<Fate> {
        self.faults.count(call, self.behind.properties(), operation)
    }
}

impl Driver for Injected {
    fn properties(&self) -> &Properties {
        self.behind.properties()
    }
}

impl MemoryDriver for Injected {
    fn memory(&self) -> Result<MemoryInfo> {
        self.behind.memory()
    }

    fn granularity(&self) -> usize {
        self.behind.granularity()
    }

    fn reserve(&self, bytes: usize) -> Result<DevicePtr> {
        self.count(Call::Allocate, "reserving addresses")?;
        self.behind.reserve(bytes)
    }

    fn map(&self, at: DevicePtr, bytes: usize) -> Result<()> {
        self.count(Call::Allocate, "mapping memory")?;
        self.behind.map(at, bytes)?;
        self.faults.note(|state| _ = state.mapped.insert(at.0, bytes));
        Ok(())
    }

    fn unmap(&self, at: DevicePtr, bytes: usize) {
        self.behind.unmap(at, bytes);
        self.faults.note(|state| _ = state.mapped.remove(&at.0));
    }

    fn release(&self, base: DevicePtr, bytes: usize) {
        self.behind.release(base, bytes);
        self.faults.note(|state| state.mapped.retain(|at, _| !(base.0..base.0 + bytes as u64).contains(at)));
    }

    fn alloc(&self, bytes: usize) -> Result<DevicePtr> {
        self.count(Call::Allocate, "allocating memory")?;
        let at = self.behind.alloc(bytes)?;
        self.faults.note(|state| _ = state.mapped.insert(at.0, bytes));
        Ok(at)
    }

    fn free(&self, at: DevicePtr) {
        self.behind.free(at);
        self.faults.note(|state| _ = state.mapped.remove(&at.0));
    }

    fn mark(&self, at: DevicePtr, bytes: usize, live: bool) {
        self.behind.mark(at, bytes, live);
    }

    fn check_foreign(&self, at: DevicePtr, bytes: usize) -> Result<()> {
        self.behind.check_foreign(at, bytes)
    }

    fn alloc_pinned(&self, bytes: usize) -> Result<NonNull<u8>> {
        self.count(Call::Pin, "pinning memory")?;
        let at = self.behind.alloc_pinned(bytes)?;
        self.faults.note(|state| _ = state.pinned.insert(at.as_ptr() as usize, bytes));
        Ok(at)
    }

    fn free_pinned(&self, at: NonNull<u8>, bytes: usize) {
        self.behind.free_pinned(at, bytes);
        self.faults.note(|state| _ = state.pinned.remove(&(at.as_ptr() as usize)));
    }
}

impl QueueDriver for Injected {
    fn create_stream(&self) -> Result<Raw> {
        self.count(Call::Create, "creating a stream")?;
        let stream = self.behind.create_stream()?;
        self.faults.note(|state| state.streams += 1);
        Ok(stream)
    }

    fn destroy_stream(&self, stream: Raw) {
        self.behind.destroy_stream(stream);
        self.faults.note(|state| state.streams -= 1);
    }

    fn synchronize(&self, stream: Raw) -> Result<()> {
        self.count(Call::Wait, "waiting for a stream")?;
        self.behind.synchronize(stream)
    }

    fn wait_event(&self, stream: Raw, event: Raw) -> Result<()> {
        self.count(Call::Wait, "making a stream wait")?;
        self.behind.wait_event(stream, event)
    }

    fn create_event(&self, timing: bool) -> Result<Raw> {
        self.count(Call::Create, "creating an event")?;
        let event = self.behind.create_event(timing)?;
        self.faults.note(|state| state.events += 1);
        Ok(event)
    }

    fn destroy_event(&self, event: Raw) {
        self.behind.destroy_event(event);
        self.faults.note(|state| state.events -= 1);
    }

    fn record_event(&self, event: Raw, stream: Raw) -> Result<()> {
        self.count(Call::Record, "recording an event")?;
        self.behind.record_event(event, stream)
    }

    fn record_context(&self, event: Raw) -> Result<()> {
        self.count(Call::Record, "recording an event of all streams")?;
        self.behind.record_context(event)
    }

    fn event_done(&self, event: Raw) -> Result<bool> {
        self.count(Call::Wait, "asking for an event")?;
        self.behind.event_done(event)
    }

    fn synchronize_event(&self, event: Raw) -> Result<()> {
        self.count(Call::Wait, "waiting for an event")?;
        self.behind.synchronize_event(event)
    }

    fn elapsed(&self, start: Raw, end: Raw) -> Result<f32> {
        self.count(Call::Wait, "asking for the time between events")?;
        self.behind.elapsed(start, end)
    }
}

impl CopyDriver for Injected {
    unsafe fn upload(&self, stream: Raw, to: DevicePtr, from: *const u8, bytes: usize) -> Result<()> {
        self.count(Call::Copy, "copying to the device")?;
        // SAFETY: guaranteed by the caller.
        unsafe { self.behind.upload(stream, to, from, bytes) }
    }

    unsafe fn download(&self, stream: Raw, to: *mut u8, from: DevicePtr, bytes: usize) -> Result<()> {
        self.count(Call::Copy, "copying to the host")?;
        // SAFETY: guaranteed by the caller.
        unsafe { self.behind.download(stream, to, from, bytes) }
    }

    unsafe fn copy(&self, stream: Raw, to: DevicePtr, from: DevicePtr, bytes: usize) -> Result<()> {
        self.count(Call::Copy, "copying within the device")?;
        // SAFETY: guaranteed by the caller.
        unsafe { self.behind.copy(stream, to, from, bytes) }
    }

    unsafe fn fill(&self, stream: Raw, to: DevicePtr, byte: u8, bytes: usize) -> Result<()> {
        self.count(Call::Copy, "filling memory")?;
        // SAFETY: guaranteed by the caller.
        unsafe { self.behind.fill(stream, to, byte, bytes) }
    }
}

impl CodeDriver for Injected {
    fn compiler(&self) -> Result<String> {
        self.behind.compiler()
    }

    fn compile(&self, unit: &Unit) -> Result<Image> {
        self.behind.compile(unit)
    }

    fn load(&self, name: &str, image: &Image) -> Result<Raw> {
        self.count(Call::Load, "loading a module")?;
        let module = self.behind.load(name, image)?;
        self.faults.note(|state| state.modules += 1);
        Ok(module)
    }

    fn unload(&self, module: Raw) {
        self.behind.unload(module);
        self.faults.note(|state| state.modules -= 1);
    }

    fn function(&self, module: Raw, symbol: &str, expression: &str) -> Result<Function> {
        self.count(Call::Load, "finding a kernel")?;
        self.behind.function(module, symbol, expression)
    }

    fn occupancy(&self, function: Raw, shared: u32) -> Result<Occupancy> {
        self.behind.occupancy(function, shared)
    }

    unsafe fn launch(&self, stream: Raw, function: Raw, grid: Grid, parameters: &[*const c_void]) -> Result<()> {
        self.count(Call::Launch, "launching a kernel")?;
        // SAFETY: guaranteed by the caller.
        unsafe { self.behind.launch(stream, function, grid, parameters) }
    }

    unsafe fn launch_chain(
        &self,
        stream: Raw,
        launches: &[Launch],
        chain: Option<Chain>,
    ) -> (Option<Chain>, Result<()>) {
        match self.count(Call::Chain, "submitting gathered launches") {
            Ok(Fate::Reached) => {}
            Ok(Fate::Swallowed) => return (chain, Ok(())),
            Err(error) => return (chain, Err(error)),
        }
        if chain.is_none() && self.count(Call::Instantiate, "instantiating gathered launches").is_err() {
            // As drivers do that can't make the graph.
            let each = |launch: &Launch| {
                // SAFETY: guaranteed by the caller.
                unsafe { self.behind.launch(stream, launch.function, launch.grid, &launch.parameters()) }
            };
            return (None, launches.iter().try_for_each(each));
        }
        let before = i64::from(chain.is_some());
        // SAFETY: guaranteed by the caller.
        let (chain, launched) = unsafe { self.behind.launch_chain(stream, launches, chain) };
        self.faults.note(|state| state.graphs += i64::from(chain.is_some()) - before);
        (chain, launched)
    }

    fn destroy_chain(&self, chain: Chain) {
        self.behind.destroy_chain(chain);
        self.faults.note(|state| state.graphs -= 1);
    }
}

impl BlasDriver for Injected {
    fn acquire_blas(&self) -> Result<Raw> {
        self.behind.acquire_blas()
    }

    fn release_blas(&self, blas: Raw) {
        self.behind.release_blas(blas);
    }

    unsafe fn gemm(&self, blas: Raw, stream: Raw, workspace: (DevicePtr, usize), gemm: &Gemm) -> Result<()> {
        self.count(Call::Launch, "multiplying matrices")?;
        // SAFETY: guaranteed by the caller.
        unsafe { self.behind.gemm(blas, stream, workspace, gemm) }
    }
}

impl GraphDriver for Injected {
    fn begin_capture(&self, stream: Raw) -> Result<()> {
        self.behind.begin_capture(stream)
    }

    fn end_capture(&self, stream: Raw) -> Result<Raw> {
        let graph = self.behind.end_capture(stream)?;
        self.faults.note(|state| state.graphs += 1);
        Ok(graph)
    }

    fn destroy_graph(&self, graph: Raw) {
        self.behind.destroy_graph(graph);
        self.faults.note(|state| state.graphs -= 1);
    }

    fn instantiate(&self, graph: Raw) -> Result<Raw> {
        self.count(Call::Instantiate, "instantiating a graph")?;
        let executable = self.behind.instantiate(graph)?;
        self.faults.note(|state| state.graphs += 1);
        Ok(executable)
    }

    fn update(&self, executable: Raw, graph: Raw) -> Result<bool> {
        self.count(Call::Instantiate, "updating a graph")?;
        self.behind.update(executable, graph)
    }

    fn launch_graph(&self, executable: Raw, stream: Raw) -> Result<()> {
        self.count(Call::Launch, "launching a graph")?;
        self.behind.launch_graph(executable, stream)
    }

    fn destroy_executable(&self, executable: Raw) {
        self.behind.destroy_executable(executable);
        self.faults.note(|state| state.graphs -= 1);
    }
}

impl PeerDriver for Injected {
    fn link(&self, peer: &dyn Driver) -> Result<Link> {
        self.behind.link(peer)
    }

    fn enable_peer(&self, peer: &dyn Driver) -> Result<()> {
        self.behind.enable_peer(peer)
    }

    unsafe fn copy_to_peers(&self, stream: Raw, copies: &[PeerCopy<'_>]) -> Result<()> {
        self.count(Call::Copy, "copying to other devices")?;
        // SAFETY: guaranteed by the caller.
        unsafe { self.behind.copy_to_peers(stream, copies) }
    }
}
