//! What a kernel is called with.

use std::ffi::c_void;
use std::sync::Arc;

use crate::buffer::{Block, Buffer, View, ViewMut};
use crate::driver::DevicePtr;
use crate::error::Result;
use crate::plain::Plain;
use crate::stream::Stream;

/// A kernel argument: a buffer or a part of one (the kernel gets a pointer), or a plain value.
pub trait Argument {
    /// Adds itself to the list.
    fn push<'a>(&'a self, list: &mut ArgumentList<'a>);
}

/// The arguments of one launch, as a tuple: `(&a, &mut out, n as u32)`.
pub trait Arguments {
    /// Adds all of them to the list, in order.
    fn push_all<'a>(&'a self, list: &mut ArgumentList<'a>);
}

/// Collects the arguments of a launch.
#[derive(Default)]
pub struct ArgumentList<'a> {
    pub(crate) values: Vec<*const c_void>,
    pub(crate) sizes: Vec<usize>,
    pub(crate) blocks: Vec<&'a Arc<Block>>,
}

impl<'a> ArgumentList<'a> {
    /// A list that most launches do not outgrow.
    pub(crate) fn with_room() -> Self {
        Self { values: Vec::with_capacity(16), sizes: Vec::with_capacity(16), blocks: Vec::with_capacity(16) }
    }

    fn value<T>(&mut self, value: &'a T) {
        self.values.push(std::ptr::from_ref(value).cast());
        self.sizes.push(size_of::<T>());
    }

    /// Adds a structure that the kernel takes by value, given as the 64-bit words it consists of: for generated kernels,
    /// whose structure has a size that is known when they are printed.
    pub fn words(&mut self, words: &'a [u64]) {
        self.bytes(words, size_of_val(words));
    }

    /// Adds a value of a size that is known at run time only: the first `bytes` bytes of `words`, or all if there are
    /// fewer.
    pub fn bytes(&mut self, words: &'a [u64], bytes: usize) {
        self.values.push(words.as_ptr().cast());
        self.sizes.push(bytes.min(size_of_val(words)));
    }
}

impl<T: Plain> Argument for T {
    fn push<'a>(&'a self, list: &mut ArgumentList<'a>) {
        list.value(self);
    }
}

impl<T: Plain> Argument for &Buffer<T> {
    fn push<'a>(&'a self, list: &mut ArgumentList<'a>) {
        list.value(Buffer::at(self));
        list.blocks.push(Buffer::block(self));
    }
}

impl<T: Plain> Argument for &mut Buffer<T> {
    fn push<'a>(&'a self, list: &mut ArgumentList<'a>) {
        list.value(Buffer::at(self));
        list.blocks.push(Buffer::block(self));
    }
}

impl<T: Plain> Argument for View<'_, T> {
    fn push<'a>(&'a self, list: &mut ArgumentList<'a>) {
        list.value(self.at());
        list.blocks.push(self.block());
    }
}

impl<T: Plain> Argument for ViewMut<'_, T> {
    fn push<'a>(&'a self, list: &mut ArgumentList<'a>) {
        list.value(self.at());
        list.blocks.push(self.block());
    }
}

/// A buffer that may be missing: the kernel gets a null pointer then.
impl<T: Plain> Argument for Option<View<'_, T>> {
    fn push<'a>(&'a self, list: &mut ArgumentList<'a>) {
        match self {
            Some(view) => view.push(list),
            None => list.value(&DevicePtr(0)),
        }
    }
}

impl Stream {
    /// The addresses of `views`, in order, in a buffer: for kernels that read more buffers than a launch has
    /// arguments. A kernel takes it as a `const T* const*`.
    ///
    /// This counts as a use of every view on this stream, as a launch with them as arguments would: memory given
    /// back after the work that reads it was enqueued here is not handed out before that work is done. But an
    /// address does not hold its memory. So the views must outlive the enqueueing of all work that reads through
    /// them; that work belongs on this stream, or on one that the views are also arguments on; and a graph must
    /// not record it, since it would keep the list and not what the list points to. Otherwise a kernel reads
    /// whatever is there then: wrong numbers, never an invalid Rust value.
    pub fn addresses<T: Plain>(&self, views: &[View<'_, T>]) -> Result<Buffer<u64>> {
        for view in views {
            self.owns("Stream::addresses", *view)?;
        }
        let addresses: Vec<u64> = views.iter().map(|view| view.at().0).collect();
        let list = self.upload(&addresses)?;
        for view in views {
            self.queue().uses(view.block());
        }
        Ok(list)
    }
}

macro_rules! tuples {
    ($($name:ident)*) => {
        impl<$($name: Argument),*> Arguments for ($($name,)*) {
            #[allow(non_snake_case)]
            fn push_all<'a>(&'a self, list: &mut ArgumentList<'a>) {
                let ($($name,)*) = self;
                $($name.push(list);)*
            }
        }
    };
}

macro_rules! all_tuples {
    ($first:ident $($rest:ident)*) => {
        tuples!($first $($rest)*);
        all_tuples!($($rest)*);
    };
    () => {};
}
all_tuples!(A B C D E F G H I J K L M N O P Q R S T);
