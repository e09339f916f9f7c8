//! Work that is done once for many proofs: commitments to preprocessed columns, keys of batches. `check` compares the
//! inputs of a proof with its key and with the limits of device and field.

pub(crate) mod batch_key;
pub(crate) mod check;
pub(crate) mod preprocessed;
pub(crate) mod setup;
