//! How a device is opened.

use std::path::PathBuf;

use super::keep::KeepLimits;
use crate::base::{Bytes, Error, Result};
use crate::code::{Cache, LaunchPolicy};
use crate::memory::Pooling;

/// How a device is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The most bytes that live buffers may take.
    pub memory_limit: Option<usize>,
    /// Where buffers come from.
    pub pooling: Pooling,
    /// How block sizes are picked.
    pub launch_policy: LaunchPolicy,
    /// Where compiled kernels are kept; `None` keeps none.
    pub cache: Option<PathBuf>,
    /// The most bytes of compiled kernels in that folder.
    pub cache_limit: u64,
    /// How much the device keeps for reuse; `None`: 4,096 values, and a sixteenth of the device's memory.
    pub keep: Option<KeepLimits>,
    /// How ordinary host memory is copied.
    pub staging: Staging,
}

impl Options {
    /// `RIGEL_MEMORY_LIMIT` (`2GiB`), `RIGEL_POOL` (`arena` or `direct`), `RIGEL_LAUNCH`, `RIGEL_CACHE`,
    /// `RIGEL_CACHE_LIMIT`.
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
        Ok(Self {
            memory_limit,
            pooling,
            launch_policy: LaunchPolicy::from_env()?,
            cache: Cache::default_folder(),
            cache_limit: Cache::default_limit()?,
            keep: None,
            staging: Staging::default(),
        })
    }
}

/// How ordinary host memory is staged through pinned memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staging {
    /// Bytes of one pinned block: large enough for the cost of starting a copy not to show, small enough for all
    /// blocks to stay in the host's cache.
    pub chunk: usize,
    /// Host threads that fill or empty blocks.
    pub threads: usize,
}

impl Default for Staging {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { chunk: 4 << 20, threads: cores.min(8) }
    }
}
