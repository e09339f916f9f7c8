//! Launching kernels.

use crate::base::{Plain, Result};
use crate::code::{AddressList, ArgumentList, Arguments, Kernel, Shape};
use crate::memory::{View, same_device};
use crate::queue::{Origin, Work};
use crate::work::Stream;

impl Kernel {
    /// Enqueues the kernel with this launch shape. A shape without blocks does nothing.
    ///
    /// The arguments are checked against the kernel's parameters: their number, the size of each value, buffers
    /// for pointers only, and mutable buffers for pointers that are not `const`. The caller of
    /// [`Source::new`](crate::Source::new) guarantees what the kernel does with them, for every launch that code which
    /// has the kernel can make.
    pub fn launch(&self, stream: &Stream, shape: Shape, arguments: impl Arguments) -> Result<()> {
        let mut list = ArgumentList::default();
        arguments.push_all(&mut list);
        self.submit(stream, shape, &list)
    }

    fn submit(&self, stream: &Stream, shape: Shape, list: &ArgumentList<'_>) -> Result<()> {
        let name = self.name();
        same_device(name, self.core(), stream.core())?;
        list.blocks().try_for_each(|block| stream.owns_block(name, block))?;
        list.check(name, self.parameters())?;
        if shape.is_empty() {
            return Ok(());
        }
        shape.check(name, self.function(), stream.core().driver.properties())?;
        // SAFETY: the arguments have the sizes of the kernel's parameters, and the shape is allowed.
        unsafe { self.enqueue(stream, shape, list) }?;
        stream.core().counters.launched();
        Ok(())
    }

    /// Enqueues the kernel without counting it as a launch. Returns the work.
    ///
    /// # Safety
    ///
    /// The arguments are those of the kernel, and the device can run this shape.
    pub(super) unsafe fn enqueue<'s>(
        &self,
        stream: &'s Stream,
        shape: Shape,
        list: &ArgumentList<'_>,
    ) -> Result<Work<'s>> {
        list.lists.iter().try_for_each(|list| list.order_before(stream.timeline()))?;
        let sizes = self.parameters().iter().map(|parameter| parameter.bytes);
        let mut work = stream.begin(&list.reads, &list.writes)?;
        work.uses(self.loaded());
        // SAFETY: the caller's promise; the arguments outlive the call, and their buffers stay mapped until this work
        // is complete.
        unsafe { work.launch((self.number(), self.function().raw), shape.grid(), &list.values, sizes) }?;
        Ok(work)
    }
}

/// Gathers the launches of a stream while it lives. See [`Stream::gather`].
#[must_use = "launches are gathered until it is dropped"]
pub struct Gathering(Stream);

impl Drop for Gathering {
    fn drop(&mut self) {
        self.0.timeline().gather(false);
    }
}

impl Stream {
    /// Gathers launches until the result is dropped: kernels that are launched on this stream are submitted up to
    /// 16 at a time. A launch by itself costs the host about 4 us, one of several about 0.7 us if the same kernels
    /// were launched in this order before.
    ///
    /// The order of work does not change. Gathered launches are submitted before any other work of the stream, before
    /// the host or another stream waits for it, and when 16 are gathered. Until then the device does not run them, so
    /// this is for work with many short kernels. If a launch fails when it is submitted, everything fails later that
    /// reads what it was to write, on any stream, and so does [`Stream::synchronize`].
    pub fn gather(&self) -> Gathering {
        self.timeline().gather(true);
        Gathering(self.clone())
    }

    /// A buffer that holds the addresses of `views`, in order, for kernels that read more buffers than a launch
    /// has arguments. A kernel takes it as a `const T* const*`.
    pub fn addresses<T: Plain>(&self, views: &[View<'_, T>]) -> Result<AddressList<T>> {
        views.iter().try_for_each(|view| self.owns("Stream::addresses", *view))?;
        let addresses: Vec<u64> = views.iter().map(|view| view.at().0).collect();
        let list = self.upload(&addresses)?;
        Ok(AddressList::new(list, views, Origin::now(self.timeline())))
    }
}
