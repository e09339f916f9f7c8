//! The one seam between the engine and a machine.
//!
//! Everything above [`Driver`] (buffers, pools, streams, modules, graphs) is written once; CUDA and the emulated
//! device implement it side by side, one small trait for each idea. A driver is thin: it owns handles, makes calls and turns
//! failures into [`Error`]s. Policy (pooling, caching, staging, launch shapes) lives above it.

use std::ffi::c_void;
use std::ptr::NonNull;

use crate::base::{Error, Link, MemoryInfo, Properties, Result};

/// An address in a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DevicePtr(pub u64);

impl DevicePtr {
    pub(crate) fn offset(self, bytes: usize) -> Self {
        Self(self.0 + bytes as u64)
    }
}

/// A driver's handle to a stream, event, module, function or graph: a pointer or an index, whatever the driver
/// chose. It means nothing to any other driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Raw(pub u64);

/// Everything a compiler needs to know, and all of what a cache key is made from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unit {
    /// A name for messages and the file name in diagnostics (`ntt.cu`).
    pub name: String,
    /// CUDA C++.
    pub text: String,
    /// Headers by the name they are included with.
    pub headers: Vec<(String, String)>,
    /// `-D` definitions.
    pub defines: Vec<(String, String)>,
    /// Further options for NVRTC; the host compiler ignores them.
    pub options: Vec<String>,
    /// Kernels as C++ name expressions: `add`, `fold<KoalaBear>`.
    pub kernels: Vec<String>,
}

/// A compiled unit: what the disk cache stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    /// A cubin, or a shared library for the emulated device.
    pub binary: Vec<u8>,
    /// The symbol of each kernel of the unit, in the unit's order.
    pub symbols: Vec<String>,
    /// How each kernel takes its parameters, in the same order, one letter a parameter (see [`Passing`]). Empty where
    /// the binary itself tells.
    pub signatures: Vec<String>,
}

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its size.
    pub bytes: usize,
    /// How the kernel takes it.
    pub passing: Passing,
}

/// How a kernel takes a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// A value.
    Value,
    /// A pointer to constant memory.
    ConstPointer,
    /// A pointer to memory that the kernel may write to.
    Pointer,
}

impl Passing {
    /// The number that stands for it in compiled code.
    pub(crate) fn from_code(code: u64) -> Option<Self> {
        match code {
            0 => Some(Self::Value),
            1 => Some(Self::ConstPointer),
            2 => Some(Self::Pointer),
            _ => None,
        }
    }

    /// The letter that stands for it in [`Image::signatures`].
    pub(crate) fn letter(self) -> char {
        match self {
            Self::Value => 'v',
            Self::ConstPointer => 'c',
            Self::Pointer => 'p',
        }
    }

    pub(crate) fn from_letter(letter: char) -> Option<Self> {
        [Self::Value, Self::ConstPointer, Self::Pointer].into_iter().find(|passing| passing.letter() == letter)
    }
}

/// A kernel as the driver knows it.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub raw: Raw,
    pub parameters: Vec<Parameter>,
    /// The most threads a block of this kernel may have.
    pub max_threads: u32,
    /// Registers of a thread (0 on the emulated device).
    pub registers: u32,
    /// Bytes of static shared memory.
    pub static_shared: u32,
    /// Bytes of local memory of a thread: spills and arrays that did not fit registers.
    pub local: u32,
}

/// How a grid is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub blocks: [u32; 3],
    pub threads: [u32; 3],
    /// Dynamic shared memory of a block, in bytes.
    pub shared: u32,
}

/// The numbers of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlasType {
    /// `f32`, multiplied and added as such (no TF32).
    F32,
    /// `f64`.
    F64,
    /// Two `f64`, real part first.
    C128,
}

impl BlasType {
    /// The size of a number.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F64 => 8,
            Self::C128 => 16,
        }
    }
}

/// Column-major products C (m x n) = A (m x k) B (k x n), one for each matrix of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gemm {
    pub of: BlasType,
    /// m, n and k.
    pub sizes: [usize; 3],
    pub batch: usize,
    pub left: GemmSide,
    pub right: GemmSide,
    pub out: GemmSide,
}

/// A matrix of a product; strides count elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GemmSide {
    pub at: DevicePtr,
    /// From a stored column to the next.
    pub leading: usize,
    /// From one product's matrix to the next one's.
    pub stride: usize,
    pub transposed: bool,
}

/// One device of one kind.
///
/// Work given to a stream runs in order on that stream. Calls may come from any thread. Methods that take raw
/// addresses are `unsafe`: the caller guarantees that the ranges are mapped on this device (and, for host
/// memory, live) until the work is done.
pub(crate) trait Driver:
    MemoryDriver
    + QueueDriver
    + CopyDriver
    + CodeDriver
    + BlasDriver
    + GraphDriver
    + PeerDriver
    + Send
    + Sync
    + 'static
{
    fn properties(&self) -> &Properties;
}

/// Device memory and pinned host memory.
pub(crate) trait MemoryDriver {
    /// Free and total memory now.
    fn memory(&self) -> Result<MemoryInfo>;

    /// The unit in which memory can be mapped, in bytes (a power of two).
    fn granularity(&self) -> usize;

    /// Reserves a range of addresses with no memory behind it. `bytes` is a multiple of the granularity.
    fn reserve(&self, bytes: usize) -> Result<DevicePtr>;

    /// Puts memory behind `[at, at + bytes)`, part of a reserved range. Both are multiples of the granularity.
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) if there is none.
    fn map(&self, at: DevicePtr, bytes: usize) -> Result<()>;

    /// Takes the memory from behind `[at, at + bytes)`, exactly one mapping of [`map`](Self::map). No work uses it.
    fn unmap(&self, at: DevicePtr, bytes: usize);

    /// Unmaps and gives back a whole reserved range.
    fn release(&self, base: DevicePtr, bytes: usize);

    /// One allocation of its own, outside any reserved range (so that memory checkers see its bounds).
    fn alloc(&self, bytes: usize) -> Result<DevicePtr>;

    /// Frees what [`alloc`](Self::alloc) gave.
    fn free(&self, at: DevicePtr);

    /// Says that `[at, at + bytes)` of a reserved range now is, or no longer is, a live buffer. Only the
    /// emulated device cares: it checks each access against live buffers.
    fn mark(&self, at: DevicePtr, bytes: usize, live: bool);

    /// Refuses a range that is not memory of this device, whoever allocated it.
    fn check_foreign(&self, at: DevicePtr, bytes: usize) -> Result<()>;

    /// Page-locked host memory, readable and writable by the host at full speed.
    fn alloc_pinned(&self, bytes: usize) -> Result<NonNull<u8>>;

    /// Frees what [`alloc_pinned`](Self::alloc_pinned) gave.
    fn free_pinned(&self, at: NonNull<u8>, bytes: usize);
}

/// Streams and events.
pub(crate) trait QueueDriver {
    fn create_stream(&self) -> Result<Raw>;
    fn destroy_stream(&self, stream: Raw);
    /// Waits on the host until all work of the stream is done, and reports what went wrong in it.
    fn synchronize(&self, stream: Raw) -> Result<()>;
    /// Work given to `stream` from now on starts after `event`.
    fn wait_event(&self, stream: Raw, event: Raw) -> Result<()>;

    fn create_event(&self, timing: bool) -> Result<Raw>;
    fn destroy_event(&self, event: Raw);
    fn record_event(&self, event: Raw, stream: Raw) -> Result<()>;
    fn event_done(&self, event: Raw) -> Result<bool>;
    fn synchronize_event(&self, event: Raw) -> Result<()>;
    /// Milliseconds between two recorded, finished events made with `timing`.
    fn elapsed(&self, start: Raw, end: Raw) -> Result<f32>;
}

/// Copies between host and device, and within it.
pub(crate) trait CopyDriver {
    /// Host to device, asynchronous. `from` is memory of [`alloc_pinned`](Self::alloc_pinned).
    unsafe fn upload(&self, stream: Raw, to: DevicePtr, from: *const u8, bytes: usize) -> Result<()>;
    /// Device to host, asynchronous. `to` is memory of [`alloc_pinned`](Self::alloc_pinned).
    unsafe fn download(&self, stream: Raw, to: *mut u8, from: DevicePtr, bytes: usize) -> Result<()>;
    /// Within the device.
    unsafe fn copy(&self, stream: Raw, to: DevicePtr, from: DevicePtr, bytes: usize) -> Result<()>;
    /// Sets every byte.
    unsafe fn fill(&self, stream: Raw, to: DevicePtr, byte: u8, bytes: usize) -> Result<()>;
}

/// Compiling, loading and launching kernels.
pub(crate) trait CodeDriver {
    /// Names compiler, version and target: part of the cache key.
    fn compiler(&self) -> Result<String>;
    /// Compiles; an [`Error::Compile`](crate::Error::Compile) holds the compiler's log.
    fn compile(&self, unit: &Unit) -> Result<Image>;
    /// Loads an image for launching.
    fn load(&self, name: &str, image: &Image) -> Result<Raw>;
    fn unload(&self, module: Raw);
    /// The kernel `symbol` of a loaded module. `expression` is its name in messages.
    fn function(&self, module: Raw, symbol: &str, expression: &str) -> Result<Function>;
    /// Threads of a block that give the best occupancy with `shared` bytes of dynamic shared memory a block,
    /// and the number of such blocks that fill the device.
    fn occupancy(&self, function: Raw, shared: u32) -> Result<Occupancy>;
    /// Enqueues a grid. `parameters` point to the values, in order; they are read before the call returns.
    unsafe fn launch(&self, stream: Raw, function: Raw, grid: Grid, parameters: &[*const c_void]) -> Result<()>;
}

/// Matrix products by the device's own library, where it has one.
pub(crate) trait BlasDriver {
    /// A handle of the device's library for matrix products, where it has one.
    fn create_blas(&self) -> Result<Raw> {
        Err(no_blas())
    }
    fn destroy_blas(&self, _blas: Raw) {}
    /// Enqueues a product. The caller guarantees its matrices and `workspace`, of which no other product makes use
    /// meanwhile; and that no other call with this handle is under way.
    unsafe fn gemm(&self, _blas: Raw, _stream: Raw, _workspace: (DevicePtr, usize), _gemm: &Gemm) -> Result<()> {
        Err(no_blas())
    }
}

/// Recorded work.
pub(crate) trait GraphDriver {
    /// From now on work given to `stream` is recorded, not run.
    fn begin_capture(&self, stream: Raw) -> Result<()>;
    /// Ends recording and returns the graph (or drops it, with the error of a failed capture).
    fn end_capture(&self, stream: Raw) -> Result<Raw>;
    fn destroy_graph(&self, graph: Raw);
    /// Makes a graph launchable.
    fn instantiate(&self, graph: Raw) -> Result<Raw>;
    /// Gives a launchable graph the arguments of another graph of the same shape; false if the shapes differ.
    fn update(&self, executable: Raw, graph: Raw) -> Result<bool>;
    fn launch_graph(&self, executable: Raw, stream: Raw) -> Result<()>;
    fn destroy_executable(&self, executable: Raw);
}

/// Other devices of the same kind.
pub(crate) trait PeerDriver {
    /// How this device reaches another of the same kind.
    fn link(&self, peer: &dyn Driver) -> Result<Link>;
    /// Lets this device's streams address the peer's memory. Idempotent; only called where `link` is direct.
    fn enable_peer(&self, peer: &dyn Driver) -> Result<()>;
    /// From this device to a peer of the same kind, on a stream of this device.
    unsafe fn copy_to_peer(
        &self,
        stream: Raw,
        peer: &dyn Driver,
        to: DevicePtr,
        from: DevicePtr,
        bytes: usize,
    ) -> Result<()>;
}

fn no_blas() -> Error {
    Error::NoLibrary {
        library: "cuBLAS",
        reason: "the device is not a GPU".into(),
        advice: "Use a CUDA device, or kernels of your own".into(),
    }
}

/// What [`Driver::occupancy`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Occupancy {
    pub threads: u32,
    pub blocks: u32,
}
