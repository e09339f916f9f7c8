//! The phases of a proof on one device, after the commitment to the trace: lookups, quotient, openings, FRI and its end
//! on the host. `round` has the commitments that are opened, `gathered` the values that are read together. A protocol
//! in `door` is a transcript over the phases; openings and FRI continue it.

pub(crate) mod fri;
pub(crate) mod gathered;
pub(crate) mod lookup;
pub(crate) mod open;
pub(crate) mod quotient;
pub(crate) mod round;
pub(crate) mod tail;
