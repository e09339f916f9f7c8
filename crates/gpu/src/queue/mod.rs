//! The order of work: timelines (the work of one stream, numbered), marks in them, and what work uses.
//!
//! Every piece of work that a stream is given has a number. Memory remembers, for each stream, the number of the last
//! work that uses it, and is idle once that number is known to be complete. Events recorded every so often tell how
//! far a stream is, so that nobody waits for work that has nothing to do with theirs.

mod event;
#[cfg(test)]
pub(crate) mod scripted;
mod timeline;
mod uses;

pub use event::Event;
pub(crate) use event::EventPool;
pub(crate) use timeline::{Capture, Queue, Timeline};
pub(crate) use uses::{Resource, Usage, Uses};
