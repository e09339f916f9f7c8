//! Everything that can go wrong, as values.

use std::fmt;

use crate::base::Bytes;

/// The result of an engine call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, with the numbers, and what to do about it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `RIGEL_DEVICE` (or a caller) named a device in a way that is not understood.
    #[error("device {0:?} is not understood; write auto, cuda:N, emulated, emulated:N or none")]
    Selector(String),

    /// `RIGEL_DEVICE=none`, or [`Selector::None`](crate::Selector::None).
    #[error("no device is in use: `none` was asked for (RIGEL_DEVICE)")]
    Disabled,

    /// There is no CUDA driver, or it has no device, or it is too old.
    #[error("CUDA is not available: {reason}. {advice}")]
    Unavailable {
        /// What is missing.
        reason: String,
        /// How to get it.
        advice: String,
    },

    /// A device number that does not exist.
    #[error("there is no device {kind}:{ordinal}; this machine has {count} of that kind")]
    NoSuchDevice {
        /// The kind asked for.
        kind: crate::base::Kind,
        /// The number asked for.
        ordinal: u32,
        /// How many there are.
        count: u32,
    },

    /// A compiler (NVRTC, or a host C++ compiler) is missing.
    #[error("{compiler} is missing: {reason}. {advice}")]
    NoCompiler {
        /// Which one.
        compiler: &'static str,
        /// What was tried.
        reason: String,
        /// How to get it.
        advice: String,
    },

    /// A library that only some operations need is missing.
    #[error("{library} is missing: {reason}. {advice}")]
    NoLibrary {
        /// Which one.
        library: &'static str,
        /// What was tried.
        reason: String,
        /// How to get it, or what to do without it.
        advice: String,
    },

    /// A kernel does not compile.
    #[error("{unit} does not compile for {target}:\n{log}")]
    Compile {
        /// The source's name.
        unit: String,
        /// The device or architecture compiled for.
        target: String,
        /// The compiler's words, with the offending source lines.
        log: String,
    },

    /// A module has no such kernel.
    #[error("module {module} has no kernel {kernel}; it has {known}")]
    NoSuchKernel {
        /// The module's name.
        module: String,
        /// The kernel asked for.
        kernel: String,
        /// The kernels there are.
        known: String,
    },

    /// A launch's arguments do not fit the kernel's parameters.
    #[error("kernel {kernel}: {detail}")]
    Arguments {
        /// The kernel.
        kernel: String,
        /// What does not fit.
        detail: String,
    },

    /// A grid, block or amount of shared memory that the device can't do.
    #[error("kernel {kernel} can't be launched: {detail}")]
    LaunchShape {
        /// The kernel.
        kernel: String,
        /// What is too large.
        detail: String,
    },

    /// A kernel read or wrote outside its buffers, or its threads can't all reach a barrier.
    #[error("kernel {kernel}: {detail}")]
    Fault {
        /// The kernel.
        kernel: String,
        /// Which thread did what, where.
        detail: String,
    },

    /// Device memory ran out, or the limit set for it.
    #[error(
        "out of device memory: {requested} asked for, {free} free of {total} on {device} (Rigel holds {in_use} in use{limit})",
        requested = Bytes(*.requested), free = Bytes(*.free), total = Bytes(*.total), in_use = Bytes(*.in_use),
        limit = Limit(*.limit)
    )]
    OutOfMemory {
        /// The device.
        device: String,
        /// Bytes asked for.
        requested: usize,
        /// Bytes free on the device.
        free: usize,
        /// Bytes the device has.
        total: usize,
        /// Bytes in live buffers.
        in_use: usize,
        /// The limit set by the caller, if one is.
        limit: Option<usize>,
    },

    /// Page-locked host memory ran out.
    #[error("out of pinned host memory: {requested} asked for ({detail})", requested = Bytes(*.requested))]
    OutOfPinnedMemory {
        /// Bytes asked for.
        requested: usize,
        /// The driver's words.
        detail: String,
    },

    /// Lengths, shapes or ranges that do not fit together.
    #[error("{operation}: {detail}")]
    Shape {
        /// The operation asked for.
        operation: &'static str,
        /// What does not fit what.
        detail: String,
    },

    /// A buffer or stream of one device was used with another.
    #[error("{operation}: memory of {found} was used on {expected}; copy it with Buffer::to_device first")]
    WrongDevice {
        /// The operation asked for.
        operation: String,
        /// Where the work was to run.
        expected: String,
        /// Where the memory is.
        found: String,
    },

    /// The device failed and will not answer until the process opens it again.
    #[error("device {device} was lost in {operation}: {detail}")]
    DeviceLost {
        /// The device.
        device: String,
        /// What was being done.
        operation: &'static str,
        /// The driver's words.
        detail: String,
    },

    /// A driver call failed in another way.
    #[error("{operation} failed on {device}: {detail}")]
    Driver {
        /// The device.
        device: String,
        /// The call.
        operation: &'static str,
        /// The driver's words.
        detail: String,
    },

    /// A file could not be read or written.
    #[error("{path}: {detail}")]
    Io {
        /// The file.
        path: String,
        /// The system's words.
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
