//! Device memory, planned before a proof begins: on one device ([`plan`]) and over several ([`over`]).

pub(crate) mod over;
pub(crate) mod plan;
