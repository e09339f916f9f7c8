//! Programs against a plain evaluation of the same expressions on the host, on every device there is.

mod doubling;
mod long;
mod map;
mod mirror;
mod random;
mod refused;
