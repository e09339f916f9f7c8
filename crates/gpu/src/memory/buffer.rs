//! Typed device memory.

use std::any::Any;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Arc;

use super::core::Core;
use super::view::{View, ViewMut};
use crate::base::{Error, Lock, Plain, Result};
use crate::drivers::DevicePtr;
use crate::queue::{Resource, Timeline, Usage, Uses};

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

/// A piece of device memory, given back when the last holder (a buffer, or a graph that refers to it) is dropped.
pub(crate) struct Block {
    core: Arc<Core>,
    at: DevicePtr,
    bytes: usize,
    usage: Lock<Usage>,
    /// Present where another library allocated the memory: what keeps it.
    owner: Option<Box<dyn Any + Send + Sync>>,
}

impl Block {
    /// Memory of the arena, with the work that may still use it.
    pub(super) fn new(core: Arc<Core>, at: DevicePtr, bytes: usize, uses: Uses) -> Self {
        Self { core, at, bytes, usage: Lock::new(Usage { uses, borrowed: false }), owner: None }
    }

    /// Memory that is not the arena's.
    pub(crate) fn foreign(
        core: Arc<Core>,
        at: DevicePtr,
        bytes: usize,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Self {
        Self { core, at, bytes, usage: Lock::default(), owner: Some(owner) }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Makes later work of `timeline` start after the work that used the memory before.
    pub(super) fn order_before(&self, timeline: &Arc<Timeline>) -> Result<()> {
        // Not under the lock: work that is given meanwhile notes its uses while it holds its timeline.
        let mut uses = self.usage.lock().uses.clone();
        uses.order_before(timeline)?;
        self.usage.lock().uses = uses;
        Ok(())
    }
}

impl Resource for Block {
    fn usage(&self) -> &Lock<Usage> {
        &self.usage
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let uses = std::mem::take(&mut self.usage.get_mut().uses);
        match self.owner.take() {
            None => self.core.free(self.at, self.bytes, uses),
            Some(owner) => self.core.retire(owner, uses),
        }
    }
}

impl<T: Plain> Buffer<T> {
    pub(crate) fn from_block(block: Arc<Block>, len: usize) -> Self {
        Self { at: block.at, block, len, of: PhantomData }
    }

    pub(super) fn part(block: Arc<Block>, at: DevicePtr, len: usize) -> Self {
        Self { block, at, len, of: PhantomData }
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
        View::new(self.at, &self.block, self.len)
    }

    /// All of it, for writing.
    pub fn view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut::new(self.at, &self.block, self.len)
    }

    /// A part of it, for reading.
    pub fn range(&self, range: impl RangeBounds<usize>) -> Result<View<'_, T>> {
        self.view().range(range)
    }

    /// A part of it, for writing.
    pub fn range_mut(&mut self, range: impl RangeBounds<usize>) -> Result<ViewMut<'_, T>> {
        self.view_mut().range(range)
    }

    /// The same memory as values of another plain type: of a size that divides the buffer's, and aligned where the
    /// buffer begins.
    pub fn cast<U: Plain>(self) -> Result<Buffer<U>> {
        let len = self.view().cast::<U>()?.len();
        Ok(Buffer { block: self.block, at: self.at, len, of: PhantomData })
    }

    /// Two buffers: the values before and from `mid`.
    pub fn split_at(self, mid: usize) -> Result<(Self, Self)> {
        let tail = self.range(mid..)?.to_owner();
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
        Ok(whole.to_owner())
    }

    /// A second owner, for reading only: it keeps the memory, not the content, which the buffer may still change.
    pub fn share(&self) -> Shared<T> {
        Shared(self.view().to_owner())
    }
}

impl<T: Plain> std::fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer<{}>({} on {})", std::any::type_name::<T>(), self.len, self.block.core())
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
        write!(f, "Shared<{}>({} on {})", std::any::type_name::<T>(), self.len(), self.0.block.core())
    }
}
