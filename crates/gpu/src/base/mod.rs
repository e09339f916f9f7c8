//! What every room uses: errors, locks, plain data, numbers of bytes, properties of devices.

mod bytes;
mod error;
mod lock;
mod plain;
mod properties;

pub use bytes::Bytes;
pub use error::{Error, Result};
pub use lock::Lock;
pub(crate) use plain::zeroed_vec;
pub use plain::{Plain, bytes_of, bytes_of_mut};
pub use properties::{Kind, Link, MemoryInfo, Properties};
