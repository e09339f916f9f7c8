//! Traces of upstream's AIRs, generated on the device.
//!
//! The inputs go up instead of the trace: of KeccakAir, 200 bytes instead of 24 rows of 2,633 columns. The traces equal
//! those of upstream's `generate_trace_rows`, and [`prove`](crate::prove) takes them as they are.

mod keccak;

pub use keccak::keccak;
