//! Work that is done once for many proofs: checks of inputs, commitments to preprocessed columns, keys of batches.

pub(crate) mod batch_key;
pub(crate) mod check;
pub(crate) mod preprocessed;
pub(crate) mod setup;
