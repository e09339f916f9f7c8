//! Copies between host and device.
//!
//! The copy engines reach page-locked memory at full speed and ordinary memory at a seventh of it. So copies of
//! ordinary memory go through pinned blocks: small ones through a ring of them, large ones through blocks that several
//! host threads fill while earlier ones travel (`staging.rs`). No upload waits for the stream.

use std::ops::Range;

use crate::base::{Error, Plain, Result, bytes_of, bytes_of_mut, zeroed_vec};
use crate::memory::{Buffer, PinnedBuffer, View, ViewMut};
use crate::work::Stream;
use crate::work::staging::SMALL;

const CAPTURE: &str = "ordinary host memory can't be copied in a capture; use pinned memory, or copy before it";

impl Stream {
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
        self.outside_capture("Stream::write", CAPTURE)?;
        self.owns("Stream::write", to.view())?;
        let bytes = bytes_of(values);
        if bytes.len() <= SMALL {
            return self.write_small(to, bytes);
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
        self.outside_capture(NAME, CAPTURE)?;
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
        self.core().counters.uploaded(bytes);
        let mut work = self.timeline().begin()?;
        work.uses(to.block());
        work.uses(from.block());
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: both ranges have the same length, and both stay until this work is complete; the host does not touch
        // the pinned one before.
        unsafe { self.core().driver.upload(work.stream, *to.at(), from.block().as_ptr(), bytes) }
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
        self.outside_capture("Stream::read", CAPTURE)?;
        self.owns("Stream::read", from)?;
        self.read_staged(from, bytes_of_mut(values))
    }

    /// Reads values into pinned memory of the same length while the host goes on.
    pub fn read_pinned<'a, T: Plain>(&self, from: impl Into<View<'a, T>>, to: &mut PinnedBuffer<T>) -> Result<()> {
        let from = from.into();
        same_length("Stream::read_pinned", to.len(), from.len())?;
        self.owns("Stream::read_pinned", from)?;
        self.core().counters.downloaded(from.bytes());
        let mut work = self.timeline().begin()?;
        work.uses(from.block());
        work.uses(to.block());
        if from.is_empty() {
            return Ok(());
        }
        // SAFETY: both ranges have the same length, and both stay until this work is complete; the host does not touch
        // the pinned one before.
        unsafe { self.core().driver.download(work.stream, to.block().as_ptr(), *from.at(), from.bytes()) }
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
        if from.is_empty() {
            return Ok(());
        }
        let mut work = self.timeline().begin()?;
        work.uses(to.block());
        work.uses(from.block());
        // SAFETY: both are live ranges of this device of the same length.
        unsafe { self.core().driver.copy(work.stream, *to.at(), *from.at(), from.bytes()) }
    }

    /// Sets every byte.
    pub fn fill_bytes<'a, T: Plain>(&self, to: impl Into<ViewMut<'a, T>>, byte: u8) -> Result<()> {
        let to = to.into();
        self.owns("Stream::fill_bytes", to.view())?;
        if to.is_empty() {
            return Ok(());
        }
        let mut work = self.timeline().begin()?;
        work.uses(to.block());
        // SAFETY: a live range of this device.
        unsafe { self.core().driver.fill(work.stream, *to.at(), byte, to.view().bytes()) }
    }
}

impl<T: Plain> Buffer<T> {
    /// Reads it back. Waits for the stream.
    pub fn to_vec(&self, stream: &Stream) -> Result<Vec<T>> {
        stream.download(self)
    }
}

impl<T: Plain> View<'_, T> {
    /// Reads it back. Waits for the stream.
    pub fn to_vec(&self, stream: &Stream) -> Result<Vec<T>> {
        stream.download(*self)
    }
}

fn same_length(operation: &'static str, to: usize, from: usize) -> Result<()> {
    if to != from {
        return Err(Error::shape(operation, format!("{from} values into room for {to}")));
    }
    Ok(())
}
