//! Device properties.

use std::fmt;

/// The two kinds of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeviceKind {
    /// An NVIDIA GPU.
    Cuda,
    /// A device whose kernels the host's C++ compiler compiles and the CPU runs.
    Emulated,
}

impl fmt::Display for DeviceKind {
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
    pub kind: DeviceKind,
    /// The device's number among the devices of its kind.
    pub ordinal: u32,
    /// The number of this opening of the device: 0, or the number behind `#` in its name. Each opening has a
    /// context of its own.
    pub context: u32,
    /// The NUMA node of the host that the device is attached to, where the host has several nodes.
    pub numa_node: Option<u32>,
    /// The product name.
    pub name: String,
    /// Compute capability, major and minor; (0, 0) on the emulated device.
    pub capability: (u32, u32),
    /// Number of streaming multiprocessors, or of host cores on the emulated device.
    pub multiprocessors: u32,
    /// Threads in a warp.
    pub warp: u32,
    /// Maximum number of threads in a block.
    pub max_threads_per_block: u32,
    /// Maximum shared memory of a block, in bytes.
    pub max_shared_per_block: u32,
    /// Bytes of L2 cache.
    pub l2_bytes: usize,
    /// Bytes of device memory.
    pub memory_bytes: usize,
    /// The CUDA version of the driver (`13.0`); on the emulated device, the C++ compiler's version.
    pub driver: String,
}

impl Properties {
    /// The number of `others` that share the memory of this device, at least 1.
    pub(crate) fn sharing<'a>(&self, others: impl Iterator<Item = &'a Self>) -> usize {
        let shares = |other: &&Self| {
            (other.kind, other.ordinal) == (self.kind, self.ordinal)
                && (self.kind == DeviceKind::Cuda || other.context == self.context)
        };
        others.filter(shares).count().max(1)
    }
}

/// The device's name: `cuda:0`, or `cuda:0#1` if it is open a second time.
impl fmt::Display for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.ordinal)?;
        if self.context > 0 { write!(f, "#{}", self.context) } else { Ok(()) }
    }
}

/// A device's free and total memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryInfo {
    /// Bytes that can still be allocated.
    pub free: usize,
    /// Bytes in total.
    pub total: usize,
}

/// The path by which one device reaches another's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Link {
    /// Both are one device.
    Same,
    /// Direct, over NVLink.
    NvLink,
    /// Direct, over PCIe.
    Pcie,
    /// Copies go through pinned host memory; there is no direct access.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn opening(kind: DeviceKind, ordinal: u32, context: u32) -> Properties {
        Properties {
            kind,
            ordinal,
            context,
            numa_node: None,
            name: String::new(),
            capability: (0, 0),
            multiprocessors: 1,
            warp: 32,
            max_threads_per_block: 1024,
            max_shared_per_block: 0,
            l2_bytes: 0,
            memory_bytes: 0,
            driver: String::new(),
        }
    }

    #[test]
    fn openings_of_a_gpu_share_its_memory() {
        for (kind, expected) in [(DeviceKind::Cuda, [3, 1]), (DeviceKind::Emulated, [1, 1])] {
            let all = [(0, 0), (1, 0), (0, 1), (0, 2)].map(|(ordinal, context)| opening(kind, ordinal, context));
            let sharing = [0, 1].map(|device: usize| all[device].sharing(all.iter()));
            assert_eq!(sharing, expected, "{kind}");
            assert_eq!(all[0].sharing(std::iter::empty()), 1);
        }
    }
}
