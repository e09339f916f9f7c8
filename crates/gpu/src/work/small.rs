//! Small copies as kernels.
//!
//! A copy by the driver costs the host several microseconds, it ends a chain of gathered launches, and the host sees
//! the end of a copy back about ten microseconds late. So while launches are gathered, a few words go up as an argument
//! of a kernel. And what is small comes back through a kernel that writes it to pinned memory, and after it a word for
//! which the host waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use smallvec::{SmallVec, smallvec};

use crate::base::{DeviceKind, Error, Plain, Result, bytes_of_mut};
use crate::code::{Argument, ArgumentList, Arguments, Kernel, Module, Shape, Source};
use crate::device::Device;
use crate::memory::{PinnedBlock, SMALLEST_PINNED, View, ViewMut};
use crate::work::Stream;

/// The largest uploads in bytes that are arguments of a kernel, and the most of each kernel. Every device takes 4 KiB
/// of arguments.
pub(super) const MOST_WRITTEN: usize = 3968;
const WRITES: [usize; 3] = [64, 512, MOST_WRITTEN];

/// The bytes of pinned memory before the values: room for the word that tells of their arrival.
const HEAD: usize = 64;

/// The most bytes that a kernel writes to pinned memory. With the word, they fit in its smallest block.
const MOST_DELIVERED: usize = SMALLEST_PINNED - HEAD;

/// The time for which the host itself polls the word. Then it waits by the driver, which also reports errors.
const PATIENCE: Duration = Duration::from_micros(200);

/// The most threads of the block that delivers.
const MOST_THREADS: u32 = 1024;

/// The kernels.
pub(super) struct SmallCopies {
    write: [Kernel; WRITES.len()],
    deliver: Kernel,
}

/// The key of the kernels in the device's cache.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key;

impl SmallCopies {
    /// Compiles the kernels.
    pub(super) fn compile(device: &Device) -> Result<Module> {
        // SAFETY: `write_words` writes as many words as it is told, and `deliver` reads as many; the addresses that
        // `deliver` writes to are those of a pinned block, which is not used again until the launch is complete.
        let text = unsafe { Source::new("small.cu", include_str!("small.cu")) };
        device.compile(&WRITES.map(write_words).iter().fold(text.kernel("deliver"), Source::kernel))
    }

    /// Compiles or loads the kernels. Until then, small copies are the driver's.
    pub(super) fn load(device: &Device) -> Result<Arc<Self>> {
        device.kept(&Key, |device| {
            let module = Self::compile(device)?;
            let [few, some, many] = WRITES.map(write_words);
            let write = [module.kernel(&few)?, module.kernel(&some)?, module.kernel(&many)?];
            Ok((Self { write, deliver: module.kernel("deliver")? }, 0))
        })
    }

    /// The kernels, if they were loaded. On the emulated device copies are cheaper than launches.
    pub(super) fn on(device: &Device) -> Option<Arc<Self>> {
        (device.kind() == DeviceKind::Cuda).then(|| device.kept_already(&Key)).flatten()
    }

    /// Uploads `bytes`, if they are few and launches are gathered. Returns whether it did.
    pub(super) fn write<T: Plain>(&self, stream: &Stream, to: &ViewMut<'_, T>, bytes: &[u8]) -> Result<bool> {
        let fitting = WRITES.iter().position(|&most| bytes.len() <= most);
        let is_possible = are_words(to.view()) && stream.timeline().is_gathering();
        let (Some(index), true) = (fitting, is_possible) else { return Ok(false) };
        let mut payload: SmallVec<[u64; 64]> = smallvec![0; WRITES[index] / 8];
        bytes_of_mut(&mut payload)[..bytes.len()].copy_from_slice(bytes);
        let count = (bytes.len() / 4) as u32;
        let mut list = ArgumentList::default();
        to.push(&mut list);
        list.bytes(&payload, WRITES[index]);
        count.push(&mut list);
        // SAFETY: these are the kernel's arguments, and its launch bounds are this block.
        unsafe { self.write[index].enqueue(stream, Shape::new(1, (WRITES[index] / 4) as u32), &list) }?;
        Ok(true)
    }

    /// Begins to copy `from` to the host, if it is small. It is on its way when this returns.
    pub(super) fn deliver<T: Plain>(&self, stream: &Stream, from: View<'_, T>) -> Result<Option<Delivery>> {
        let bytes = from.bytes();
        if bytes == 0 || bytes > MOST_DELIVERED || !are_words(from) {
            return Ok(None);
        }
        let block = stream.core().pinned.take_for(HEAD + bytes, Some(stream.timeline()))?;
        block.wait_idle()?;
        let delivery = Delivery { block, bytes, number: 0 };
        delivery.arrived().store(0, Ordering::Release);
        let (count, to, word) = ((bytes / 4) as u32, delivery.at() as u64, delivery.block.as_ptr() as u64);
        let arguments = (from, count, to, word);
        let mut list = ArgumentList::default();
        arguments.push_all(&mut list);
        let shape = Shape::new(1, count.next_multiple_of(32).min(MOST_THREADS));
        // SAFETY: these are the kernel's arguments, and any GPU has blocks of 1024 threads.
        let mut work = unsafe { self.deliver.enqueue(stream, shape, &list) }?;
        work.uses(&delivery.block);
        work.stream()?;
        Ok(Some(Delivery { number: work.number(), ..delivery }))
    }
}

/// Values on their way to pinned memory, after a word that tells of their arrival.
pub(super) struct Delivery {
    block: Arc<PinnedBlock>,
    bytes: usize,
    /// The number of the kernel that writes them.
    number: u64,
}

impl Delivery {
    /// The word.
    fn arrived(&self) -> &AtomicU32 {
        // SAFETY: the block begins at a page, and it lives as long as this. No copy uses it until the kernel is
        // launched, and from then on the host and the kernel access the word as one.
        unsafe { AtomicU32::from_ptr(self.block.as_ptr().cast()) }
    }

    /// The place of the values.
    fn at(&self) -> *mut u8 {
        // SAFETY: the block has room for both.
        unsafe { self.block.as_ptr().add(HEAD) }
    }

    /// The number of bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Waits for the values and copies them to `values`, which are as many bytes.
    pub(super) fn wait(self, stream: &Stream, values: &mut [u8]) -> Result<()> {
        assert_eq!(values.len(), self.bytes, "room for other values");
        let began = Instant::now();
        while self.arrived().load(Ordering::Acquire) == 0 {
            if began.elapsed() > PATIENCE {
                stream.timeline().wait_until(self.number)?;
                if self.arrived().load(Ordering::Acquire) == 0 {
                    let detail = format!("{} bytes did not arrive in pinned memory", self.bytes);
                    let device = stream.device().to_string();
                    return Err(Error::Driver { device, operation: "copy to the host", detail });
                }
                break;
            }
            std::hint::spin_loop();
        }
        stream.timeline().completed(self.number);
        // SAFETY: the kernel has written these bytes before the word, which has arrived.
        unsafe { std::ptr::copy_nonoverlapping(self.at(), values.as_mut_ptr(), self.bytes) };
        Ok(())
    }
}

/// The kernel that writes up to so many bytes.
fn write_words(bytes: usize) -> String {
    format!("write_words<{}>", bytes / 4)
}

/// Whether values are whole words of four bytes.
fn are_words<T: Plain>(values: View<'_, T>) -> bool {
    values.bytes().is_multiple_of(4) && values.address().is_multiple_of(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Selector;

    #[test]
    fn a_few_words_go_there_and_back() {
        let device = Device::open(Selector::Emulated(0)).unwrap();
        let (stream, kernels) = (device.new_stream().unwrap(), SmallCopies::load(&device).unwrap());
        let gathering = stream.gather();
        for (count, is_small) in
            [(1, true), (16, true), (17, true), (128, true), (129, true), (992, true), (993, false)]
        {
            let values: Vec<u32> = (0..count).map(|i: u32| i.wrapping_mul(0x0101_0101) ^ 7).collect();
            let mut there = stream.zeros::<u32>(count as usize + 1).unwrap();
            let room = there.range_mut(1..).unwrap();
            let bytes = crate::base::bytes_of(&values);
            assert_eq!(kernels.write(&stream, &room, bytes).unwrap(), is_small, "{count} words");
            if is_small {
                let mut back = vec![u32::MAX; count as usize + 1];
                let delivery = kernels.deliver(&stream, there.view()).unwrap().expect("a few words");
                delivery.wait(&stream, bytes_of_mut(&mut back)).unwrap();
                assert_eq!((back[0], &back[1..]), (0, &values[..]));
            }
        }
        drop(gathering);
        let mut there = stream.zeros::<u32>(1).unwrap();
        assert!(!kernels.write(&stream, &there.view_mut(), &[1; 4]).unwrap(), "no launches are gathered");
    }

    #[test]
    fn other_values_are_the_drivers() {
        let device = Device::open(Selector::Emulated(0)).unwrap();
        let (stream, kernels) = (device.new_stream().unwrap(), SmallCopies::load(&device).unwrap());
        let _gathering = stream.gather();
        let mut bytes = stream.zeros::<u8>(8).unwrap();
        assert!(!kernels.write(&stream, &bytes.range_mut(1..5).unwrap(), &[1; 4]).unwrap(), "not at a word");
        assert!(!kernels.write(&stream, &bytes.range_mut(..3).unwrap(), &[1; 3]).unwrap(), "no whole words");
        assert!(kernels.deliver(&stream, bytes.range(..2).unwrap()).unwrap().is_none());
        let many = stream.zeros::<u8>(MOST_DELIVERED + 4).unwrap();
        let mut back = vec![1; MOST_DELIVERED + 4];
        assert!(kernels.deliver(&stream, many.view()).unwrap().is_none());
        let delivery = kernels.deliver(&stream, many.range(4..).unwrap()).unwrap().expect("the most");
        delivery.wait(&stream, &mut back[4..]).unwrap();
        assert_eq!((&back[..4], &back[4..]), (&[1; 4][..], &vec![0; MOST_DELIVERED][..]));
    }
}
