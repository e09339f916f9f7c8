//! Typed device memory.

use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Arc;

use super::block::Block;
use super::view::{View, ViewMut};
use crate::base::{Error, Plain, Result};
use crate::drivers::DevicePtr;

/// `len` values of `T` in device memory.
///
/// Made by [`Stream::alloc`](crate::Stream::alloc) and the upload calls. Dropping it returns the memory to the
/// device's arena, which reuses it only after the work that still accesses it.
///
/// A buffer can be split into parts that are buffers themselves ([`Buffer::split`]); the memory is freed when the
/// last part is dropped.
pub struct Buffer<T: Plain> {
    block: Arc<Block>,
    at: DevicePtr,
    len: usize,
    of: PhantomData<T>,
}

impl<T: Plain> Buffer<T> {
    pub(crate) fn from_block(block: Arc<Block>, len: usize) -> Self {
        Self { at: block.at(), block, len, of: PhantomData }
    }

    pub(super) fn part(block: Arc<Block>, at: DevicePtr, len: usize) -> Self {
        Self { block, at, len, of: PhantomData }
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// The device address, for other libraries in the process (see
    /// [`Stream::release_to`](crate::Stream::release_to)). It is valid while the buffer, or a part of it, exists.
    pub fn address(&self) -> u64 {
        self.at.0
    }

    pub(crate) fn at(&self) -> &DevicePtr {
        &self.at
    }

    pub(crate) fn block(&self) -> &Arc<Block> {
        &self.block
    }

    /// A read-only view of the whole buffer.
    pub fn view(&self) -> View<'_, T> {
        View::new(self.at, &self.block, self.len)
    }

    /// A mutable view of the whole buffer.
    pub fn view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut::new(self.at, &self.block, self.len)
    }

    /// A read-only view of a range.
    pub fn range(&self, range: impl RangeBounds<usize>) -> Result<View<'_, T>> {
        self.view().range(range)
    }

    /// A mutable view of a range.
    pub fn range_mut(&mut self, range: impl RangeBounds<usize>) -> Result<ViewMut<'_, T>> {
        self.view_mut().range(range)
    }

    /// Reinterprets the memory as values of another plain type. The type's size must divide the buffer's bytes,
    /// and the buffer's address must be aligned for it.
    pub fn cast<U: Plain>(self) -> Result<Buffer<U>> {
        let len = self.view().cast::<U>()?.len();
        Ok(Buffer { block: self.block, at: self.at, len, of: PhantomData })
    }

    /// Splits into the values before `mid` and those from `mid` on.
    pub fn split_at(self, mid: usize) -> Result<(Self, Self)> {
        let tail = self.range(mid..)?.to_owner();
        Ok((Buffer { len: mid, ..self }, tail))
    }

    /// Splits into consecutive buffers of these lengths, which must add up to the buffer's length.
    pub fn split(self, lengths: &[usize]) -> Result<Vec<Self>> {
        if lengths.iter().try_fold(0usize, |sum, &len| sum.checked_add(len)) != Some(self.len) {
            let detail = format!("{} values in {} parts of another total length", self.len, lengths.len());
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

    /// Undoes [`Self::split`]: joins parts that are adjacent in the same memory. If they are not, or if `parts` is
    /// empty, returns the parts unchanged.
    pub fn join(parts: Vec<Self>) -> std::result::Result<Self, Vec<Self>> {
        let Some(whole) = View::join(parts.iter().map(Buffer::view)) else { return Err(parts) };
        Ok(whole.to_owner())
    }

    /// A second, read-only owner. It keeps the memory allocated, but the buffer can still change the content.
    pub fn share(&self) -> Shared<T> {
        self.view().share()
    }
}

impl<T: Plain> std::fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer<{}>({} on {})", std::any::type_name::<T>(), self.len, self.block.core())
    }
}

/// A second, read-only owner of a [`Buffer`]'s memory; made by [`Buffer::share`] and [`View::share`].
pub struct Shared<T: Plain>(Buffer<T>);

impl<T: Plain> Shared<T> {
    pub(super) fn new(owner: Buffer<T>) -> Self {
        Self(owner)
    }

    /// A buffer over the same memory, which may be written.
    ///
    /// # Safety
    ///
    /// Until the buffer is dropped, no other owner and no view of these values writes to them, and none reads them
    /// without being ordered after what is written through the buffer.
    pub unsafe fn into_buffer(self) -> Buffer<T> {
        self.0
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A view of the whole buffer.
    pub fn view(&self) -> View<'_, T> {
        self.0.view()
    }
}

impl<T: Plain> std::fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shared<{}>({} on {})", std::any::type_name::<T>(), self.len(), self.0.block.core())
    }
}
