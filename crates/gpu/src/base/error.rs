//! The engine's error type.

use std::fmt;

use crate::base::Bytes;

/// The result type of the engine's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the runtime: the failed operation, the relevant numbers, and how to proceed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `RIGEL_DEVICE` (or a caller) gave a device name that can't be parsed.
    #[error(
        "unknown device {0:?}; use auto, cuda:N, emulated, emulated:N or none, or with #K (cuda:0#1) a device once more"
    )]
    Selector(String),

    /// `RIGEL_DEVICE` (or a caller) named several devices that can't be used together, or where one is used.
    #[error("devices {devices:?}: {detail}")]
    Selectors {
        /// The names.
        devices: String,
        /// The problem with the selection.
        detail: String,
    },

    /// `RIGEL_DEVICE=none`, or [`Selector::None`](crate::Selector::None).
    #[error("no device is selected (`none`); set RIGEL_DEVICE to auto, cuda:N or emulated to use one")]
    Disabled,

    /// The CUDA driver is missing or too old, or it finds no device.
    #[error("CUDA is not available: {reason}. {advice}")]
    Unavailable {
        /// The missing component.
        reason: String,
        /// Advice on how to obtain it.
        advice: String,
    },

    /// The device number is out of range for its kind.
    #[error("device {kind}:{ordinal} does not exist; number of {kind} devices: {count}")]
    NoSuchDevice {
        /// The requested kind.
        kind: crate::base::DeviceKind,
        /// The requested number.
        ordinal: u32,
        /// The number of devices of this kind.
        count: u32,
    },

    /// A compiler (NVRTC, or a host C++ compiler) is missing.
    #[error("{compiler} is missing: {reason}. {advice}")]
    NoCompiler {
        /// The compiler's name.
        compiler: &'static str,
        /// The attempts that failed.
        reason: String,
        /// Advice on how to obtain the compiler.
        advice: String,
    },

    /// A library that only some operations need is missing.
    #[error("{library} is missing: {reason}. {advice}")]
    NoLibrary {
        /// The library's name.
        library: &'static str,
        /// The attempts that failed.
        reason: String,
        /// Advice on how to obtain the library, or how to proceed without it.
        advice: String,
    },

    /// A source does not compile.
    #[error("{unit} does not compile for {target}:\n{log}")]
    Compile {
        /// The source's name.
        unit: String,
        /// The device or architecture compiled for.
        target: String,
        /// The compiler's log, with the offending source lines.
        log: String,
    },

    /// A module has no such kernel.
    #[error("module {module} has no kernel {kernel}; it has {known}")]
    NoSuchKernel {
        /// The module's name.
        module: String,
        /// The requested kernel.
        kernel: String,
        /// The kernels that the module has.
        known: String,
    },

    /// The arguments of a launch do not match the kernel's parameters.
    #[error("kernel {kernel}: {detail}")]
    Arguments {
        /// The kernel.
        kernel: String,
        /// The mismatch.
        detail: String,
    },

    /// A grid, block or amount of shared memory that exceeds the device's limits.
    #[error("kernel {kernel} can't be launched: {detail}")]
    LaunchShape {
        /// The kernel.
        kernel: String,
        /// The dimension or size that exceeds its limit.
        detail: String,
    },

    /// A kernel accessed memory outside its buffers, or its threads diverged at a barrier.
    #[error("kernel {kernel}: {detail}")]
    Fault {
        /// The kernel.
        kernel: String,
        /// The thread, the access and its location.
        detail: String,
    },

    /// Device memory, or the configured limit, is exhausted.
    #[error(
        "out of device memory: {requested} requested, {free} of {total} free on {device} (Rigel uses {in_use}{limit})",
        requested = Bytes(*.requested), free = Bytes(*.free), total = Bytes(*.total), in_use = Bytes(*.in_use),
        limit = Limit(*.limit)
    )]
    OutOfMemory {
        /// The device.
        device: String,
        /// Bytes requested.
        requested: usize,
        /// Bytes free on the device.
        free: usize,
        /// Bytes of memory on the device.
        total: usize,
        /// Bytes in live buffers.
        in_use: usize,
        /// The limit set by the caller, if any.
        limit: Option<usize>,
    },

    /// Work that was planned before it began needs more device memory than there is.
    #[error(
        "the proof needs {needed} on {device} (its largest phase is \"{phase}\"), {available} are available; lower the \
         number of rows, or use a policy that falls back to the CPU",
        needed = Bytes(*.needed), available = Bytes(*.available)
    )]
    DoesNotFit {
        /// The device.
        device: String,
        /// The largest phase.
        phase: &'static str,
        /// Bytes of the largest phase.
        needed: usize,
        /// Bytes available.
        available: usize,
    },

    /// Pinned (page-locked) host memory is exhausted.
    #[error("out of pinned host memory: {requested} requested ({detail})", requested = Bytes(*.requested))]
    OutOfPinnedMemory {
        /// Bytes requested.
        requested: usize,
        /// The driver's message.
        detail: String,
    },

    /// Lengths, shapes or ranges that do not match.
    #[error("{operation}: {detail}")]
    Shape {
        /// The requested operation.
        operation: &'static str,
        /// The mismatch.
        detail: String,
    },

    /// A buffer or stream of one device was used with another.
    #[error("{operation}: memory of {found} was used on {expected}; copy it with Buffer::to_device first")]
    WrongDevice {
        /// The requested operation.
        operation: String,
        /// The device on which the work was to run.
        expected: String,
        /// The device that holds the memory.
        found: String,
    },

    /// The device failed; every call on it fails until the process opens it again.
    #[error("device {device} was lost during {operation}: {detail}")]
    DeviceLost {
        /// The device.
        device: String,
        /// The call that failed.
        operation: &'static str,
        /// The driver's message.
        detail: String,
    },

    /// A driver call failed in another way.
    #[error("{operation} failed on {device}: {detail}")]
    Driver {
        /// The device.
        device: String,
        /// The call.
        operation: &'static str,
        /// The driver's message.
        detail: String,
    },

    /// A job of a pool was ended early, by [`Pool::cancel`](crate::Pool::cancel).
    #[error("the job was cancelled")]
    Cancelled,

    /// A job of a pool panicked.
    #[error("a job panicked: {0}")]
    Panicked(String),

    /// A file could not be read or written.
    #[error("{path}: {detail}")]
    Io {
        /// The file.
        path: String,
        /// The operating system's message.
        detail: String,
    },
}

impl Error {
    /// A [`Shape`](Self::Shape) error.
    pub fn shape(operation: &'static str, detail: impl Into<String>) -> Self {
        Self::Shape { operation, detail: detail.into() }
    }
}

struct Limit(Option<usize>);

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(limit) => write!(f, ", limit {}", Bytes(limit)),
            None => Ok(()),
        }
    }
}
