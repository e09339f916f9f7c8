//! Copies between host and device.
//!
//! Copies from pinned memory run at full speed, copies from pageable memory at a seventh of it. So pageable memory
//! is staged through pinned blocks: small copies through a ring, large ones through blocks that several host
//! threads fill while earlier blocks are being transferred (`staging.rs`). A large upload
//! waits for the earlier copies whose blocks it reuses, but not for work enqueued after them.
//! On a GPU, the smallest copies are kernels (`small.rs`).

use std::ops::Range;

use crate::base::{Error, Plain, Result, bytes_of, bytes_of_mut, zeroed_vec};
use crate::drivers::PeerCopy;
use crate::memory::{Buffer, PinnedBuffer, Runs, RunsMut, View, ViewMut};
use crate::work::Stream;
use crate::work::staging::SMALL;

const CAPTURE: &str = "pageable host memory can't be copied in a capture; use pinned memory, or copy before it";

impl Stream {
    /// Allocates `len` values and sets their bytes to zero.
    pub fn zeros<T: Plain>(&self, len: usize) -> Result<Buffer<T>> {
        let mut buffer = self.alloc(len)?;
        self.fill_bytes(&mut buffer, 0)?;
        Ok(buffer)
    }

    /// Allocates a buffer and copies `values` to it. On return `values` may be modified; the transfer may still be
    /// running.
    pub fn upload<T: Plain>(&self, values: &[T]) -> Result<Buffer<T>> {
        let mut buffer = self.alloc(values.len())?;
        self.write(&mut buffer, values)?;
        Ok(buffer)
    }

    /// Copies `values` into `to`, which has the same length. On return `values` may be modified.
    pub fn write<'a, T: Plain>(&self, to: impl Into<ViewMut<'a, T>>, values: &[T]) -> Result<()> {
        let to = to.into();
        same_length("Stream::write", to.len(), values.len())?;
        self.outside_capture("Stream::write", CAPTURE)?;
        self.owns("Stream::write", to.view())?;
        let bytes = bytes_of(values);
        if bytes.len() <= SMALL {
            return self.write_small(to, bytes);
        }
        self.write_staged(to, |at, block| block.copy_from_slice(&bytes[at..at + block.len()]))
    }

    /// Copies the concatenation of `slices` into `to`, which has their total length. On return the slices may be
    /// modified; the transfer may still be running.
    ///
    /// It is as fast as a single copy, regardless of the number of slices.
    pub fn write_joined<'a, T: Plain>(&self, to: impl Into<ViewMut<'a, T>>, slices: &[&[T]]) -> Result<()> {
        const NAME: &str = "Stream::write_joined";
        let to = to.into();
        same_length(NAME, to.len(), slices.iter().map(|slice| slice.len()).sum())?;
        if let [slice] = slices {
            return self.write(to, slice);
        }
        self.outside_capture(NAME, CAPTURE)?;
        self.owns(NAME, to.view())?;
        if to.is_empty() {
            return Ok(());
        }
        let slices: Vec<&[u8]> = slices.iter().map(|slice| bytes_of(slice)).collect();
        let starts: Vec<usize> =
            slices.iter().scan(0, |at, slice| Some(std::mem::replace(at, *at + slice.len()))).collect();
        self.write_staged(to, |at, mut block| {
            // The last slice that starts at or before `at`.
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

    /// Copies consecutive columns of a row-major matrix of `width` columns into `to`, which is also row-major. On
    /// return `rows` may be modified; the transfer may still be running.
    ///
    /// With it, a matrix can be uploaded in parts, so that work on the first parts overlaps the transfer of the
    /// others.
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
            let detail = format!("{} values are not a multiple of the {width} columns", rows.len());
            return Err(Error::shape(NAME, detail));
        }
        if columns.start > columns.end || columns.end > width {
            return Err(Error::shape(NAME, format!("columns {columns:?} of {width}")));
        }
        same_length(NAME, to.len(), rows.len() / width * columns.len())?;
        if columns.len() == width {
            return self.write(to, rows);
        }
        self.outside_capture(NAME, CAPTURE)?;
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

    /// Copies pinned memory into `to`, which has the same length, asynchronously.
    pub fn write_pinned<'a, T: Plain>(
        &self,
        to: impl Into<ViewMut<'a, T>>,
        from: &mut PinnedBuffer<T>,
    ) -> Result<()> {
        let to = to.into();
        same_length("Stream::write_pinned", to.len(), from.len())?;
        self.write_pinned_from(to, from, 0)
    }

    /// Copies as many values of pinned memory as `to` has room for, from the one with index `start` on,
    /// asynchronously. It does not wait for copies of other streams that write the pinned memory: order them by events.
    pub fn write_pinned_from<'a, T: Plain>(
        &self,
        to: impl Into<ViewMut<'a, T>>,
        from: &PinnedBuffer<T>,
        start: usize,
    ) -> Result<()> {
        const NAME: &str = "Stream::write_pinned";
        let to = to.into();
        if start.checked_add(to.len()).is_none_or(|end| end > from.len()) {
            return Err(Error::shape(NAME, format!("{} values from {start} on, of {}", to.len(), from.len())));
        }
        self.owns(NAME, to.view())?;
        let bytes = to.view().bytes();
        self.core().counters.uploaded(bytes);
        let mut work = self.begin(&[], &[to.block()])?;
        work.uses(from.block());
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the range lies in the pinned memory. Both ranges have the same length and stay allocated until this
        // work is complete; until then the host does not access the pinned one, for which it would have to borrow it
        // mutably and to wait for this.
        unsafe {
            let from = from.block().as_ptr().add(start * size_of::<T>());
            self.core().driver.upload(work.stream()?, *to.at(), from, bytes)
        }
    }

    /// Copies values to the host and waits for the copy.
    pub fn download<'a, T: Plain>(&self, from: impl Into<View<'a, T>>) -> Result<Vec<T>> {
        let from = from.into();
        let mut values = zeroed_vec(from.len())?;
        self.read(from, &mut values)?;
        Ok(values)
    }

    /// Copies values to a host slice of the same length and waits for the copy.
    pub fn read<'a, T: Plain>(&self, from: impl Into<View<'a, T>>, values: &mut [T]) -> Result<()> {
        let from = from.into();
        same_length("Stream::read", values.len(), from.len())?;
        self.outside_capture("Stream::read", CAPTURE)?;
        self.owns("Stream::read", from)?;
        self.read_staged(from, bytes_of_mut(values))
    }

    /// Copies values to pinned memory of the same length, asynchronously.
    pub fn read_pinned<'a, T: Plain>(&self, from: impl Into<View<'a, T>>, to: &mut PinnedBuffer<T>) -> Result<()> {
        let from = from.into();
        same_length("Stream::read_pinned", to.len(), from.len())?;
        self.owns("Stream::read_pinned", from)?;
        self.core().counters.downloaded(from.bytes());
        let mut work = self.begin(&[from.block()], &[])?;
        work.uses(to.block());
        if from.is_empty() {
            return Ok(());
        }
        // SAFETY: both ranges have the same length and stay allocated until this work is complete; until then the
        // host does not access the pinned one.
        unsafe { self.core().driver.download(work.stream()?, to.block().as_ptr(), *from.at(), from.bytes()) }
    }

    /// Copies values to new pinned memory, asynchronously. Copies from it on other streams do not wait for this one by
    /// themselves: order them by events.
    pub fn download_pinned<'a, T: Plain>(&self, from: impl Into<View<'a, T>>) -> Result<PinnedBuffer<T>> {
        let from = from.into();
        // In a capture nothing is copied yet.
        self.outside_capture("Stream::download_pinned", "allocate pinned memory before it, and copy to that")?;
        let mut to = PinnedBuffer::unwritten(&self.core().pinned, from.len())?;
        self.read_pinned(from, &mut to)?;
        Ok(to)
    }

    /// Copies within the device: memory of the same length, or runs of it.
    pub fn copy<'a, 'b, T: Plain>(
        &self,
        to: impl Into<RunsMut<'a, T>>,
        from: impl Into<Runs<'b, T>>,
    ) -> Result<()> {
        let (to, from) = (to.into(), from.into());
        let runs = to.strides("Stream::copy", &from)?;
        self.owns("Stream::copy", to.span())?;
        self.owns("Stream::copy", from.span())?;
        if from.is_empty() {
            return Ok(());
        }
        let driver = &self.core().driver;
        let mut work = self.begin(&[from.block()], &[to.block()])?;
        let stream = work.stream()?;
        // SAFETY: all runs are live memory of this device, and they fit each other.
        unsafe {
            match runs.adjacent() {
                Some(bytes) => driver.copy(stream, to.at(), from.at(), bytes),
                None => driver
                    .copy_to_peers(stream, &[PeerCopy { peer: &**driver, to: to.at(), from: from.at(), runs }]),
            }
        }
    }

    /// Sets every byte.
    pub fn fill_bytes<'a, T: Plain>(&self, to: impl Into<ViewMut<'a, T>>, byte: u8) -> Result<()> {
        let to = to.into();
        self.owns("Stream::fill_bytes", to.view())?;
        if to.is_empty() || self.fill_small(&to, byte)? {
            return Ok(());
        }
        let mut work = self.begin(&[], &[to.block()])?;
        // SAFETY: a live range of this device.
        unsafe { self.core().driver.fill(work.stream()?, *to.at(), byte, to.view().bytes()) }
    }
}

impl<T: Plain> Buffer<T> {
    /// Copies the values to the host and waits for the copy.
    pub fn to_vec(&self, stream: &Stream) -> Result<Vec<T>> {
        stream.download(self)
    }
}

impl<T: Plain> View<'_, T> {
    /// Copies the values to the host and waits for the copy.
    pub fn to_vec(&self, stream: &Stream) -> Result<Vec<T>> {
        stream.download(*self)
    }
}

fn same_length(operation: &'static str, to: usize, from: usize) -> Result<()> {
    if to != from {
        return Err(Error::shape(operation, format!("{from} values do not fit a destination of {to}")));
    }
    Ok(())
}
