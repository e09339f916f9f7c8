//! Copies to the host that the host does not wait for yet.

use crate::base::{Plain, Result, bytes_of_mut, zeroed_vec};
use crate::memory::{PinnedBuffer, Shared, View};
use crate::work::Stream;
use crate::work::small::Delivery;

/// The largest copy, in bytes, that begins at once. Larger copies are made when they are waited for, by several
/// threads of the host.
const MOST_AHEAD: usize = 4 << 20;

/// Values on their way to the host. Made by [`Stream::fetch`].
#[must_use = "the values are there only after `wait`"]
pub struct Fetch<T: Plain> {
    stream: Stream,
    way: Way<T>,
}

enum Way<T: Plain> {
    Kernel(Delivery),
    Copy(PinnedBuffer<T>),
    /// The copy has not begun.
    Later(Shared<T>),
}

impl Stream {
    /// Copies values to the host, as they are at this point of the stream, and lets the host go on:
    /// [`Fetch::wait`] waits for them. What was enqueued before is submitted to the device.
    ///
    /// More than 4 MiB are copied when they are waited for: until then, nothing may write to them.
    pub fn fetch<'a, T: Plain>(&self, from: impl Into<View<'a, T>>) -> Result<Fetch<T>> {
        let from = from.into();
        self.outside_capture("Stream::fetch", "fetch after it")?;
        self.owns("Stream::fetch", from)?;
        let way = match self.deliver_small(from)? {
            Some(delivery) => {
                self.core().counters.downloaded(from.bytes());
                Way::Kernel(delivery)
            }
            None if from.bytes() <= MOST_AHEAD => Way::Copy(self.download_pinned(from)?),
            None => Way::Later(from.share()),
        };
        Ok(Fetch { stream: self.clone(), way })
    }
}

impl<T: Plain> Fetch<T> {
    /// Waits for the values. If the stream has other work by now, it may wait for that, too.
    pub fn wait(self) -> Result<Vec<T>> {
        let stream = &self.stream;
        let values = match self.way {
            Way::Kernel(delivery) => {
                let mut values = zeroed_vec(delivery.bytes() / size_of::<T>())?;
                delivery.wait(stream, bytes_of_mut(&mut values))?;
                values
            }
            Way::Copy(mut pinned) => pinned.slice()?.to_vec(),
            Way::Later(from) => return stream.download(from.view()),
        };
        stream.core().settle();
        stream.waited()?;
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::on_each_device;

    #[test]
    fn values_arrive_in_any_order() {
        on_each_device(|stream| {
            let lengths = [0, 3, 1 << 14, 1 << 18, MOST_AHEAD / 4 + 1];
            let values = |length: usize| (0..length as u32).map(|i| i * 7 + length as u32).collect::<Vec<u32>>();
            let buffers = lengths.map(|length| stream.upload(&values(length)).unwrap());
            let fetched: Vec<_> = buffers.iter().map(|buffer| stream.fetch(buffer).unwrap()).collect();
            for (fetch, length) in fetched.into_iter().zip(lengths).rev() {
                assert_eq!(fetch.wait().unwrap(), values(length));
            }
            // What nobody waits for is dropped, and its memory is used again after the copy.
            drop([stream.fetch(&buffers[1]).unwrap(), stream.fetch(&buffers[3]).unwrap()]);
            assert_eq!(stream.fetch(&buffers[2]).unwrap().wait().unwrap(), values(lengths[2]));
        });
    }

    #[test]
    fn values_are_those_of_the_fetch() {
        on_each_device(|stream| {
            stream.device().prepare_copies().unwrap();
            let mut buffer = stream.upload(&[1u32; 100]).unwrap();
            let gathering = stream.gather();
            let before = stream.fetch(&buffer).unwrap();
            stream.write(&mut buffer, &[2; 100]).unwrap();
            let after = stream.fetch(&buffer).unwrap();
            drop((gathering, buffer));
            assert_eq!([before.wait().unwrap(), after.wait().unwrap()], [vec![1; 100], vec![2; 100]]);
        });
    }
}
