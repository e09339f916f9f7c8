//! Programs and proofs, from outside.

mod programs;
mod proofs;
mod support;
