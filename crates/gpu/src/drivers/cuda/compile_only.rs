//! A GPU that is not there: its kernels can be compiled, and nothing else.
//!
//! NVRTC needs no GPU. So code for any architecture can be compiled ahead of time, into the same cache and by the same
//! calls as on a GPU, and a machine without one can find out whether every kernel compiles.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::library;
use super::nvrtc::{self, Architecture};
use crate::base::{DeviceKind, Error, Link, MemoryInfo, Properties, Result};
use crate::drivers::{
    BlasDriver, CodeDriver, CopyDriver, DevicePtr, Driver, Function, GraphDriver, Grid, Image, MemoryDriver,
    Occupancy, Parameter, Passing, PeerCopy, PeerDriver, QueueDriver, Raw, Unit,
};

struct CompileOnly {
    architecture: Architecture,
    properties: Properties,
    next: AtomicU64,
}

/// A device that compiles for one architecture.
pub(crate) fn open(architecture: Architecture) -> Result<Arc<dyn Driver>> {
    let library = library::libnvrtc()?;
    let properties = Properties {
        kind: DeviceKind::Cuda,
        ordinal: 0,
        context: 0,
        numa_node: None,
        name: format!("{architecture}, compile only"),
        capability: architecture.capability(),
        multiprocessors: 0,
        warp: 32,
        max_threads_per_block: 1024,
        max_shared_per_block: 48 << 10,
        l2_bytes: 0,
        memory_bytes: 0,
        driver: format!("NVRTC {}", library.version()),
    };
    Ok(Arc::new(CompileOnly { architecture, properties, next: AtomicU64::new(1) }))
}

impl CompileOnly {
    fn refuse<T>(&self, operation: &'static str) -> Result<T> {
        Err(Error::Driver {
            device: self.properties.name.clone(),
            operation,
            detail: "this device only compiles; open a GPU or the emulated device to run kernels".into(),
        })
    }
}

impl Driver for CompileOnly {
    fn properties(&self) -> &Properties {
        &self.properties
    }
}

impl CodeDriver for CompileOnly {
    fn compiler(&self) -> Result<String> {
        nvrtc::compiler(self.architecture)
    }

    fn compile(&self, unit: &Unit) -> Result<Image> {
        nvrtc::compile(unit, self.architecture)
    }

    fn load(&self, _name: &str, _image: &Image) -> Result<Raw> {
        Ok(Raw(self.next.fetch_add(1, Ordering::Relaxed)))
    }

    fn unload(&self, _module: Raw) {}

    fn function(&self, module: Raw, _symbol: &str, _expression: &str) -> Result<Function> {
        // Nothing is launched, so no argument is ever checked against these.
        let parameters = vec![Parameter { bytes: 0, passing: Passing::Value }];
        Ok(Function { raw: module, parameters, max_threads: 1024, registers: 0, static_shared: 0, local: 0 })
    }

    fn occupancy(&self, _function: Raw, _shared: u32) -> Result<Occupancy> {
        self.refuse("occupancy")
    }

    unsafe fn launch(
        &self,
        _stream: Raw,
        _function: Raw,
        _grid: Grid,
        _parameters: &[*const c_void],
    ) -> Result<()> {
        self.refuse("launch")
    }
}

impl MemoryDriver for CompileOnly {
    fn memory(&self) -> Result<MemoryInfo> {
        Ok(MemoryInfo { free: 0, total: 0 })
    }

    fn granularity(&self) -> usize {
        1
    }

    fn reserve(&self, _bytes: usize) -> Result<DevicePtr> {
        self.refuse("reserve")
    }

    fn map(&self, _at: DevicePtr, _bytes: usize) -> Result<()> {
        self.refuse("map")
    }

    fn unmap(&self, _at: DevicePtr, _bytes: usize) {}

    fn release(&self, _base: DevicePtr, _bytes: usize) {}

    fn alloc(&self, _bytes: usize) -> Result<DevicePtr> {
        self.refuse("alloc")
    }

    fn free(&self, _at: DevicePtr) {}

    fn mark(&self, _at: DevicePtr, _bytes: usize, _live: bool) {}

    fn check_foreign(&self, _at: DevicePtr, _bytes: usize) -> Result<()> {
        self.refuse("adopt")
    }

    fn alloc_pinned(&self, _bytes: usize) -> Result<NonNull<u8>> {
        self.refuse("alloc_pinned")
    }

    fn free_pinned(&self, _at: NonNull<u8>, _bytes: usize) {}
}

impl QueueDriver for CompileOnly {
    fn create_stream(&self) -> Result<Raw> {
        self.refuse("create_stream")
    }

    fn destroy_stream(&self, _stream: Raw) {}

    fn synchronize(&self, _stream: Raw) -> Result<()> {
        Ok(())
    }

    fn wait_event(&self, _stream: Raw, _event: Raw) -> Result<()> {
        self.refuse("wait_event")
    }

    fn create_event(&self, _timing: bool) -> Result<Raw> {
        self.refuse("create_event")
    }

    fn destroy_event(&self, _event: Raw) {}

    fn record_event(&self, _event: Raw, _stream: Raw) -> Result<()> {
        self.refuse("record_event")
    }

    fn record_context(&self, _event: Raw) -> Result<()> {
        self.refuse("record_context")
    }

    fn event_done(&self, _event: Raw) -> Result<bool> {
        self.refuse("event_done")
    }

    fn synchronize_event(&self, _event: Raw) -> Result<()> {
        self.refuse("synchronize_event")
    }

    fn elapsed(&self, _start: Raw, _end: Raw) -> Result<f32> {
        self.refuse("elapsed")
    }
}

impl CopyDriver for CompileOnly {
    unsafe fn upload(&self, _stream: Raw, _to: DevicePtr, _from: *const u8, _bytes: usize) -> Result<()> {
        self.refuse("upload")
    }

    unsafe fn download(&self, _stream: Raw, _to: *mut u8, _from: DevicePtr, _bytes: usize) -> Result<()> {
        self.refuse("download")
    }

    unsafe fn copy(&self, _stream: Raw, _to: DevicePtr, _from: DevicePtr, _bytes: usize) -> Result<()> {
        self.refuse("copy")
    }

    unsafe fn fill(&self, _stream: Raw, _to: DevicePtr, _byte: u8, _bytes: usize) -> Result<()> {
        self.refuse("fill")
    }
}

impl GraphDriver for CompileOnly {
    fn begin_capture(&self, _stream: Raw) -> Result<()> {
        self.refuse("begin_capture")
    }

    fn end_capture(&self, _stream: Raw) -> Result<Raw> {
        self.refuse("end_capture")
    }

    fn destroy_graph(&self, _graph: Raw) {}

    fn instantiate(&self, _graph: Raw) -> Result<Raw> {
        self.refuse("instantiate")
    }

    fn update(&self, _executable: Raw, _graph: Raw) -> Result<bool> {
        self.refuse("update")
    }

    fn launch_graph(&self, _executable: Raw, _stream: Raw) -> Result<()> {
        self.refuse("launch_graph")
    }

    fn destroy_executable(&self, _executable: Raw) {}
}

impl PeerDriver for CompileOnly {
    fn link(&self, _peer: &dyn Driver) -> Result<Link> {
        Ok(Link::Host)
    }

    fn enable_peer(&self, _peer: &dyn Driver) -> Result<()> {
        self.refuse("enable_peer")
    }

    unsafe fn copy_to_peers(&self, _stream: Raw, _copies: &[PeerCopy<'_>]) -> Result<()> {
        self.refuse("copy_to_peers")
    }
}

impl BlasDriver for CompileOnly {}
