//! Values that are gathered from many places and downloaded by one copy.

use rigel_gpu::{Buffer, Fetch, Plain, Stream, ViewMut};

use crate::base::error::Result;

/// Allocates `count` vectors, each with room for `capacity` values. (A clone of an empty vector has no room.)
pub(crate) fn with_room<T>(count: usize, capacity: usize) -> Vec<Vec<T>> {
    (0..count).map(|_| Vec::with_capacity(capacity)).collect()
}

/// Values that the device gathers from many places, in one buffer, so that one copy downloads all of them.
pub(crate) struct Gathered<T: Plain> {
    values: Buffer<T>,
    lengths: Vec<usize>,
    end: usize,
}

impl<T: Plain> Gathered<T> {
    pub(crate) fn new(stream: &Stream, total: usize) -> Result<Self> {
        Ok(Self { values: stream.alloc(total)?, lengths: Vec::new(), end: 0 })
    }

    /// Room for the next `length` values.
    pub(crate) fn room(&mut self, length: usize) -> Result<ViewMut<'_, T>> {
        self.rooms([length])
    }

    /// Room for the next values, of all these lengths.
    pub(crate) fn rooms(&mut self, lengths: impl IntoIterator<Item = usize>) -> Result<ViewMut<'_, T>> {
        let (start, first) = (self.end, self.lengths.len());
        self.lengths.extend(lengths);
        self.end += self.lengths[first..].iter().sum::<usize>();
        Ok(self.values.range_mut(start..self.end)?)
    }

    /// Begins to copy all values to the host.
    pub(crate) fn fetch(&self, stream: &Stream) -> Result<Fetch<T>> {
        Ok(stream.fetch(&self.values)?)
    }

    /// All values, once they are on the host, by room.
    pub(crate) fn by_room<'v>(&'v self, values: &'v [T]) -> impl Iterator<Item = &'v [T]> {
        let mut rest = values;
        self.lengths.iter().map(move |&length| rest.split_off(..length).expect("as many as there is room for"))
    }

    /// The values by room. Waits for the device.
    pub(crate) fn download(self, stream: &Stream) -> Result<Vec<Vec<T>>> {
        let all = self.values.to_vec(stream)?;
        Ok(self.by_room(&all).map(<[T]>::to_vec).collect())
    }
}
