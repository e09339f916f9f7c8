//! Plonky3 proofs on the GPU, byte for byte.
