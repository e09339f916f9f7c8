//! Launching kernels.

use crate::base::{Plain, Result};
use crate::code::{AddressList, ArgumentList, Arguments, Kernel, Shape};
use crate::memory::{View, same_device};
use crate::queue::Origin;
use crate::work::Stream;

impl Kernel {
    /// Enqueues the kernel with this launch shape. A shape without blocks does nothing.
    ///
    /// The arguments are checked against the kernel's parameters: their number, the size of each value, buffers
    /// for pointers only, and mutable buffers for pointers that are not `const`. The caller of
    /// [`Source::new`](crate::Source::new) guarantees what the kernel does with them.
    pub fn launch(&self, stream: &Stream, shape: Shape, arguments: impl Arguments) -> Result<()> {
        let mut list = ArgumentList::default();
        arguments.push_all(&mut list);
        self.submit(stream, shape, &list)
    }

    fn submit(&self, stream: &Stream, shape: Shape, list: &ArgumentList<'_>) -> Result<()> {
        let name = self.name();
        same_device(name, self.core(), stream.core())?;
        list.blocks.iter().try_for_each(|block| stream.owns_block(name, block))?;
        list.check(name, self.parameters())?;
        if shape.is_empty() {
            return Ok(());
        }
        let core = stream.core();
        shape.check(name, self.function(), core.driver.properties())?;
        list.lists.iter().try_for_each(|list| list.order_before(stream.timeline()))?;
        let mut work = stream.begin(&list.blocks)?;
        work.uses(self.loaded());
        core.counters.launched();
        // SAFETY: the arguments match the kernel's parameters and outlive the call; their buffers stay mapped
        // until this work is complete.
        unsafe { core.driver.launch(work.stream, self.function().raw, shape.grid(), &list.values) }
    }
}

impl Stream {
    /// A buffer that holds the addresses of `views`, in order, for kernels that read more buffers than a launch
    /// has arguments. A kernel takes it as a `const T* const*`.
    pub fn addresses<T: Plain>(&self, views: &[View<'_, T>]) -> Result<AddressList<T>> {
        views.iter().try_for_each(|view| self.owns("Stream::addresses", *view))?;
        let addresses: Vec<u64> = views.iter().map(|view| view.at().0).collect();
        let list = self.upload(&addresses)?;
        Ok(AddressList::new(list, views, Origin::now(self.timeline())))
    }
}
