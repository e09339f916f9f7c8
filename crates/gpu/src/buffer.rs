//! Typed device memory.

use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::arena::StreamSet;
use crate::device::Device;
use crate::driver::DevicePtr;
use crate::error::{Error, Result};
use crate::foreign::Owner;
use crate::plain::Plain;
use crate::stream::Stream;

/// `len` values of `T` in the memory of a device.
///
/// Made by [`Stream::alloc`] and the upload calls. Dropping it gives the memory back to the device's arena, which
/// hands it out again without ever overtaking work that still uses it.
///
/// A buffer can be cut into parts, each a buffer of its own ([`Buffer::split`]); the memory goes back when the last
/// part is dropped.
pub struct Buffer<T: Plain> {
    block: Arc<Block>,
    at: DevicePtr,
    len: usize,
    of: PhantomData<T>,
}

/// A piece of device memory, given back when the last holder (a buffer, or a graph that refers to it) lets go.
pub(crate) struct Block {
    device: Device,
    at: DevicePtr,
    bytes: usize,
    streams: AtomicU64,
    /// Present where others allocated the memory: what keeps it.
    owner: Option<Owner>,
}

impl Block {
    pub(crate) fn new(device: Device, at: DevicePtr, bytes: usize, stream: StreamSet) -> Self {
        Self { device, at, bytes, streams: AtomicU64::new(stream), owner: None }
    }

    /// Memory that is not the arena's.
    pub(crate) fn foreign(device: Device, at: DevicePtr, bytes: usize, owner: Owner) -> Self {
        Self { device, at, bytes, streams: AtomicU64::new(0), owner: Some(owner) }
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn used_on(&self, stream: StreamSet) {
        // Read first: in steady state the bit is set and the line stays shared.
        if self.streams.load(Ordering::Relaxed) & stream == 0 {
            self.streams.fetch_or(stream, Ordering::Relaxed);
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let streams = self.streams.load(Ordering::Relaxed);
        match self.owner.take() {
            None => self.device.free(self.at, self.bytes, streams),
            Some(owner) => self.device.let_go(owner, streams),
        }
    }
}

impl<T: Plain> Buffer<T> {
    pub(crate) fn from_block(block: Block, len: usize) -> Self {
        Self { at: block.at, block: Arc::new(block), len, of: PhantomData }
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// The device that holds it.
    pub fn device(&self) -> &Device {
        self.block.device()
    }

    /// Where it lies in the device's memory, for other libraries of the process (see
    /// [`Stream::release_to`]). It is valid while the buffer, or a part of it, is there.
    pub fn address(&self) -> u64 {
        self.at.0
    }

    pub(crate) fn at(&self) -> &DevicePtr {
        &self.at
    }

    pub(crate) fn block(&self) -> &Arc<Block> {
        &self.block
    }

    /// All of it, for reading.
    pub fn view(&self) -> View<'_, T> {
        View { at: self.at, block: &self.block, len: self.len, of: PhantomData }
    }

    /// All of it, for writing.
    pub fn view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut { at: self.at, block: &self.block, len: self.len, of: PhantomData }
    }

    /// A part of it, for reading.
    pub fn range(&self, range: impl RangeBounds<usize>) -> Result<View<'_, T>> {
        self.view().range(range)
    }

    /// A part of it, for writing.
    pub fn range_mut(&mut self, range: impl RangeBounds<usize>) -> Result<ViewMut<'_, T>> {
        let View { at, block, len, of: _ } = self.view().range(range)?;
        Ok(ViewMut { at, block, len, of: PhantomData })
    }

    /// The same memory as values of another plain type of a size that divides it.
    pub fn cast<U: Plain>(self) -> Result<Buffer<U>> {
        let bytes = self.bytes();
        if size_of::<U>() == 0 || !bytes.is_multiple_of(size_of::<U>()) {
            return Err(Error::shape(
                "Buffer::cast",
                format!("{bytes} bytes are no whole number of values of {} bytes", size_of::<U>()),
            ));
        }
        Ok(Buffer { block: self.block, at: self.at, len: bytes / size_of::<U>(), of: PhantomData })
    }

    /// Two buffers: the values before and from `mid`.
    pub fn split_at(self, mid: usize) -> Result<(Self, Self)> {
        let tail = self.range(mid..)?;
        let tail = Buffer { block: self.block.clone(), at: tail.at, len: tail.len, of: PhantomData };
        Ok((Buffer { len: mid, ..self }, tail))
    }

    /// One buffer after another of these lengths, which must be as many values as there are.
    pub fn split(self, lengths: &[usize]) -> Result<Vec<Self>> {
        if lengths.iter().try_fold(0usize, |sum, &len| sum.checked_add(len)) != Some(self.len) {
            let detail = format!("{} values in {} parts of another length in all", self.len, lengths.len());
            return Err(Error::shape("Buffer::split", detail));
        }
        let (mut parts, mut rest) = (Vec::with_capacity(lengths.len()), self);
        for &len in lengths {
            let (part, tail) = rest.split_at(len)?;
            parts.push(part);
            rest = tail;
        }
        Ok(parts)
    }

    /// Undoes [`Self::split`]: one buffer over parts that lie one after the other in the same memory; the parts as they
    /// are if they do not, or if there are none.
    pub fn join(parts: Vec<Self>) -> std::result::Result<Self, Vec<Self>> {
        let Some(whole) = View::join(parts.iter().map(Buffer::view)) else { return Err(parts) };
        Ok(Buffer { block: whole.block.clone(), at: whole.at, len: whole.len, of: PhantomData })
    }

    /// A second owner, for reading only: it keeps the memory, not the content, which the buffer may still change.
    pub fn share(&self) -> Shared<T> {
        Shared(Buffer { block: self.block.clone(), at: self.at, len: self.len, of: PhantomData })
    }

    /// Reads it back. Waits for the stream.
    pub fn to_vec(&self, stream: &Stream) -> Result<Vec<T>> {
        self.view().to_vec(stream)
    }
}

impl<T: Plain> std::fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer<{}>({} on {})", std::any::type_name::<T>(), self.len, self.device())
    }
}

/// Keeps the memory of a [`Buffer`], for reading; made by [`Buffer::share`].
pub struct Shared<T: Plain>(Buffer<T>);

impl<T: Plain> Shared<T> {
    /// The number of values.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of it.
    pub fn view(&self) -> View<'_, T> {
        self.0.view()
    }
}

impl<T: Plain> std::fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shared<{}>({} on {})", std::any::type_name::<T>(), self.len(), self.0.device())
    }
}

/// A part of a [`Buffer`], for reading.
pub struct View<'a, T: Plain> {
    at: DevicePtr,
    block: &'a Arc<Block>,
    len: usize,
    of: PhantomData<&'a T>,
}

impl<T: Plain> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Plain> Copy for View<'_, T> {}

impl<'a, T: Plain> View<'a, T> {
    /// The number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// The device that holds it.
    pub fn device(&self) -> &Device {
        self.block.device()
    }

    /// Where it lies in the device's memory.
    pub fn address(&self) -> u64 {
        self.at.0
    }

    /// A part of the part.
    pub fn range(&self, range: impl RangeBounds<usize>) -> Result<View<'a, T>> {
        let start = match range.start_bound() {
            Bound::Included(&n) => n,
            Bound::Excluded(&n) => n + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&n) => n + 1,
            Bound::Excluded(&n) => n,
            Bound::Unbounded => self.len,
        };
        if start > end || end > self.len {
            return Err(Error::shape("Buffer::range", format!("{start}..{end} of {} values", self.len)));
        }
        Ok(View {
            at: self.at.offset(start * size_of::<T>()),
            block: self.block,
            len: end - start,
            of: PhantomData,
        })
    }

    /// The same memory as values of another plain type, of a size that divides its bytes and, for this place, aligned.
    pub fn cast<U: Plain>(self) -> Result<View<'a, U>> {
        let (bytes, size) = (self.bytes(), size_of::<U>());
        if size == 0 || !bytes.is_multiple_of(size) || !self.at.0.is_multiple_of(align_of::<U>() as u64) {
            let detail = format!("{bytes} bytes at {:#x} are no values of {size} bytes", self.at.0);
            return Err(Error::shape("View::cast", detail));
        }
        Ok(View { at: self.at, block: self.block, len: bytes / size, of: PhantomData })
    }

    /// One view over views that lie one after the other in the same memory; `None` if they do not, or if there are
    /// none.
    pub fn join(views: impl IntoIterator<Item = View<'a, T>>) -> Option<View<'a, T>> {
        let mut views = views.into_iter();
        let mut joined = views.next()?;
        for next in views {
            if !Arc::ptr_eq(joined.block, next.block) || joined.at.offset(joined.bytes()) != next.at {
                return None;
            }
            joined.len += next.len;
        }
        Some(joined)
    }

    /// Reads it back. Waits for the stream.
    pub fn to_vec(&self, stream: &Stream) -> Result<Vec<T>> {
        stream.download(*self)
    }

    pub(crate) fn at(&self) -> &DevicePtr {
        &self.at
    }

    pub(crate) fn block(&self) -> &'a Arc<Block> {
        self.block
    }
}

impl<T: Plain> std::fmt::Debug for View<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "View<{}>({} on {})", std::any::type_name::<T>(), self.len, self.device())
    }
}

/// A part of a [`Buffer`], for writing.
pub struct ViewMut<'a, T: Plain> {
    at: DevicePtr,
    block: &'a Arc<Block>,
    len: usize,
    of: PhantomData<&'a mut T>,
}

impl<'a, T: Plain> ViewMut<'a, T> {
    /// The number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The same part, for reading.
    pub fn view(&self) -> View<'_, T> {
        View { at: self.at, block: self.block, len: self.len, of: PhantomData }
    }

    /// The same part, borrowed anew.
    pub fn reborrow(&mut self) -> ViewMut<'_, T> {
        ViewMut { at: self.at, block: self.block, len: self.len, of: PhantomData }
    }

    /// A part of the part.
    pub fn range(self, range: impl RangeBounds<usize>) -> Result<ViewMut<'a, T>> {
        let View { at, len, .. } = self.view().range(range)?;
        Ok(ViewMut { at, block: self.block, len, of: PhantomData })
    }

    /// Two disjoint parts: before and from `mid`.
    pub fn split_at(self, mid: usize) -> Result<(ViewMut<'a, T>, ViewMut<'a, T>)> {
        let (head, tail) = (self.view().range(..mid)?, self.view().range(mid..)?);
        let (head, tail) = ((head.at, head.len), (tail.at, tail.len));
        let part = |(at, len)| ViewMut { at, block: self.block, len, of: PhantomData };
        Ok((part(head), part(tail)))
    }

    pub(crate) fn at(&self) -> &DevicePtr {
        &self.at
    }

    pub(crate) fn block(&self) -> &'a Arc<Block> {
        self.block
    }
}

impl<T: Plain> std::fmt::Debug for ViewMut<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ViewMut<{}>({} on {})", std::any::type_name::<T>(), self.len, self.block.device())
    }
}

impl<'a, T: Plain> From<&'a Buffer<T>> for View<'a, T> {
    fn from(buffer: &'a Buffer<T>) -> Self {
        buffer.view()
    }
}

impl<'a, T: Plain> From<&'a mut Buffer<T>> for ViewMut<'a, T> {
    fn from(buffer: &'a mut Buffer<T>) -> Self {
        buffer.view_mut()
    }
}
