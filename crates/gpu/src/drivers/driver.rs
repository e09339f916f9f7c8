//! The interface between the engine and a device.
//!
//! Everything above [`Driver`] (buffers, pools, streams, modules, graphs) is written once. CUDA and the emulated
//! device both implement it, as one small trait per topic. A driver is thin: it owns handles, makes calls and
//! turns failures into [`Error`]s. Policy (pooling, caching, staging, launch shapes) belongs to the layers above.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::base::{Error, Link, MemoryInfo, Properties, Result};

/// A device address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DevicePtr(pub u64);

impl DevicePtr {
    pub(crate) fn offset(self, bytes: usize) -> Self {
        Self(self.0 + bytes as u64)
    }
}

/// Runs that are copied: `count` of them, of `bytes` bytes, each so many bytes after the one before it where they come
/// `from` and where they go `to`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strides {
    pub bytes: usize,
    pub count: usize,
    pub to: usize,
    pub from: usize,
}

impl Strides {
    /// The total number of bytes, if the runs are adjacent on both sides.
    pub(crate) fn adjacent(self) -> Option<usize> {
        (self.count == 1 || (self.to, self.from) == (self.bytes, self.bytes)).then_some(self.count * self.bytes)
    }

    /// Merges the runs into one if they are adjacent on both sides.
    pub(crate) fn merged(self) -> Self {
        self.adjacent().map_or(self, |bytes| Self { bytes, count: 1, to: bytes, from: bytes })
    }

    /// The larger distance of runs.
    pub(crate) fn pitch(self) -> usize {
        self.to.max(self.from)
    }
}

/// A copy of runs to another device, or within one.
pub(crate) struct PeerCopy<'a> {
    pub peer: &'a dyn Driver,
    pub to: DevicePtr,
    pub from: DevicePtr,
    pub runs: Strides,
}

/// A driver's opaque handle to a stream, event, module, function or graph. It is only valid for the driver that
/// made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Raw(pub u64);

/// The input of a compilation; every field is part of the cache key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unit {
    /// A name for messages and the file name in diagnostics (`ntt.cu`).
    pub name: String,
    /// CUDA C++.
    pub text: String,
    /// Headers, by the name in their `#include`.
    pub headers: Vec<(String, String)>,
    /// `-D` definitions.
    pub defines: Vec<(String, String)>,
    /// Additional NVRTC options; the host compiler ignores them.
    pub options: Vec<String>,
    /// Kernels as C++ name expressions: `add`, `fold<KoalaBear>`.
    pub kernels: Vec<String>,
}

/// A compiled unit, as stored in the disk cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    /// A cubin, or a shared library for the emulated device.
    pub binary: Vec<u8>,
    /// The symbol of each kernel of the unit, in the unit's order.
    pub symbols: Vec<String>,
    /// The parameter passing of each kernel, in the same order, one letter per parameter (see [`Passing`]). Empty
    /// if the binary itself contains this.
    pub signatures: Vec<String>,
}

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The parameter's size in bytes.
    pub bytes: usize,
    /// The way in which the kernel takes it.
    pub passing: Passing,
}

/// The way in which a kernel takes a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// A value.
    Value,
    /// A pointer to constant memory.
    ConstPointer,
    /// A pointer to memory that the kernel may write to.
    Pointer,
    /// A list of addresses, `const T* const*`.
    AddressList,
}

impl Passing {
    /// Decodes the number used in compiled code.
    pub(crate) fn from_code(code: u64) -> Option<Self> {
        match code {
            0 => Some(Self::Value),
            1 => Some(Self::ConstPointer),
            2 => Some(Self::Pointer),
            3 => Some(Self::AddressList),
            _ => None,
        }
    }

    /// The letter used in [`Image::signatures`].
    pub(crate) fn letter(self) -> char {
        match self {
            Self::Value => 'v',
            Self::ConstPointer => 'c',
            Self::Pointer => 'p',
            Self::AddressList => 'a',
        }
    }

    pub(crate) fn from_letter(letter: char) -> Option<Self> {
        [Self::Value, Self::ConstPointer, Self::Pointer, Self::AddressList]
            .into_iter()
            .find(|passing| passing.letter() == letter)
    }
}

/// A loaded kernel.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub raw: Raw,
    pub parameters: Vec<Parameter>,
    /// Maximum number of threads in a block of this kernel.
    pub max_threads: u32,
    /// Registers per thread (0 on the emulated device).
    pub registers: u32,
    /// Bytes of static shared memory.
    pub static_shared: u32,
    /// Bytes of local memory per thread: spills, and arrays that do not fit in registers.
    pub local: u32,
}

/// The dimensions of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub blocks: [u32; 3],
    pub threads: [u32; 3],
    /// Dynamic shared memory per block, in bytes.
    pub shared: u32,
}

/// A number that no other kernel of this process has or had. Drivers use handles of unloaded kernels again.
pub(crate) fn kernel_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A launch whose arguments were copied.
pub(crate) struct Launch {
    /// The kernel's [number](kernel_number).
    pub kernel: u64,
    pub function: Raw,
    pub grid: Grid,
    /// The arguments, each from a word boundary on.
    words: SmallVec<[u64; 32]>,
    /// The word at which each argument starts.
    starts: SmallVec<[u32; 16]>,
}

impl Launch {
    /// # Safety
    ///
    /// Each of `parameters` points to as many readable bytes as `sizes` says.
    pub(crate) unsafe fn copy(
        (kernel, function): (u64, Raw),
        grid: Grid,
        parameters: &[*const c_void],
        sizes: impl Iterator<Item = usize>,
    ) -> Self {
        let mut launch = Self { kernel, function, grid, words: SmallVec::new(), starts: SmallVec::new() };
        for (&from, bytes) in parameters.iter().zip(sizes) {
            let start = launch.words.len();
            launch.starts.push(start as u32);
            launch.words.resize(start + bytes.div_ceil(size_of::<u64>()), 0);
            let to = launch.words[start..].as_mut_ptr().cast::<u8>();
            // SAFETY: the source is readable as the caller guarantees; the words just added have room for it.
            unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to, bytes) };
        }
        launch
    }

    /// Pointers to the arguments, valid while the launch is not moved.
    pub(crate) fn parameters(&self) -> SmallVec<[*const c_void; 24]> {
        self.starts.iter().map(|&start| self.words[start as usize..].as_ptr().cast()).collect()
    }
}

/// An instantiated graph of kernels in a row. See [`CodeDriver::launch_chain`].
pub(crate) struct Chain {
    pub graph: Raw,
    pub executable: Raw,
    pub nodes: Vec<Raw>,
}

/// The element type of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlasType {
    /// `f32`, with full-precision arithmetic (no TF32).
    F32,
    /// `f64`.
    F64,
    /// Two `f64`, real part first.
    C128,
}

impl BlasType {
    /// The size of an element in bytes.
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
    /// Distance between stored columns.
    pub leading: usize,
    /// Distance between the matrices of a batch.
    pub stride: usize,
    pub transposed: bool,
}

/// One device of one kind.
///
/// Work submitted to a stream runs in order on that stream. Any thread may call any method. Methods that take raw
/// addresses are `unsafe`: the caller guarantees that the ranges stay mapped on this device (or, for host memory,
/// allocated) until the work is complete.
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

    /// The granularity of mappings in bytes (a power of two).
    fn granularity(&self) -> usize;

    /// Reserves an address range without mapping memory. `bytes` is a multiple of the granularity.
    fn reserve(&self, bytes: usize) -> Result<DevicePtr>;

    /// Maps memory to `[at, at + bytes)`, part of a reserved range. Both are multiples of the granularity.
    /// Returns [`Error::OutOfMemory`](crate::Error::OutOfMemory) if there is not enough.
    fn map(&self, at: DevicePtr, bytes: usize) -> Result<()>;

    /// Unmaps `[at, at + bytes)`, exactly one mapping made by [`map`](Self::map). No work may use it.
    fn unmap(&self, at: DevicePtr, bytes: usize);

    /// Unmaps and frees a whole reserved range.
    fn release(&self, base: DevicePtr, bytes: usize);

    /// A separate allocation, outside any reserved range (so that memory checkers see its bounds).
    fn alloc(&self, bytes: usize) -> Result<DevicePtr>;

    /// Frees memory allocated by [`alloc`](Self::alloc).
    fn free(&self, at: DevicePtr);

    /// Marks `[at, at + bytes)` of a reserved range as a live buffer, or as freed. Only the emulated device uses
    /// this, to check each access against live buffers.
    fn mark(&self, at: DevicePtr, bytes: usize, live: bool);

    /// Fails if the range is not memory of this device. Any library may have allocated it.
    fn check_foreign(&self, at: DevicePtr, bytes: usize) -> Result<()>;

    /// Allocates pinned host memory that the host can read and write at full speed.
    fn alloc_pinned(&self, bytes: usize) -> Result<NonNull<u8>>;

    /// Frees memory allocated by [`alloc_pinned`](Self::alloc_pinned).
    fn free_pinned(&self, at: NonNull<u8>, bytes: usize);
}

/// Streams and events.
pub(crate) trait QueueDriver {
    fn create_stream(&self) -> Result<Raw>;
    fn destroy_stream(&self, stream: Raw);
    /// Blocks the host until all work of the stream is complete, and reports its errors.
    fn synchronize(&self, stream: Raw) -> Result<()>;
    /// Makes work submitted to `stream` from now on start after `event`.
    fn wait_event(&self, stream: Raw, event: Raw) -> Result<()>;

    fn create_event(&self, timing: bool) -> Result<Raw>;
    fn destroy_event(&self, event: Raw);
    fn record_event(&self, event: Raw, stream: Raw) -> Result<()>;
    /// Records an event after all work that anybody has submitted to the device's context so far, on any stream.
    fn record_context(&self, event: Raw) -> Result<()>;
    fn event_done(&self, event: Raw) -> Result<bool>;
    fn synchronize_event(&self, event: Raw) -> Result<()>;
    /// Milliseconds between two completed events created with `timing`.
    fn elapsed(&self, start: Raw, end: Raw) -> Result<f32>;
}

/// Copies between host and device, and within it.
pub(crate) trait CopyDriver {
    /// Host to device, asynchronous. `from` is memory of [`alloc_pinned`](Self::alloc_pinned).
    unsafe fn upload(&self, stream: Raw, to: DevicePtr, from: *const u8, bytes: usize) -> Result<()>;
    /// Device to host, asynchronous. `to` is memory of [`alloc_pinned`](Self::alloc_pinned).
    unsafe fn download(&self, stream: Raw, to: *mut u8, from: DevicePtr, bytes: usize) -> Result<()>;
    /// Copies within the device.
    unsafe fn copy(&self, stream: Raw, to: DevicePtr, from: DevicePtr, bytes: usize) -> Result<()>;
    /// Sets every byte.
    unsafe fn fill(&self, stream: Raw, to: DevicePtr, byte: u8, bytes: usize) -> Result<()>;
}

/// Compiling, loading and launching kernels.
pub(crate) trait CodeDriver {
    /// The compiler's name, version and target, which are part of the cache key.
    fn compiler(&self) -> Result<String>;
    /// Compiles a unit. On failure, [`Error::Compile`](crate::Error::Compile) holds the compiler's log.
    fn compile(&self, unit: &Unit) -> Result<Image>;
    /// Loads an image for launching.
    fn load(&self, name: &str, image: &Image) -> Result<Raw>;
    fn unload(&self, module: Raw);
    /// The kernel `symbol` of a loaded module. `expression` is its name in messages.
    fn function(&self, module: Raw, symbol: &str, expression: &str) -> Result<Function>;
    /// The block size with the best occupancy for `shared` bytes of dynamic shared memory per block, and the
    /// number of such blocks that fill the device.
    fn occupancy(&self, function: Raw, shared: u32) -> Result<Occupancy>;
    /// Enqueues a grid. `parameters` point to the argument values, in order, which are read before the call
    /// returns.
    unsafe fn launch(&self, stream: Raw, function: Raw, grid: Grid, parameters: &[*const c_void]) -> Result<()>;
    /// Enqueues several grids, in order, with one call if the driver can: by a chain of just these kernels, which is
    /// made if there is none. Returns the chain if it was used, for the next call with the same kernels. The chain is
    /// for one stream at a time, and for one launch at a time.
    unsafe fn launch_chain(
        &self,
        stream: Raw,
        launches: &[Launch],
        _chain: Option<Chain>,
    ) -> (Option<Chain>, Result<()>) {
        // SAFETY: guaranteed by the caller.
        let each =
            |launch: &Launch| unsafe { self.launch(stream, launch.function, launch.grid, &launch.parameters()) };
        (None, launches.iter().try_for_each(each))
    }
    fn destroy_chain(&self, _chain: Chain) {}
}

/// Matrix products by the device's BLAS library, if it has one.
pub(crate) trait BlasDriver {
    /// A handle of the BLAS library, for one user at a time.
    fn acquire_blas(&self) -> Result<Raw> {
        Err(no_blas())
    }
    fn release_blas(&self, _blas: Raw) {}
    /// Enqueues a product. The caller guarantees that the matrices and `workspace` are valid, that no other
    /// product uses the workspace at the same time, and that no other call uses this handle.
    unsafe fn gemm(&self, _blas: Raw, _stream: Raw, _workspace: (DevicePtr, usize), _gemm: &Gemm) -> Result<()> {
        Err(no_blas())
    }
}

/// Graphs.
pub(crate) trait GraphDriver {
    /// Begins a capture: later work submitted to `stream` is recorded and not run.
    fn begin_capture(&self, stream: Raw) -> Result<()>;
    /// Ends the capture and returns the graph, or the error of a failed capture.
    fn end_capture(&self, stream: Raw) -> Result<Raw>;
    fn destroy_graph(&self, graph: Raw);
    /// Instantiates a graph for launching.
    fn instantiate(&self, graph: Raw) -> Result<Raw>;
    /// Updates an instantiated graph with the arguments of another graph of the same shape; false if the shapes
    /// differ.
    fn update(&self, executable: Raw, graph: Raw) -> Result<bool>;
    fn launch_graph(&self, executable: Raw, stream: Raw) -> Result<()>;
    fn destroy_executable(&self, executable: Raw);
}

/// Other devices of the same kind.
pub(crate) trait PeerDriver {
    /// The path by which this device reaches another of the same kind.
    fn link(&self, peer: &dyn Driver) -> Result<Link>;
    /// Lets this device's streams access the peer's memory. Idempotent; only called if `link` is direct.
    fn enable_peer(&self, peer: &dyn Driver) -> Result<()>;
    /// Copies runs from this device to peers of the same kind, or within it, on a stream of this device. In no order:
    /// none may write what another reads or writes.
    unsafe fn copy_to_peers(&self, stream: Raw, copies: &[PeerCopy<'_>]) -> Result<()>;
}

fn no_blas() -> Error {
    Error::NoLibrary {
        library: "cuBLAS",
        reason: "the device is not a GPU".into(),
        advice: "Use a CUDA device, or a custom kernel".into(),
    }
}

/// The result of [`Driver::occupancy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Occupancy {
    pub threads: u32,
    pub blocks: u32,
}
