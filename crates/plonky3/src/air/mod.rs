//! AIRs as a prover reads them: constraints and lookups as expression graphs, the programs made of them, and how an
//! AIR is known again.

pub(crate) mod constraints;
pub(crate) mod contents;
pub(crate) mod fractions;
pub(crate) mod program;
pub(crate) mod provable;
pub(crate) mod readings;
pub(crate) mod structure;
