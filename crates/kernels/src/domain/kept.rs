//! Values that a domain determines, such as its points and selectors.
//!
//! A device keeps those of short domains, since all proofs of a size read the same ones, and to make them takes
//! launches that last longer than what reads them.

use std::hash::Hash;
use std::sync::Arc;

use rigel_gpu::{Buffer, Device, Plain, Result, Stream};

use crate::layout::matrix::Matrix;

/// The most rows of a domain whose values are kept.
const MOST_ROWS: usize = 1 << 14;

/// A device on which less memory may be used keeps none of them.
const LEAST_MEMORY: usize = 256 << 20;

/// Whether a device keeps the values of a domain of so many rows.
pub fn is_kept(device: &Device, rows: usize) -> bool {
    rows <= MOST_ROWS && device.memory_limit().is_none_or(|limit| limit >= LEAST_MEMORY)
}

/// Memory on a device.
pub(crate) trait Held: Send + Sync + 'static {
    fn bytes(&self) -> usize;
}

impl<T: Plain> Held for Buffer<T> {
    fn bytes(&self) -> usize {
        self.view().bytes()
    }
}

impl<T: Plain> Held for Matrix<T> {
    fn bytes(&self) -> usize {
        self.values().view().bytes()
    }
}

/// Returns the value that `make` gives, or the one that it gave before for the same key if the domain has few
/// rows.
pub(crate) fn kept<K, V>(stream: &Stream, key: K, rows: usize, make: impl FnOnce() -> Result<V>) -> Result<Arc<V>>
where
    K: Hash + Eq + Clone + Send + 'static,
    V: Held,
{
    if !is_kept(stream.device(), rows) {
        return make().map(Arc::new);
    }
    stream.device().kept(&key, |_| {
        let made = make()?;
        // Other streams may use it next.
        stream.synchronize()?;
        let bytes = made.bytes();
        Ok((made, bytes))
    })
}
