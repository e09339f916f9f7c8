//! Kernel text: this crate's headers, and the one place where text becomes a [`Source`](rigel_gpu::Source).

mod source;

pub use source::source;
