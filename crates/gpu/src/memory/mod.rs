//! Memory: the arena of device memory, the pool of pinned memory, buffers, views and runs.
//!
//! [`Core`] is the lowest layer of an open device: its driver, its memory and its queues. Every reference to
//! memory or to a stream holds the core, so memory is unmapped only after the last stream is closed.

mod arena;
mod block;
mod buffer;
mod core;
mod counters;
mod free_list;
mod pinned;
mod runs;
mod view;

pub use arena::{PoolStats, Pooling};
pub(crate) use block::Block;
pub use buffer::{Buffer, Shared};
pub(crate) use core::{Core, Lane, PeakWatch, same_device};
pub use counters::Activity;
pub(crate) use pinned::{PinnedBlock, SMALLEST_PINNED};
pub use pinned::{PinnedBuffer, PinnedSlice};
pub use runs::{Runs, RunsMut};
pub use view::{View, ViewMut};
