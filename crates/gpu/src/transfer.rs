//! Copies between host and device.
//!
//! The copy engines reach page-locked memory at full speed and ordinary memory at a seventh of it. So large copies
//! of ordinary memory go through pinned blocks: several host threads fill blocks while earlier ones travel.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::buffer::{Buffer, View, ViewMut};
use crate::error::{Error, Result};
use crate::pinned::{PinnedBlock, PinnedBuffer};
use crate::plain::{Plain, bytes_of, bytes_of_mut, zeroed_vec};
use crate::stream::Stream;

/// Below this many bytes the driver's own staging is as good.
const DIRECT: usize = 256 << 10;

/// How ordinary host memory is staged through pinned memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staging {
    /// Bytes of one pinned block: large enough for the cost of starting a copy not to show, small enough for all
    /// blocks to stay in the host's cache.
    pub chunk: usize,
    /// Host threads that fill or empty blocks.
    pub threads: usize,
}

impl Default for Staging {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { chunk: 4 << 20, threads: cores.min(8) }
    }
}

/// Pinned blocks each host thread works with: one is filled while the other travels.
const BLOCKS_PER_THREAD: usize = 2;

impl Stream {
    /// Room for `len` values. Their content is whatever was there before.
    pub fn alloc<T: Plain>(&self, len: usize) -> Result<Buffer<T>> {
        self.device().alloc_on(self, len)
    }

    /// `len` values whose bytes are all zero.
    pub fn zeros<T: Plain>(&self, len: usize) -> Result<Buffer<T>> {
        let mut buffer = self.alloc(len)?;
        self.fill_bytes(&mut buffer, 0)?;
        Ok(buffer)
    }

    /// A new buffer with a copy of `values`. When it returns, `values` may be changed; the copy may still travel.
    pub fn upload<T: Plain>(&self, values: &[T]) -> Result<Buffer<T>> {
        let mut buffer = self.alloc(values.len())?;
        self.write(&mut buffer, values)?;
        Ok(buffer)
    }

    /// Copies `values` into `to`, which has the same length. When it returns, `values` may be changed.
    pub fn write<'a, T: Plain>(&self, to: impl Into<ViewMut<'a, T>>, values: &[T]) -> Result<()> {
        let to = to.into();
        same_length("Stream::write", to.len(), values.len())?;
        self.outside_capture("Stream::write")?;
        self.owns("Stream::write", to.view())?;
        let bytes = bytes_of(values);
        if bytes.len() <= DIRECT {
            self.device().counters().uploaded(bytes.len());
            self.queue().uses(to.block());
            if !bytes.is_empty() {
                // SAFETY: the view is a live range of this device of the same length as the slice, and the driver
                // is done with ordinary host memory on return.
                unsafe { self.device().driver().upload(self.raw(), *to.at(), bytes.as_ptr(), bytes.len())? };
            }
            return Ok(());
        }
        self.write_staged(to, |at, block| block.copy_from_slice(&bytes[at..at + block.len()]))
    }

    /// Copies slices, one after the other, into `to`, which is as long as all of them together. When it returns, they may
    /// be changed; the copy may still travel.
    ///
    /// It is as fast as one copy, however many slices there are.
    pub fn write_joined<'a, T: Plain>(&self, to: impl Into<ViewMut<'a, T>>, slices: &[&[T]]) -> Result<()> {
        const NAME: &str = "Stream::write_joined";
        let to = to.into();
        same_length(NAME, to.len(), slices.iter().map(|slice| slice.len()).sum())?;
        if let [slice] = slices {
            return self.write(to, slice);
        }
        self.outside_capture(NAME)?;
        self.owns(NAME, to.view())?;
        if to.is_empty() {
            return Ok(());
        }
        let slices: Vec<&[u8]> = slices.iter().map(|slice| bytes_of(slice)).collect();
        let starts: Vec<usize> =
            slices.iter().scan(0, |at, slice| Some(std::mem::replace(at, *at + slice.len()))).collect();
        self.write_staged(to, |at, mut block| {
            // The last slice that begins here or before.
            let mut index = starts.partition_point(|&start| start <= at) - 1;
            let mut within = at - starts[index];
            while !block.is_empty() {
                let rest = &slices[index][within..];
                let (part, next) = block.split_at_mut(block.len().min(rest.len()));
                part.copy_from_slice(&rest[..part.len()]);
                (block, index, within) = (next, index + 1, 0);
            }
        })
    }

    /// Copies some neighbouring columns of a row-major matrix of `width` columns into `to`, row-major too. When it
    /// returns, `rows` may be changed; the copy may still travel.
    ///
    /// So a matrix can travel in parts, of which the first are worked on while the others are on their way.
    pub fn write_columns<'a, T: Plain>(
        &self,
        to: impl Into<ViewMut<'a, T>>,
        rows: &[T],
        width: usize,
        columns: Range<usize>,
    ) -> Result<()> {
        const NAME: &str = "Stream::write_columns";
        let to = to.into();
        if width == 0 || !rows.len().is_multiple_of(width) {
            let detail = format!("{} values are no whole number of rows of {width} columns", rows.len());
            return Err(Error::shape(NAME, detail));
        }
        if columns.start > columns.end || columns.end > width {
            return Err(Error::shape(NAME, format!("columns {columns:?} of {width}")));
        }
        same_length(NAME, to.len(), rows.len() / width * columns.len())?;
        if columns.len() == width {
            return self.write(to, rows);
        }
        self.outside_capture(NAME)?;
        self.owns(NAME, to.view())?;
        if to.is_empty() {
            return Ok(());
        }
        let bytes = bytes_of(rows);
        let (stride, first) = (width * size_of::<T>(), columns.start * size_of::<T>());
        let segment = columns.len() * size_of::<T>();
        self.write_staged(to, |mut at, mut block| {
            while !block.is_empty() {
                let (row, within) = (at / segment, at % segment);
                let (part, rest) = block.split_at_mut(block.len().min(segment - within));
                let from = row * stride + first + within;
                part.copy_from_slice(&bytes[from..from + part.len()]);
                at += part.len();
                block = rest;
            }
        })
    }

    /// Fills `to` through pinned blocks: `fill(offset, block)` writes the bytes that belong at an offset of it.
    fn write_staged<T: Plain>(&self, to: ViewMut<'_, T>, fill: impl Fn(usize, &mut [u8]) + Sync) -> Result<()> {
        let bytes = to.view().bytes();
        self.device().counters().uploaded(bytes);
        self.queue().uses(to.block());
        self.staged(bytes, |block, at, len| {
            block.wait()?;
            // SAFETY: the block has room for a chunk, no copy uses it, and no one else has it.
            fill(at, unsafe { std::slice::from_raw_parts_mut(block.as_ptr(), len) });
            // SAFETY: the range lies in the view; the block is not touched before the event below.
            unsafe { self.device().driver().upload(self.raw(), to.at().offset(at), block.as_ptr(), len)? };
            block.busy_until(self.record()?);
            Ok(())
        })
    }

    /// Copies pinned memory into `to`, which has the same length, while the host goes on.
    pub fn write_pinned<'a, T: Plain>(
        &self,
        to: impl Into<ViewMut<'a, T>>,
        from: &mut PinnedBuffer<T>,
    ) -> Result<()> {
        let to = to.into();
        same_length("Stream::write_pinned", to.len(), from.len())?;
        self.owns("Stream::write_pinned", to.view())?;
        let bytes = to.view().bytes();
        self.device().counters().uploaded(bytes);
        self.queue().uses(to.block());
        let block = from.block_mut();
        // SAFETY: both ranges have the same length; the pinned block stays until the event below is done.
        unsafe { self.device().driver().upload(self.raw(), *to.at(), block.as_ptr(), bytes)? };
        block.busy_until(self.record()?);
        Ok(())
    }

    /// Reads values back. Waits until they have arrived.
    pub fn download<'a, T: Plain>(&self, from: impl Into<View<'a, T>>) -> Result<Vec<T>> {
        let from = from.into();
        let mut values = zeroed_vec(from.len());
        self.read(from, &mut values)?;
        Ok(values)
    }

    /// Reads values back into a slice of the same length. Waits until they have arrived.
    pub fn read<'a, T: Plain>(&self, from: impl Into<View<'a, T>>, values: &mut [T]) -> Result<()> {
        let from = from.into();
        same_length("Stream::read", values.len(), from.len())?;
        self.outside_capture("Stream::read")?;
        self.owns("Stream::read", from)?;
        let bytes = bytes_of_mut(values);
        self.device().counters().downloaded(bytes.len());
        self.queue().uses(from.block());
        if bytes.len() <= DIRECT {
            if !bytes.is_empty() {
                // SAFETY: the view is a live range of this device of the same length as the slice, and a copy to
                // ordinary host memory is complete on return.
                unsafe {
                    self.device().driver().download(self.raw(), bytes.as_mut_ptr(), *from.at(), bytes.len())?;
                }
            }
            return self.synchronize();
        }
        let target = Target(bytes.as_mut_ptr());
        self.staged(bytes.len(), |block, at, len| {
            block.wait()?;
            // SAFETY: the range lies in the view; the block is not touched before the copy is done.
            unsafe { self.device().driver().download(self.raw(), block.as_ptr(), from.at().offset(at), len)? };
            self.record()?.synchronize()?;
            // SAFETY: chunks are disjoint parts of the slice, which is borrowed for the whole call.
            unsafe { std::ptr::copy_nonoverlapping(block.as_ptr(), target.at(at), len) };
            Ok(())
        })
    }

    /// Reads values into pinned memory of the same length while the host goes on.
    pub fn read_pinned<'a, T: Plain>(&self, from: impl Into<View<'a, T>>, to: &mut PinnedBuffer<T>) -> Result<()> {
        let from = from.into();
        same_length("Stream::read_pinned", to.len(), from.len())?;
        self.owns("Stream::read_pinned", from)?;
        self.device().counters().downloaded(from.bytes());
        self.queue().uses(from.block());
        let block = to.block_mut();
        // SAFETY: both ranges have the same length; the pinned block stays until the event below is done.
        unsafe { self.device().driver().download(self.raw(), block.as_ptr(), *from.at(), from.bytes())? };
        block.busy_until(self.record()?);
        Ok(())
    }

    /// Copies within the device.
    pub fn copy<'a, 'b, T: Plain>(
        &self,
        to: impl Into<ViewMut<'a, T>>,
        from: impl Into<View<'b, T>>,
    ) -> Result<()> {
        let (to, from) = (to.into(), from.into());
        same_length("Stream::copy", to.len(), from.len())?;
        self.owns("Stream::copy", to.view())?;
        self.owns("Stream::copy", from)?;
        self.queue().uses(to.block());
        self.queue().uses(from.block());
        if from.is_empty() {
            return Ok(());
        }
        // SAFETY: both are live ranges of this device of the same length.
        unsafe { self.device().driver().copy(self.raw(), *to.at(), *from.at(), from.bytes()) }
    }

    /// Sets every byte.
    pub fn fill_bytes<'a, T: Plain>(&self, to: impl Into<ViewMut<'a, T>>, byte: u8) -> Result<()> {
        let to = to.into();
        self.owns("Stream::fill_bytes", to.view())?;
        self.queue().uses(to.block());
        if to.is_empty() {
            return Ok(());
        }
        // SAFETY: a live range of this device.
        unsafe { self.device().driver().fill(self.raw(), *to.at(), byte, to.view().bytes()) }
    }

    pub(crate) fn owns<T: Plain>(&self, operation: &str, view: View<'_, T>) -> Result<()> {
        self.device().must_own(operation, view.device())
    }

    pub(crate) fn outside_capture(&self, operation: &'static str) -> Result<()> {
        if self.queue().is_capturing() {
            return Err(Error::shape(
                operation,
                "ordinary host memory can't be copied in a graph capture; use pinned memory, or copy before it",
            ));
        }
        Ok(())
    }

    /// Runs `step(block, offset, length)` for each chunk of `bytes`, on several host threads.
    fn staged(
        &self,
        bytes: usize,
        step: impl Fn(&mut PinnedBlock, usize, usize) -> Result<()> + Sync,
    ) -> Result<()> {
        let Staging { chunk, threads } = self.device().staging();
        // A copy of a few chunks is cut smaller, so that every thread has a part.
        let chunk = chunk.min((bytes / (2 * threads)).next_power_of_two().max(DIRECT));
        let chunks = bytes.div_ceil(chunk);
        let next = AtomicUsize::new(0);
        let failure = Mutex::new(None);
        let work = || {
            let run = || -> Result<()> {
                let pool = self.device().pinned_pool();
                let mut blocks = Vec::with_capacity(BLOCKS_PER_THREAD);
                let mut turn = 0;
                let result = loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= chunks {
                        break Ok(());
                    }
                    if blocks.len() < BLOCKS_PER_THREAD {
                        match pool.take(chunk) {
                            Ok(block) => blocks.push(block),
                            Err(error) => break Err(error),
                        }
                    }
                    let slot = turn % BLOCKS_PER_THREAD;
                    turn += 1;
                    let at = index * chunk;
                    if let Err(error) = step(&mut blocks[slot], at, chunk.min(bytes - at)) {
                        break Err(error);
                    }
                };
                blocks.into_iter().for_each(|block| pool.give(block));
                result
            };
            if let Err(error) = run() {
                next.store(chunks, Ordering::Relaxed);
                failure.lock().expect("no panic while the lock is held").get_or_insert(error);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.min(chunks) {
                scope.spawn(work);
            }
            work();
        });
        match failure.into_inner().expect("no panic while the lock is held") {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

/// A host address shared by the threads of one staged download.
struct Target(*mut u8);

// SAFETY: each thread writes its own disjoint chunks behind the address.
unsafe impl Sync for Target {}

impl Target {
    /// # Safety
    /// `offset` lies within the memory behind the address.
    unsafe fn at(&self, offset: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(offset) }
    }
}

fn same_length(operation: &'static str, to: usize, from: usize) -> Result<()> {
    if to != from {
        return Err(Error::shape(operation, format!("{from} values into room for {to}")));
    }
    Ok(())
}
