//! Work on a device: streams, copies, launches, graphs, other devices, other libraries, and reports of what it
//! cost.

mod blas;
mod copies;
mod foreign;
mod graph;
mod launch;
mod peers;
mod report;
mod staging;
mod stream;

pub use blas::{Blas, GemmOperand, GemmShape, GemmTarget};
pub use graph::{Graph, Recapture};
pub use launch::Gathering;
pub use peers::{Route, Topology};
pub use report::{Fallback, Phase, Recorder, Report};
pub use stream::Stream;
