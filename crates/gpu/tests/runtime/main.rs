//! The runtime's own tests, on every device there is.

mod addresses;
mod blas;
mod compile;
mod foreign;
mod graphs;
mod memory;
mod peers;
mod selection;
mod streams;
