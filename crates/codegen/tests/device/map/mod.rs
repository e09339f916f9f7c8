//! Element-wise expressions and reductions against a plain evaluation on the host.

mod complex;
mod edges;
mod layouts;
mod operations;
mod reductions;
mod run;
mod value;
