//! A mock driver for tests of the layers above: the test decides when work completes, and calls are logged.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{ChainPool, EventPool, Queue, StreamPool, Uses};
use crate::base::{DeviceKind, Error, Link, Lock, MemoryInfo, Properties, Result};
use crate::drivers::{
    BlasDriver, Chain, CodeDriver, CopyDriver, DevicePtr, Driver, Function, GraphDriver, Grid, Image, Launch,
    MemoryDriver, Occupancy, PeerCopy, PeerDriver, QueueDriver, Raw, Unit,
};

/// Memory that the scripted device reports.
const MEMORY: usize = 4 << 20;
const UNIT: usize = 1 << 12;

pub(crate) struct Scripted {
    properties: Properties,
    next: AtomicU64,
    /// Whether each event is done.
    events: Lock<HashMap<Raw, bool>>,
    log: Lock<Vec<String>>,
    /// Whether calls that make a stream or the host wait fail, although the device is not lost.
    waits_fail: AtomicBool,
    /// Whether queries of events fail, although the device is not lost.
    queries_fail: AtomicBool,
    lost: AtomicBool,
    /// The streams that were told to wait, in order.
    pub(crate) waiting: Lock<Vec<Raw>>,
    /// The lock that a test holds to keep `synchronize` from returning.
    pub(crate) gate: Lock<()>,
}

impl Scripted {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            properties: Properties {
                kind: DeviceKind::Emulated,
                ordinal: 0,
                context: 0,
                numa_node: None,
                name: "scripted".into(),
                capability: (0, 0),
                multiprocessors: 1,
                warp: 32,
                max_threads_per_block: 1024,
                max_shared_per_block: 1 << 16,
                l2_bytes: 1 << 20,
                memory_bytes: MEMORY,
                driver: "scripted".into(),
            },
            next: AtomicU64::new(1),
            events: Lock::default(),
            log: Lock::default(),
            waits_fail: AtomicBool::new(false),
            queries_fail: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            waiting: Lock::default(),
            gate: Lock::default(),
        })
    }

    pub(crate) fn queue(self: &Arc<Self>) -> Queue {
        let driver: Arc<dyn Driver> = self.clone();
        let (events, chains) = (EventPool::new(driver.clone()), ChainPool::new(driver.clone()));
        Queue::open(driver.clone(), events, chains, StreamPool::new(driver)).unwrap()
    }

    /// Submits work to `queue` and returns the uses of a resource that only this work uses.
    pub(crate) fn used_on(&self, queue: &Queue) -> Uses {
        let mut uses = Uses::default();
        drop(queue.timeline.begin().unwrap());
        uses.note(&queue.timeline, queue.timeline.issued());
        uses
    }

    /// Completes all work submitted so far.
    pub(crate) fn complete_all(&self) {
        self.events.lock().values_mut().for_each(|done| *done = true);
    }

    pub(crate) fn fail_queries(&self, fail: bool) {
        self.queries_fail.store(fail, Ordering::Relaxed);
    }

    pub(crate) fn fail_waits(&self, fail: bool) {
        self.waits_fail.store(fail, Ordering::Relaxed);
    }

    /// The device is there again.
    pub(crate) fn found(self: &Arc<Self>) -> &Arc<Self> {
        self.lost.store(false, Ordering::Relaxed);
        self
    }

    /// Marks the device as lost from now on.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    fn answers(&self, operation: &'static str) -> Result<()> {
        if !self.lost.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(Error::DeviceLost { device: "scripted".into(), operation, detail: "it was lost by the script".into() })
    }

    /// The calls since the last call of this function.
    pub(crate) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock())
    }

    fn say(&self, call: impl Into<String>) {
        self.log.lock().push(call.into());
    }

    fn handle(&self) -> Raw {
        Raw(self.next.fetch_add(1, Ordering::Relaxed))
    }

    fn unsupported<T>(&self, operation: &'static str) -> Result<T> {
        Err(Error::Driver { device: "scripted".into(), operation, detail: "not in the script".into() })
    }
}

impl Driver for Scripted {
    fn properties(&self) -> &Properties {
        &self.properties
    }
}

impl MemoryDriver for Scripted {
    fn memory(&self) -> Result<MemoryInfo> {
        Ok(MemoryInfo { free: 0, total: MEMORY })
    }

    fn granularity(&self) -> usize {
        UNIT
    }

    fn reserve(&self, _bytes: usize) -> Result<DevicePtr> {
        Ok(DevicePtr(1 << 40))
    }

    fn map(&self, at: DevicePtr, bytes: usize) -> Result<()> {
        self.say(format!("map {:#x} {bytes}", at.0 - (1 << 40)));
        Ok(())
    }

    fn unmap(&self, at: DevicePtr, bytes: usize) {
        self.say(format!("unmap {:#x} {bytes}", at.0 - (1 << 40)));
    }

    fn release(&self, _base: DevicePtr, _bytes: usize) {
        self.say("release");
    }

    fn alloc(&self, _bytes: usize) -> Result<DevicePtr> {
        Ok(DevicePtr(1 << 41))
    }

    fn free(&self, _at: DevicePtr) {
        self.say("free");
    }

    fn mark(&self, _at: DevicePtr, _bytes: usize, _live: bool) {}

    fn check_foreign(&self, _at: DevicePtr, _bytes: usize) -> Result<()> {
        Ok(())
    }

    fn alloc_pinned(&self, bytes: usize) -> Result<NonNull<u8>> {
        self.say(format!("pin {bytes}"));
        let memory = vec![0u128; bytes.div_ceil(16)].into_boxed_slice();
        Ok(NonNull::from(Box::leak(memory)).cast())
    }

    fn free_pinned(&self, at: NonNull<u8>, bytes: usize) {
        self.say(format!("unpin {bytes}"));
        let memory = std::ptr::slice_from_raw_parts_mut(at.as_ptr().cast::<u128>(), bytes.div_ceil(16));
        // SAFETY: this is the box that `alloc_pinned` leaked.
        drop(unsafe { Box::from_raw(memory) });
    }
}

impl QueueDriver for Scripted {
    fn create_stream(&self) -> Result<Raw> {
        Ok(self.handle())
    }

    fn destroy_stream(&self, _stream: Raw) {
        self.say("destroy stream");
    }

    fn synchronize(&self, _stream: Raw) -> Result<()> {
        self.say("synchronize stream");
        self.answers("synchronize")?;
        if self.waits_fail.load(Ordering::Relaxed) {
            return self.unsupported("synchronize");
        }
        drop(self.gate.lock());
        self.complete_all();
        Ok(())
    }

    fn wait_event(&self, stream: Raw, _event: Raw) -> Result<()> {
        if self.waits_fail.load(Ordering::Relaxed) {
            return self.unsupported("wait_event");
        }
        self.say("wait for event");
        self.waiting.lock().push(stream);
        Ok(())
    }

    fn create_event(&self, _timing: bool) -> Result<Raw> {
        self.answers("create_event")?;
        Ok(self.handle())
    }

    fn destroy_event(&self, event: Raw) {
        self.events.lock().remove(&event);
    }

    fn record_event(&self, event: Raw, _stream: Raw) -> Result<()> {
        self.answers("record_event")?;
        self.events.lock().insert(event, false);
        Ok(())
    }

    fn record_context(&self, event: Raw) -> Result<()> {
        if self.waits_fail.load(Ordering::Relaxed) {
            return self.unsupported("record_context");
        }
        self.events.lock().insert(event, false);
        Ok(())
    }

    fn event_done(&self, event: Raw) -> Result<bool> {
        self.answers("event_done")?;
        if self.queries_fail.load(Ordering::Relaxed) {
            return self.unsupported("event_done");
        }
        Ok(self.events.lock().get(&event).copied().unwrap_or(true))
    }

    fn synchronize_event(&self, _event: Raw) -> Result<()> {
        self.say("synchronize event");
        self.answers("synchronize_event")?;
        if self.waits_fail.load(Ordering::Relaxed) {
            return self.unsupported("synchronize_event");
        }
        self.complete_all();
        Ok(())
    }

    fn elapsed(&self, _start: Raw, _end: Raw) -> Result<f32> {
        Ok(1.0)
    }
}

impl CopyDriver for Scripted {
    unsafe fn upload(&self, _stream: Raw, _to: DevicePtr, _from: *const u8, bytes: usize) -> Result<()> {
        self.say(format!("upload {bytes}"));
        Ok(())
    }

    unsafe fn download(&self, _stream: Raw, _to: *mut u8, _from: DevicePtr, bytes: usize) -> Result<()> {
        self.say(format!("download {bytes}"));
        Ok(())
    }

    unsafe fn copy(&self, _stream: Raw, _to: DevicePtr, _from: DevicePtr, bytes: usize) -> Result<()> {
        self.say(format!("copy {bytes}"));
        Ok(())
    }

    unsafe fn fill(&self, _stream: Raw, _to: DevicePtr, _byte: u8, bytes: usize) -> Result<()> {
        self.say(format!("fill {bytes}"));
        Ok(())
    }
}

impl CodeDriver for Scripted {
    fn compiler(&self) -> Result<String> {
        Ok("scripted".into())
    }

    fn compile(&self, unit: &Unit) -> Result<Image> {
        Ok(Image { binary: Vec::new(), symbols: unit.kernels.clone(), signatures: Vec::new() })
    }

    fn load(&self, name: &str, _image: &Image) -> Result<Raw> {
        self.say(format!("load {name}"));
        Ok(self.handle())
    }

    fn unload(&self, _module: Raw) {
        self.say("unload");
    }

    fn function(&self, _module: Raw, _symbol: &str, _expression: &str) -> Result<Function> {
        let raw = self.handle();
        let parameters = Vec::new();
        Ok(Function { raw, parameters, max_threads: 1024, registers: 0, static_shared: 0, local: 0 })
    }

    fn occupancy(&self, _function: Raw, _shared: u32) -> Result<Occupancy> {
        Ok(Occupancy { threads: 256, blocks: 1 })
    }

    unsafe fn launch(
        &self,
        _stream: Raw,
        function: Raw,
        _grid: Grid,
        _parameters: &[*const c_void],
    ) -> Result<()> {
        if function == Raw(0) {
            return self.unsupported("launch");
        }
        self.say("launch");
        Ok(())
    }

    unsafe fn launch_chain(
        &self,
        _stream: Raw,
        launches: &[Launch],
        chain: Option<Chain>,
    ) -> (Option<Chain>, Result<()>) {
        let made = || {
            let graph = self.handle();
            // A chain's nodes are the numbers of its kernels.
            let nodes = launches.iter().map(|launch| Raw(launch.kernel)).collect();
            self.say(format!("make chain {}", graph.0));
            Chain { graph, executable: graph, nodes }
        };
        let chain = chain.unwrap_or_else(made);
        assert!(chain.nodes.iter().map(|node| node.0).eq(launches.iter().map(|launch| launch.kernel)));
        self.say(format!("chain {}", chain.graph.0));
        (Some(chain), Ok(()))
    }

    fn destroy_chain(&self, chain: Chain) {
        self.say(format!("destroy chain {}", chain.graph.0));
    }
}

impl BlasDriver for Scripted {}

impl GraphDriver for Scripted {
    fn begin_capture(&self, _stream: Raw) -> Result<()> {
        self.say("begin capture");
        Ok(())
    }

    fn end_capture(&self, _stream: Raw) -> Result<Raw> {
        self.say("end capture");
        Ok(self.handle())
    }

    fn destroy_graph(&self, _graph: Raw) {
        self.say("destroy graph");
    }

    fn instantiate(&self, _graph: Raw) -> Result<Raw> {
        Ok(self.handle())
    }

    fn update(&self, _executable: Raw, _graph: Raw) -> Result<bool> {
        Ok(true)
    }

    fn launch_graph(&self, _executable: Raw, _stream: Raw) -> Result<()> {
        self.say("launch graph");
        Ok(())
    }

    fn destroy_executable(&self, _executable: Raw) {}
}

impl PeerDriver for Scripted {
    fn link(&self, _peer: &dyn Driver) -> Result<Link> {
        Ok(Link::Host)
    }

    fn enable_peer(&self, _peer: &dyn Driver) -> Result<()> {
        Ok(())
    }

    unsafe fn copy_to_peers(&self, _stream: Raw, _copies: &[PeerCopy<'_>]) -> Result<()> {
        self.unsupported("copy_to_peers")
    }
}
