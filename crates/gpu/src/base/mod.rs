//! Shared by all other modules: errors, locks, background threads, plain data, byte counts, device properties, NUMA
//! nodes.

pub mod background;
mod bytes;
mod error;
mod lock;
pub(crate) mod numa;
mod plain;
mod properties;

pub use bytes::Bytes;
pub use error::{Error, Result};
pub use lock::Lock;
pub(crate) use plain::zeroed_vec;
pub use plain::{Plain, bytes_of, bytes_of_mut};
pub use properties::{DeviceKind, Link, MemoryInfo, Properties};
