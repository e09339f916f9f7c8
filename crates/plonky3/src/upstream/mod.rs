//! Upstream's types and the kernels that serve them: fields and extensions, tree hashes, challengers, configurations,
//! the generators of proofs that hide the trace. Support for another field, hash or challenger begins here.

pub(crate) mod challenger;
pub(crate) mod config;
pub(crate) mod field;
pub(crate) mod hash;
pub(crate) mod hiding;
pub(crate) mod poseidon2;
pub(crate) mod transcript;
