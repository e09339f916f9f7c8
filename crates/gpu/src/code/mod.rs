//! Kernel code: source text, the cache of compiled images, loaded modules, launch arguments and shapes.

mod args;
mod cache;
mod module;
mod shape;
mod source;

pub use args::{AddressList, Argument, ArgumentList, Arguments};
pub use cache::{Cache, CacheStats};
pub(crate) use cache::{decode as decode_image, encode as encode_image};
pub(crate) use module::Loaded;
pub use module::{Kernel, Module, Resources};
pub use shape::{LaunchPolicy, Shape};
pub use source::Source;
