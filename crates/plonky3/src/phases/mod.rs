//! The phases of a proof on one device, after the commitment to the trace: lookups, quotient, openings, FRI. A
//! protocol in `door` is a transcript over them.

pub(crate) mod fri;
pub(crate) mod gathered;
pub(crate) mod lookup;
pub(crate) mod open;
pub(crate) mod quotient;
pub(crate) mod round;
pub(crate) mod tail;
