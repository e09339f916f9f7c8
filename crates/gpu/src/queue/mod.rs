//! Ordering of work: timelines (the numbered work of one stream), events, and the resources that work uses.
//!
//! Every piece of work submitted to a stream has a number. Memory records, for each stream, the number of the last
//! work that uses it, and is idle once that work is complete. Events recorded at intervals show how far a stream
//! has progressed, so a caller never waits for unrelated work. Launches may be gathered and submitted together.
//!
//! Numbers cost one comparison, vanish when the work is complete, and have no limit on streams. With a set of streams
//! for each block of memory, whoever takes a freed block would wait for everything that those streams were given
//! meanwhile, and the set would never empty.

mod captures;
mod chains;
mod event;
mod failures;
#[cfg(test)]
pub(crate) mod scripted;
mod streams;
mod timeline;
mod uses;

pub(crate) use captures::{Capture, Recorded};
pub(crate) use chains::ChainPool;
pub use event::Event;
pub(crate) use event::EventPool;
pub(crate) use streams::StreamPool;
pub(crate) use timeline::{Queue, Timeline, Work};
pub(crate) use uses::{Origin, Resource, Usage, Uses};
