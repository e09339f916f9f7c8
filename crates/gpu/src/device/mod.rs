//! Devices as users see them: opening one, its settings, its code, and what it keeps for reuse.

mod device;
mod keep;
mod options;
mod select;

pub use device::Device;
pub use keep::{KeepLimits, KeepStats};
pub use options::{Options, Staging};
pub use select::Selector;
