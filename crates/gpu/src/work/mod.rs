//! Work on a device: streams, copies, launches, graphs, other devices, other libraries, reports of what it cost, and
//! attempts at jobs.

mod attempt;
mod blas;
mod copies;
mod exchange;
mod fetch;
mod foreign;
mod graph;
mod launch;
mod peers;
mod rehearsal;
mod report;
mod small;
mod staging;
mod stream;

pub use attempt::{Attempt, Move};
pub use blas::{Blas, GemmOperand, GemmShape, GemmTarget};
pub use exchange::{Exchange, Piece, all_gather, all_to_all, exchange};
pub use fetch::Fetch;
pub use graph::{Graph, Recapture};
pub use launch::Gathering;
pub use peers::{Route, Topology};
pub use rehearsal::{Interconnect, Modelled, Rehearsal, Steps};
pub use report::{DeviceShare, Fallback, Phase, Recorder, Report};
pub use stream::Stream;
