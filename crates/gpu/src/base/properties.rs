//! What a device is.

use std::fmt;

/// The two kinds of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// An NVIDIA GPU.
    Cuda,
    /// The same kernels, compiled by the host's C++ compiler and run on the CPU.
    Emulated,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cuda => "cuda",
            Self::Emulated => "emulated",
        })
    }
}

/// The properties of a device that do not change while it is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// CUDA or emulated.
    pub kind: Kind,
    /// Its number among the devices of its kind.
    pub ordinal: u32,
    /// The maker's name for it.
    pub name: String,
    /// Compute capability, major and minor; the emulated device says (0, 0).
    pub capability: (u32, u32),
    /// Streaming multiprocessors, or cores of the host.
    pub multiprocessors: u32,
    /// Threads that execute together.
    pub warp: u32,
    /// The most threads a block may have.
    pub max_threads_per_block: u32,
    /// The most shared memory a block may ask for, in bytes.
    pub max_shared_per_block: u32,
    /// Bytes of second-level cache.
    pub l2_bytes: usize,
    /// Bytes of device memory.
    pub memory_bytes: usize,
    /// Driver version, as the maker writes it (`13.0`); the C++ compiler's on the emulated device.
    pub driver: String,
}

/// The device's name: `cuda:0`.
impl fmt::Display for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.ordinal)
    }
}

/// Memory of a device at one moment, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// What an allocation could still get.
    pub free: usize,
    /// What the device has.
    pub total: usize,
}

/// How one device reaches another's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Link {
    /// The same device.
    Same,
    /// Direct, over NVLink.
    NvLink,
    /// Direct, over PCIe.
    Pcie,
    /// No direct way: copies go through pinned host memory.
    Host,
}

impl Link {
    /// Whether one device can address the other's memory.
    pub fn is_direct(self) -> bool {
        self != Self::Host
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Same => "same",
            Self::NvLink => "NVLink",
            Self::Pcie => "PCIe",
            Self::Host => "host",
        })
    }
}
