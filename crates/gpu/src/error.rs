//! Everything that can go wrong, as values.

use std::fmt;
use std::str::FromStr;

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
        kind: crate::Kind,
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

/// A number of bytes, printed for people: `9.1 GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["KiB", "MiB", "GiB", "TiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < units.len() {
            value /= 1024.0;
            unit += 1;
        }
        write!(f, "{value:.1} {}", units[unit])
    }
}

impl FromStr for Bytes {
    type Err = String;

    /// `512`, `64KiB`, `100 MiB`, `2GiB`: a whole number above zero, and a unit.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let shift = match text[end..].trim() {
            "" | "B" => Some(0),
            "KiB" => Some(10),
            "MiB" => Some(20),
            "GiB" => Some(30),
            "TiB" => Some(40),
            _ => None,
        };
        let bytes = shift.and_then(|shift| text[..end].parse::<usize>().ok()?.checked_mul(1 << shift));
        bytes
            .filter(|&bytes| bytes > 0)
            .map(Self)
            .ok_or_else(|| format!("{text:?} is not a number of bytes; write 512, 64KiB, 100MiB or 2GiB"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_well() {
        assert_eq!(Bytes(512).to_string(), "512 B");
        assert_eq!(Bytes(1536).to_string(), "1.5 KiB");
        assert_eq!(Bytes(9_771_050_598).to_string(), "9.1 GiB");
    }

    #[test]
    fn bytes_are_read() {
        for (text, bytes) in
            [("512", 512), ("512B", 512), ("64KiB", 65_536), ("3 MiB", 3 << 20), ("2GiB", 2 << 30)]
        {
            assert_eq!(text.parse(), Ok(Bytes(bytes)));
        }
        for text in ["", "0", "GiB", "1GB", "-1", "1.5GiB", "99999999999999999999", "99999999999TiB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }
}
