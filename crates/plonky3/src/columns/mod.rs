//! Columns on one device, wherever they lie: traces that arrive, wait in pinned memory or are resident, extended
//! columns, masks, and commitments.

pub(crate) mod batches;
pub(crate) mod commit;
pub(crate) mod extended;
pub(crate) mod masks;
pub(crate) mod parked;
pub(crate) mod trace;
