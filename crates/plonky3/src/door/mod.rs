//! The functions that make provers and proofs, each protocol as a page; the choice between device and CPU, queues of
//! proofs, kernels compiled ahead, and the comparison of a prover's parameters with upstream's. What ends in `_over` is
//! for several devices.

pub(crate) mod agreement;
pub(crate) mod batch;
pub(crate) mod batch_over;
pub(crate) mod compile;
pub(crate) mod construct;
pub(crate) mod fallback;
pub(crate) mod instance;
pub(crate) mod openings;
pub(crate) mod prove;
pub(crate) mod prove_over;
pub(crate) mod queue;
#[cfg(debug_assertions)]
pub(crate) mod satisfied;
pub(crate) mod tables;
