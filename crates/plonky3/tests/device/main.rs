//! Proofs of the device against upstream's, byte for byte, on every device there is: emulated always, CUDA too.

mod airs;
mod batch;
mod configs;
mod configurations;
mod constants;
mod fri;
mod hashes;
mod hiding;
mod keys;
mod memory;
mod policy;
mod pool;
mod queue;
mod random;
mod refused;
mod repeated;
mod report;
mod shapes;
mod small;
mod support;
mod tables;
mod witness;
