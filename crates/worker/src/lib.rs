//! A program becomes a worker: it takes jobs on its standard input and answers on its standard output.
//!
//! ```no_run
//! fn main() -> Result<(), rigel_worker::Error> {
//!     rigel_worker::serve("reverse", |job| {
//!         job.progress(0.5, "reversing");
//!         Ok(job.input().iter().rev().copied().collect())
//!     })
//! }
//! ```
//!
//! `rigel.cluster` of the Python package starts such programs on the machines of a Ray cluster, one a GPU, and gives
//! them jobs. [`frame`] describes what travels, for whoever wants to start workers in another way.
//!
//! - A job is bytes, and so is its result. Beside it a report travels: seconds, bytes, and what the job adds.
//! - A job that returns an error or panics is answered with a failure; the worker goes on with the next.
//!   [`Failure::elsewhere`] says that another worker may succeed, for instance because a device was lost.
//!   `rigel.cluster` tries such jobs again, and those that panicked, in a worker that it starts anew.
//! - [`Job::cancelled`] says whether the result is still wanted. A job that is cancelled before it began is not begun.
//! - While jobs run, standard output is standard error and standard input is empty, so that nothing that the program
//!   prints or reads can disturb the frames.
//! - [`serve_several`] works on several jobs at once, for instance because a device proves one while it copies another.
//! - If the standard input ends, nobody is left to take a result: the process exits, in the middle of a job too.

pub mod frame;
mod job;
mod serve;
mod streams;

pub use job::{Failure, Job, Stopped};
pub use serve::{Options, serve, serve_several, serve_with};
pub use streams::take as take_streams;

/// The version of the protocol, which the greeting states. Both sides refuse another one.
pub const PROTOCOL: u32 = 1;

/// The reason why a worker ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Standard input or output does not work.
    #[error("the worker's {stream} failed: {source}")]
    Stream {
        /// The stream that failed.
        stream: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The input was not a frame.
    #[error(transparent)]
    Frame(#[from] frame::FrameError),
}
