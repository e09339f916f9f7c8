//! Proofs on the devices against upstream's own.

mod proofs;
mod support;
