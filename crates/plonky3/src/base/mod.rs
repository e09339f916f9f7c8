//! Errors, cancellation and reports: what every room returns.

pub(crate) mod cancel;
pub(crate) mod error;
pub(crate) mod report;
