//! What a kernel is called with.

use std::ffi::c_void;
use std::sync::Arc;

use crate::buffer::{Block, Buffer, View, ViewMut};
use crate::plain::Plain;

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
    fn value<T>(&mut self, value: &'a T) {
        self.values.push(std::ptr::from_ref(value).cast());
        self.sizes.push(size_of::<T>());
    }
}

impl<T: Plain> Argument for T {
    fn push<'a>(&'a self, list: &mut ArgumentList<'a>) {
        list.value(self);
    }
}

impl<T: Plain> Argument for &Buffer<T> {
    fn push<'a>(&'a self, list: &mut ArgumentList<'a>) {
        list.value(Buffer::address(self));
        list.blocks.push(Buffer::block(self));
    }
}

impl<T: Plain> Argument for &mut Buffer<T> {
    fn push<'a>(&'a self, list: &mut ArgumentList<'a>) {
        list.value(Buffer::address(self));
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
