//! Kernel code: source text, the cache of compiled images, loaded modules, and what a kernel is launched with.

mod args;
mod cache;
mod module;
mod shape;
mod source;

pub use args::{AddressList, Argument, ArgumentList, Arguments};
pub use cache::{Cache, CacheStats};
pub(crate) use module::Loaded;
pub use module::{Kernel, Module, Resources};
pub use shape::{LaunchPolicy, Shape};
pub use source::Source;
