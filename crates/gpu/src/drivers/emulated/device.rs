//! The emulated device as a [`Driver`].
//!
//! Work runs at once, on the thread that asks for it: a stream is always idle when a call returns.

use std::alloc::Layout;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::block::{Launch, Worker};
use super::compiler::Compiler;
use super::emulation::{Emulation, Execution};
use super::fiber::{SETS, StackSet, Stacks};
use super::graph::{Argument, Graph, Operation, Stream, same_shape};
use super::handles::Handles;
use super::memory::Memory;
use super::module::{Code, Entry, Kernel, Library, Module};
use super::pool::Pool;
use super::race::RaceProgram;
use super::region::{GRANULARITY, Region};
use super::runtime::{MAX_THREADS, WARP};
use super::signals;
use crate::base::{Error, Result};
use crate::base::{Kind, Link, MemoryInfo, Properties};
use crate::drivers::{DevicePtr, Driver, Function, Grid, Image, Occupancy, Raw, Unit};

/// The most shared memory of a block: an H100's.
const MAX_SHARED: u32 = 227 << 10;
/// How long a launch runs on the caller's thread alone: waking others costs about as much.
const ALONE: Duration = Duration::from_micros(50);
/// A grid of more threads is not expected to be done within [`ALONE`].
const SMALL: u64 = 1 << 14;

pub(super) struct Device {
    properties: Properties,
    emulation: Emulation,
    memory: Memory,
    pool: Pool,
    /// One grid at a time.
    launching: Mutex<()>,
    /// Launches so far.
    launches: AtomicU64,
    streams: Handles<Mutex<Stream>>,
    events: Handles<Event>,
    modules: Handles<Arc<Module>>,
    kernels: Handles<Arc<Kernel>>,
    graphs: Handles<Graph>,
    executables: Handles<Mutex<Graph>>,
}

struct Event {
    timing: bool,
    recorded: Mutex<Option<Instant>>,
}

pub(super) fn open(emulation: &Emulation) -> Result<Vec<Arc<dyn Driver>>> {
    let shareable = emulation.execution == Execution::Threads;
    if shareable && !cfg!(target_arch = "x86_64") {
        return Err(Error::shape("RIGEL_EMULATED", "execution=threads needs an x86_64 machine"));
    }
    // Addresses are plenty: reserved ranges may be far larger than the memory that is ever mapped in them.
    let all = emulation.memory_bytes.saturating_mul(emulation.devices as usize);
    // Those that suit ThreadSanitizer are few.
    let addresses = if shareable { all.saturating_mul(2) } else { all.saturating_mul(16).max(64 << 30) };
    let region = Arc::new(Region::new(addresses.min(1 << 44), emulation.checked && !shareable, shareable)?);
    let driver = Compiler::find().map_or_else(|error| error.to_string(), |compiler| compiler.version);
    let workers = emulation.workers.clamp(1, SETS);
    let device = |ordinal| -> Arc<dyn Driver> {
        Arc::new(Device {
            properties: Properties {
                kind: Kind::Emulated,
                ordinal,
                name: format!("emulated device with {workers} workers"),
                capability: (0, 0),
                multiprocessors: workers as u32,
                warp: WARP as u32,
                max_threads_per_block: MAX_THREADS as u32,
                max_shared_per_block: MAX_SHARED,
                l2_bytes: 8 << 20,
                memory_bytes: emulation.memory_bytes,
                driver: driver.clone(),
            },
            emulation: emulation.clone(),
            memory: Memory::new(format!("emulated:{ordinal}"), emulation.memory_bytes, region.clone()),
            pool: Pool::new(workers - 1),
            launching: Mutex::default(),
            launches: AtomicU64::new(0),
            streams: Handles::new("stream"),
            events: Handles::new("event"),
            modules: Handles::new("module"),
            kernels: Handles::new("kernel"),
            graphs: Handles::new("graph"),
            executables: Handles::new("executable graph"),
        })
    };
    Ok((0..emulation.devices).map(device).collect())
}

impl Device {
    fn failed(&self, operation: &'static str, detail: impl Into<String>) -> Error {
        Error::Driver { device: format!("emulated:{}", self.properties.ordinal), operation, detail: detail.into() }
    }

    /// Whether the device is there still.
    fn answers(&self, operation: &'static str) -> Result<()> {
        match self.emulation.lost_after {
            Some(most) if self.launches.load(Ordering::Relaxed) > most => Err(Error::DeviceLost {
                device: format!("emulated:{}", self.properties.ordinal),
                operation,
                detail: format!("it was set up to be lost after {most} launches"),
            }),
            _ => Ok(()),
        }
    }

    /// Runs or records an operation, as the stream does now.
    ///
    /// # Safety
    ///
    /// What the operation says of addresses and arguments holds now, or when the graph is launched.
    unsafe fn submit(&self, stream: Raw, operation: Operation) -> Result<()> {
        let stream = self.streams.get(stream)?;
        let mut stream = stream.lock().unwrap();
        match &mut *stream {
            // SAFETY: promised by the caller.
            Stream::Runs => unsafe { self.run(&operation) },
            Stream::Records(graph) => {
                graph.push(operation);
                Ok(())
            }
            Stream::Spoiled(why) => Err(self.failed("recording", *why)),
        }
    }

    /// # Safety
    ///
    /// Addresses are valid for the operation, and arguments fit the kernel's parameters.
    unsafe fn run(&self, operation: &Operation) -> Result<()> {
        if matches!(operation, Operation::Launch { .. }) {
            self.launches.fetch_add(1, Ordering::Relaxed);
        }
        self.answers("running an operation")?;
        match operation {
            Operation::Launch { kernel, grid, arguments } => {
                let pointers: Vec<*const c_void> = arguments.iter().map(Argument::as_ptr).collect();
                // SAFETY: promised by the caller.
                unsafe { self.run_grid(kernel, *grid, &pointers) }
            }
            &Operation::Copy { to, from, bytes } => {
                // SAFETY: promised by the caller; the ranges may overlap.
                unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
                Ok(())
            }
            &Operation::Fill { to, byte, bytes } => {
                // SAFETY: promised by the caller.
                unsafe { std::ptr::write_bytes(to as *mut u8, byte, bytes) };
                Ok(())
            }
            Operation::Event => Ok(()),
        }
    }

    /// # Safety
    ///
    /// `parameters` point to values of the kernel's parameter types, whose addresses are valid for it.
    unsafe fn run_grid(&self, kernel: &Kernel, grid: Grid, parameters: &[*const c_void]) -> Result<()> {
        let _one = self.launching.lock().unwrap();
        let entry = match (kernel.entry, &kernel.module.code) {
            (Entry::Function(entry), _) => entry,
            (Entry::Number(number), Code::Program(program)) => {
                let values = parameters.iter().zip(&kernel.parameters);
                // SAFETY: promised by the caller.
                let values = values.map(|(&at, parameter)| unsafe {
                    std::slice::from_raw_parts(at.cast::<u8>(), parameter.bytes)
                });
                let bytes = values.collect::<Vec<_>>().concat();
                return program.launch(&kernel.name, number, grid, &bytes, self.memory.region());
            }
            (Entry::Number(_), Code::Library(_)) => unreachable!("kernels of libraries are functions"),
        };
        let stacks = Stacks::get().map_err(|detail| self.failed("launching", detail))?;
        let (order, checked) = (self.emulation.order, self.emulation.checked);
        let launch = Launch::new(entry, parameters.as_ptr(), grid, self.memory.region(), order, checked);
        let worker = |set: StackSet| {
            signals::prepare();
            Worker::new(&launch, set).map_err(|detail| launch.fail(detail)).ok()
        };
        let help = || {
            let work = || {
                let set = launch.has_more().then(|| stacks.try_lease()).flatten();
                if let Some(mut worker) = set.and_then(worker) {
                    while worker.run_next() {}
                }
            };
            // The launching thread counts on its workers to come back.
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err() {
                launch.fail("a worker of the emulated device panicked".into());
            }
        };
        let blocks = launch.blocks();
        let workers = usize::try_from(blocks - 1).unwrap_or(usize::MAX).min(self.pool.workers());
        let threads: u64 = grid.threads.iter().map(|&n| n as u64).product();
        self.pool.join(&help, workers, |offer| {
            let Some(mut worker) = worker(stacks.lease()) else { return };
            let began = Instant::now();
            let mut offered = workers == 0;
            loop {
                if !offered && (blocks * threads > SMALL || began.elapsed() > ALONE) && launch.has_more() {
                    offer();
                    offered = true;
                }
                if !worker.run_next() {
                    break;
                }
            }
        });
        match launch.into_failure() {
            None => Ok(()),
            Some(detail) => Err(Error::Fault { kernel: kernel.name.clone(), detail }),
        }
    }

    fn check_shape(&self, kernel: &Kernel, grid: Grid, parameters: usize) -> Result<()> {
        if parameters != kernel.parameters.len() {
            let detail = format!("{parameters} arguments given, {} parameters declared", kernel.parameters.len());
            return Err(Error::Arguments { kernel: kernel.name.clone(), detail });
        }
        let refuse = |detail: String| Err(Error::LaunchShape { kernel: kernel.name.clone(), detail });
        let Grid { blocks, threads, shared } = grid;
        let product: u64 = threads.iter().map(|&n| n as u64).product();
        if product == 0 || product > MAX_THREADS as u64 || threads[2] > 64 {
            return refuse(format!(
                "a block of {threads:?} threads; at most {MAX_THREADS}, and 64 in z, are possible"
            ));
        }
        if blocks.contains(&0) || blocks[0] > i32::MAX as u32 || blocks[1] > 65535 || blocks[2] > 65535 {
            return refuse(format!(
                "a grid of {blocks:?} blocks; at most 2147483647 x 65535 x 65535 are possible"
            ));
        }
        if shared > MAX_SHARED {
            return refuse(format!("{shared} bytes of dynamic shared memory; at most {MAX_SHARED} are possible"));
        }
        Ok(())
    }

    /// Refuses, and spoils the recording, if the stream records.
    fn forbid_recording(&self, stream: Raw, operation: &'static str) -> Result<()> {
        let stream = self.streams.get(stream)?;
        let mut stream = stream.lock().unwrap();
        if matches!(*stream, Stream::Runs) {
            return Ok(());
        }
        *stream = Stream::Spoiled("the recording was spoiled: the host can't wait for a stream that records");
        Err(self.failed(operation, "the stream records a graph, so there is nothing to wait for"))
    }
}

fn pinned_layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.max(1), 4096).ok()
}

impl Driver for Device {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn memory(&self) -> Result<MemoryInfo> {
        Ok(self.memory.info())
    }

    fn granularity(&self) -> usize {
        GRANULARITY
    }

    fn reserve(&self, bytes: usize) -> Result<DevicePtr> {
        self.memory.reserve(bytes)
    }

    fn map(&self, at: DevicePtr, bytes: usize) -> Result<()> {
        self.memory.map(at, bytes)
    }

    fn unmap(&self, at: DevicePtr, bytes: usize) {
        self.memory.unmap(at, bytes);
    }

    fn release(&self, base: DevicePtr, _bytes: usize) {
        self.memory.release(base);
    }

    fn alloc(&self, bytes: usize) -> Result<DevicePtr> {
        self.memory.alloc(bytes)
    }

    fn free(&self, at: DevicePtr) {
        self.memory.free(at);
    }

    fn mark(&self, at: DevicePtr, bytes: usize, live: bool) {
        self.memory.region().mark(at.0 as usize, bytes, live);
    }

    fn check_foreign(&self, at: DevicePtr, bytes: usize) -> Result<()> {
        let at = at.0 as usize;
        if self.memory.region().is_live(at, bytes) {
            return Ok(());
        }
        let place = self.memory.region().describe(at, bytes);
        Err(Error::shape("Device::adopt", format!("{bytes} bytes at {at:#x}, {place}, are no live buffer")))
    }

    fn alloc_pinned(&self, bytes: usize) -> Result<NonNull<u8>> {
        // SAFETY: the layout's size is not zero.
        let memory = pinned_layout(bytes).and_then(|layout| NonNull::new(unsafe { std::alloc::alloc(layout) }));
        memory.ok_or_else(|| Error::OutOfPinnedMemory { requested: bytes, detail: "the host has no more".into() })
    }

    fn free_pinned(&self, at: NonNull<u8>, bytes: usize) {
        if let Some(layout) = pinned_layout(bytes) {
            // SAFETY: the caller gives back what `alloc_pinned` gave for the same number of bytes.
            unsafe { std::alloc::dealloc(at.as_ptr(), layout) };
        }
    }

    fn create_stream(&self) -> Result<Raw> {
        Ok(self.streams.add(Mutex::default()))
    }

    fn destroy_stream(&self, stream: Raw) {
        self.streams.remove(stream);
    }

    fn synchronize(&self, stream: Raw) -> Result<()> {
        self.answers("synchronizing")?;
        self.forbid_recording(stream, "synchronizing")
    }

    fn wait_event(&self, stream: Raw, event: Raw) -> Result<()> {
        self.events.get(event)?;
        // SAFETY: an event has no addresses.
        unsafe { self.submit(stream, Operation::Event) }
    }

    fn create_event(&self, timing: bool) -> Result<Raw> {
        Ok(self.events.add(Event { timing, recorded: Mutex::default() }))
    }

    fn destroy_event(&self, event: Raw) {
        self.events.remove(event);
    }

    fn record_event(&self, event: Raw, stream: Raw) -> Result<()> {
        let event = self.events.get(event)?;
        // SAFETY: an event has no addresses.
        unsafe { self.submit(stream, Operation::Event) }?;
        if matches!(*self.streams.get(stream)?.lock().unwrap(), Stream::Runs) {
            *event.recorded.lock().unwrap() = Some(Instant::now());
        }
        Ok(())
    }

    fn event_done(&self, event: Raw) -> Result<bool> {
        self.answers("asking for an event")?;
        self.events.get(event).map(|_| true)
    }

    fn synchronize_event(&self, event: Raw) -> Result<()> {
        self.answers("waiting for an event")?;
        self.events.get(event).map(|_| ())
    }

    fn elapsed(&self, start: Raw, end: Raw) -> Result<f32> {
        let time = |event: Raw| {
            let event = self.events.get(event)?;
            let recorded = *event.recorded.lock().unwrap();
            recorded
                .filter(|_| event.timing)
                .ok_or_else(|| self.failed("timing", "an event was not recorded, or not made for timing"))
        };
        let (start, end) = (time(start)?, time(end)?);
        let sign = if end >= start { 1.0 } else { -1.0 };
        Ok(sign * (end.max(start) - start.min(end)).as_secs_f32() * 1e3)
    }

    unsafe fn upload(&self, stream: Raw, to: DevicePtr, from: *const u8, bytes: usize) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { self.submit(stream, Operation::Copy { to: to.0 as usize, from: from as usize, bytes }) }
    }

    unsafe fn download(&self, stream: Raw, to: *mut u8, from: DevicePtr, bytes: usize) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { self.submit(stream, Operation::Copy { to: to as usize, from: from.0 as usize, bytes }) }
    }

    unsafe fn copy(&self, stream: Raw, to: DevicePtr, from: DevicePtr, bytes: usize) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { self.submit(stream, Operation::Copy { to: to.0 as usize, from: from.0 as usize, bytes }) }
    }

    unsafe fn fill(&self, stream: Raw, to: DevicePtr, byte: u8, bytes: usize) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { self.submit(stream, Operation::Fill { to: to.0 as usize, byte, bytes }) }
    }

    unsafe fn copy_to_peer(
        &self,
        stream: Raw,
        peer: &dyn Driver,
        to: DevicePtr,
        from: DevicePtr,
        bytes: usize,
    ) -> Result<()> {
        if peer.properties().kind != Kind::Emulated {
            return Err(self.failed("copying to a peer", "the peer is no emulated device"));
        }
        // SAFETY: promised by the caller; the peer's memory is memory of this process too.
        unsafe { self.copy(stream, to, from, bytes) }
    }

    fn compiler(&self) -> Result<String> {
        Ok(Compiler::find()?.identity(self.emulation.checked, self.emulation.execution))
    }

    fn compile(&self, unit: &Unit) -> Result<Image> {
        Compiler::find()?.compile(unit, self.emulation.checked, self.emulation.execution)
    }

    fn load(&self, name: &str, image: &Image) -> Result<Raw> {
        let code = match self.emulation.execution {
            Execution::Fibers => Code::Library(Library::load(name, image, self.memory.region().clone())?),
            Execution::Threads => Code::Program(RaceProgram::load(name, image)?),
        };
        Ok(self.modules.add(Arc::new(Module { name: name.to_owned(), code })))
    }

    fn unload(&self, module: Raw) {
        if let Some(module) = self.modules.remove(module) {
            self.kernels.retain(|kernel| !Arc::ptr_eq(&kernel.module, &module));
        }
    }

    fn function(&self, module: Raw, symbol: &str, expression: &str) -> Result<Function> {
        let module = self.modules.get(module)?;
        let kernel = Kernel::find(&module, symbol, expression)?;
        let parameters = kernel.parameters.clone();
        let raw = self.kernels.add(Arc::new(kernel));
        Ok(Function { raw, parameters, max_threads: MAX_THREADS as u32, registers: 0, static_shared: 0, local: 0 })
    }

    fn occupancy(&self, function: Raw, _shared: u32) -> Result<Occupancy> {
        self.kernels.get(function)?;
        Ok(Occupancy { threads: 256, blocks: self.properties.multiprocessors })
    }

    unsafe fn launch(&self, stream: Raw, function: Raw, grid: Grid, parameters: &[*const c_void]) -> Result<()> {
        let kernel = self.kernels.get(function)?;
        self.check_shape(&kernel, grid, parameters.len())?;
        let values = parameters.iter().zip(&kernel.parameters);
        // SAFETY: promised by the caller.
        let arguments = values.map(|(&at, parameter)| unsafe { Argument::copy(at, parameter.bytes) }).collect();
        // SAFETY: promised by the caller.
        unsafe { self.submit(stream, Operation::Launch { kernel: (*kernel).clone(), grid, arguments }) }
    }

    fn begin_capture(&self, stream: Raw) -> Result<()> {
        let stream = self.streams.get(stream)?;
        let mut stream = stream.lock().unwrap();
        if !matches!(*stream, Stream::Runs) {
            return Err(self.failed("recording", "the stream records already"));
        }
        *stream = Stream::Records(Graph::new());
        Ok(())
    }

    fn end_capture(&self, stream: Raw) -> Result<Raw> {
        let stream = self.streams.get(stream)?;
        match std::mem::take(&mut *stream.lock().unwrap()) {
            Stream::Records(graph) => Ok(self.graphs.add(graph)),
            Stream::Spoiled(why) => Err(self.failed("recording", why)),
            Stream::Runs => Err(self.failed("recording", "the stream does not record")),
        }
    }

    fn destroy_graph(&self, graph: Raw) {
        self.graphs.remove(graph);
    }

    fn instantiate(&self, graph: Raw) -> Result<Raw> {
        let graph = self.graphs.get(graph)?;
        Ok(self.executables.add(Mutex::new((*graph).clone())))
    }

    fn update(&self, executable: Raw, graph: Raw) -> Result<bool> {
        let (executable, graph) = (self.executables.get(executable)?, self.graphs.get(graph)?);
        let mut executable = executable.lock().unwrap();
        let same = same_shape(&executable, &graph);
        if same {
            executable.clone_from(&graph);
        }
        Ok(same)
    }

    fn launch_graph(&self, executable: Raw, stream: Raw) -> Result<()> {
        let executable = self.executables.get(executable)?;
        for operation in executable.lock().unwrap().iter() {
            // SAFETY: who recorded the operation guarantees its addresses while the graph is launched.
            unsafe { self.submit(stream, operation.clone()) }?;
        }
        Ok(())
    }

    fn destroy_executable(&self, executable: Raw) {
        self.executables.remove(executable);
    }

    fn link(&self, peer: &dyn Driver) -> Result<Link> {
        let peer = peer.properties();
        Ok(match (peer.kind, peer.ordinal) {
            (Kind::Emulated, ordinal) if ordinal == self.properties.ordinal => Link::Same,
            (Kind::Emulated, _) => Link::Pcie,
            (Kind::Cuda, _) => Link::Host,
        })
    }

    fn enable_peer(&self, _peer: &dyn Driver) -> Result<()> {
        Ok(())
    }
}
