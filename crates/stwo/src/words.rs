//! The memory that holds the words of columns.

use std::sync::Arc;

use rigel_gpu::{Buffer, Device, Error, Result, View, ViewMut};
use rigel_kernels::field::Mersenne31;

/// Memory in which columns were made together.
struct Memory {
    device: Device,
    words: Buffer<Mersenne31>,
}

/// A column's words: a range of such memory.
///
/// Proofs make tens of thousands of columns. One of them counts as an owner of the memory, and that is all: it is
/// allocated once for all of them, and asked once for its device.
#[derive(Clone)]
pub(crate) struct Words {
    memory: Arc<Memory>,
    first: usize,
    len: usize,
}

impl Words {
    /// All words of a buffer, which is on this device.
    pub(crate) fn new(device: Device, words: Buffer<Mersenne31>) -> Self {
        let len = words.len();
        Self { memory: Arc::new(Memory { device, words }), first: 0, len }
    }

    /// The words of each of the columns of this length that follow each other in a buffer.
    pub(crate) fn split(words: Buffer<Mersenne31>, len: usize) -> Result<impl ExactSizeIterator<Item = Self>> {
        let count = words.len().checked_div(len).unwrap_or(0);
        if count * len != words.len() {
            let detail = format!("{} words are not a multiple of the {len} words of a column", words.len());
            return Err(Error::shape("CudaBackend", detail));
        }
        let all = Self::new(words.device(), words);
        Ok((0..count).map(move |i| Self { first: i * len, len, ..all.clone() }))
    }

    /// The device that has them.
    pub(crate) fn device(&self) -> &Device {
        &self.memory.device
    }

    /// The number of words.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn view(&self) -> View<'_, Mersenne31> {
        self.memory.words.range(self.first..self.first + self.len).expect("a range of the memory")
    }

    /// The words for writing, if these are the only ones that were made there.
    pub(crate) fn view_mut(&mut self) -> Option<ViewMut<'_, Mersenne31>> {
        Arc::get_mut(&mut self.memory)?.words.range_mut(self.first..self.first + self.len).ok()
    }
}
