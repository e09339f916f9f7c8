//! Views of buffers.

use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use super::block::Block;
use super::buffer::{Buffer, Shared};
use crate::base::{Error, Plain, Result};
use crate::drivers::DevicePtr;

/// A read-only view of a range of a [`Buffer`].
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

    /// Whether the view is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    pub(super) fn new(at: DevicePtr, block: &'a Arc<Block>, len: usize) -> Self {
        Self { at, block, len, of: PhantomData }
    }

    /// A buffer over the same memory.
    pub(super) fn to_owner(self) -> Buffer<T> {
        Buffer::part(self.block.clone(), self.at, self.len)
    }

    /// A second, read-only owner of the memory, as made by [`Buffer::share`].
    pub fn share(&self) -> Shared<T> {
        Shared::new(self.to_owner())
    }

    /// The device address.
    pub fn address(&self) -> u64 {
        self.at.0
    }

    /// A view of a range of this view.
    pub fn range(&self, range: impl RangeBounds<usize>) -> Result<View<'a, T>> {
        let start = match range.start_bound() {
            Bound::Included(&n) => n,
            Bound::Excluded(&n) => n.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&n) => n.saturating_add(1),
            Bound::Excluded(&n) => n,
            Bound::Unbounded => self.len,
        };
        if start > end || end > self.len {
            return Err(Error::shape("Buffer::range", format!("range {start}..{end} of {} values", self.len)));
        }
        Ok(View {
            at: self.at.offset(start * size_of::<T>()),
            block: self.block,
            len: end - start,
            of: PhantomData,
        })
    }

    /// Reinterprets the memory as values of another plain type. The type's size must divide the view's bytes, and
    /// the view's address must be aligned for it.
    pub fn cast<U: Plain>(self) -> Result<View<'a, U>> {
        let (bytes, size) = (self.bytes(), size_of::<U>());
        if size == 0 || !bytes.is_multiple_of(size) || !self.at.0.is_multiple_of(align_of::<U>() as u64) {
            let detail = format!(
                "{bytes} bytes at {:#x} can't be read as values of {size} bytes aligned to {}",
                self.at.0,
                align_of::<U>()
            );
            return Err(Error::shape("cast", detail));
        }
        Ok(View { at: self.at, block: self.block, len: bytes / size, of: PhantomData })
    }

    /// Joins views that are adjacent in the same memory; `None` if they are not, or if there are no views.
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

    pub(crate) fn at(&self) -> &DevicePtr {
        &self.at
    }

    pub(crate) fn block(&self) -> &'a Arc<Block> {
        self.block
    }
}

impl<T: Plain> std::fmt::Debug for View<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "View<{}>({} on {})", std::any::type_name::<T>(), self.len, self.block.core())
    }
}

/// A mutable view of a range of a [`Buffer`].
pub struct ViewMut<'a, T: Plain> {
    at: DevicePtr,
    block: &'a Arc<Block>,
    len: usize,
    of: PhantomData<&'a mut T>,
}

impl<'a, T: Plain> ViewMut<'a, T> {
    pub(super) fn new(at: DevicePtr, block: &'a Arc<Block>, len: usize) -> Self {
        Self { at, block, len, of: PhantomData }
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the view is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A read-only view of this range.
    pub fn view(&self) -> View<'_, T> {
        View { at: self.at, block: self.block, len: self.len, of: PhantomData }
    }

    /// A second view of this range, for parts of it that have nothing in common.
    pub(super) fn alias(&self) -> ViewMut<'a, T> {
        ViewMut { at: self.at, block: self.block, len: self.len, of: PhantomData }
    }

    /// Reborrows the view.
    pub fn reborrow(&mut self) -> ViewMut<'_, T> {
        ViewMut { at: self.at, block: self.block, len: self.len, of: PhantomData }
    }

    /// A view of a range of this view.
    pub fn range(self, range: impl RangeBounds<usize>) -> Result<ViewMut<'a, T>> {
        let View { at, len, .. } = self.view().range(range)?;
        Ok(ViewMut { at, block: self.block, len, of: PhantomData })
    }

    /// Reinterprets the memory as values of another plain type; see [`View::cast`].
    pub fn cast<U: Plain>(self) -> Result<ViewMut<'a, U>> {
        let len = self.view().cast::<U>()?.len();
        Ok(ViewMut { at: self.at, block: self.block, len, of: PhantomData })
    }

    /// Splits into two disjoint views: before `mid` and from `mid` on.
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
        write!(f, "ViewMut<{}>({} on {})", std::any::type_name::<T>(), self.len, self.block.core())
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
