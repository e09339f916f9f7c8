//! The public device: selection, options, the handle, and its cache of reusable values.

mod handle;
mod keep;
mod observer;
mod options;
mod returned;
mod select;

pub use handle::Device;
pub use keep::{KeepLimits, KeepStats};
pub(crate) use observer::{Observer, Sent};
pub use options::{Options, Staging};
pub(crate) use select::driver_of;
pub use select::{Selector, Selectors, check_team};
