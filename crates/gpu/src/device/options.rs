//! Options for opening a device.

use std::path::PathBuf;

use super::keep::KeepLimits;
use crate::base::{Bytes, Error, Result};
use crate::code::{Cache, LaunchPolicy};
use crate::memory::Pooling;

/// Options for opening a device.
#[derive(Clone, Debug)]
pub struct Options {
    /// Maximum bytes of live buffers.
    pub memory_limit: Option<usize>,
    /// The allocation policy of buffers.
    pub pooling: Pooling,
    /// The policy that picks block sizes.
    pub launch_policy: LaunchPolicy,
    /// Whether gathered launches are submitted as instantiated graphs, where the driver can. Otherwise they are
    /// launched one by one, which takes the host longer: for drivers that spoil such graphs, as `rigel doctor` finds
    /// out.
    pub chains: bool,
    /// The folder of the disk cache of compiled kernels; `None` disables it.
    pub cache: Option<PathBuf>,
    /// Maximum bytes of compiled kernels in that folder.
    pub cache_limit: u64,
    /// Limits of the cache of reusable values. `None` means 4,096 values and a sixteenth of the device's memory.
    pub keep: Option<KeepLimits>,
    /// The settings for copies of pageable host memory.
    pub staging: Staging,
}

impl Options {
    /// Reads `RIGEL_MEMORY_LIMIT` (`2GiB`), `RIGEL_POOL` (`arena` or `direct`), `RIGEL_LAUNCH`, `RIGEL_CHAINS`
    /// (`on` or `off`), `RIGEL_CACHE` and `RIGEL_CACHE_LIMIT`.
    pub fn from_env() -> Result<Self> {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let limit = set("RIGEL_MEMORY_LIMIT").map(|text| text.parse::<Bytes>()).transpose();
        let memory_limit =
            limit.map_err(|detail| Error::shape("RIGEL_MEMORY_LIMIT", detail))?.map(|bytes| bytes.0);
        let pooling = match set("RIGEL_POOL").as_deref() {
            None | Some("arena") => Pooling::Arena,
            Some("direct") => Pooling::Direct,
            Some(other) => {
                return Err(Error::shape("RIGEL_POOL", format!("{other:?} is neither `arena` nor `direct`")));
            }
        };
        let chains = match set("RIGEL_CHAINS").as_deref() {
            None | Some("on") => true,
            Some("off") => false,
            Some(other) => {
                return Err(Error::shape("RIGEL_CHAINS", format!("{other:?} is neither `on` nor `off`")));
            }
        };
        Ok(Self {
            memory_limit,
            pooling,
            launch_policy: LaunchPolicy::from_env()?,
            chains,
            cache: Cache::default_folder(),
            cache_limit: Cache::default_limit()?,
            keep: None,
            staging: Staging::default(),
        })
    }
}

/// The settings by which pageable host memory is staged through pinned memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staging {
    /// Bytes of one pinned block: large enough to amortise the cost of starting a copy, small enough for all
    /// blocks to stay in the host's cache.
    pub chunk: usize,
    /// Host threads that copy to and from the blocks.
    pub threads: usize,
}

impl Staging {
    /// The nearest values that work: chunks of at least a page, from 1 to 64 threads.
    pub(crate) fn clamped(self) -> Self {
        Self { chunk: self.chunk.clamp(4096, 1 << 30), threads: self.threads.clamp(1, 64) }
    }
}

impl Default for Staging {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { chunk: 4 << 20, threads: cores.min(8) }
    }
}
