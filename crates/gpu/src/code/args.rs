//! Kernel arguments.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::base::{Error, Plain, Result};
use crate::drivers::{DevicePtr, Parameter, Passing};
use crate::memory::{Block, Buffer, View, ViewMut};
use crate::queue::Origin;

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
    pub(crate) values: SmallVec<[*const c_void; 24]>,
    given: SmallVec<[Parameter; 24]>,
    /// The memory that the kernel reads, and that which it may write.
    pub(crate) reads: SmallVec<[&'a Arc<Block>; 16]>,
    pub(crate) writes: SmallVec<[&'a Arc<Block>; 8]>,
    /// The uploads of the address lists among the arguments, after which the kernel may run.
    pub(crate) lists: SmallVec<[&'a Origin; 1]>,
}

impl<'a> ArgumentList<'a> {
    fn value<T>(&mut self, value: &'a T) {
        self.push(std::ptr::from_ref(value).cast(), size_of::<T>(), Passing::Value);
    }

    fn pointer(&mut self, at: &'a DevicePtr, passing: Passing) {
        self.push(std::ptr::from_ref(at).cast(), size_of::<DevicePtr>(), passing);
    }

    /// All memory that the kernel accesses.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &'a Arc<Block>> {
        self.reads.iter().chain(&self.writes).copied()
    }

    fn push(&mut self, value: *const c_void, bytes: usize, passing: Passing) {
        self.values.push(value);
        self.given.push(Parameter { bytes, passing });
    }

    /// Adds a struct that the kernel takes by value, given as 64-bit words. Generated kernels use it, because the
    /// size of their parameter struct is only known when their source is generated.
    pub fn words(&mut self, words: &'a [u64]) {
        self.bytes(words, size_of_val(words));
    }

    /// Adds a value whose size is only known at run time: the first `bytes` bytes of `words`, or all of them if
    /// there are fewer.
    pub fn bytes(&mut self, words: &'a [u64], bytes: usize) {
        self.push(words.as_ptr().cast(), bytes.min(size_of_val(words)), Passing::Value);
    }

    /// Counts the launch as a use of memory that the kernel reads without getting it as an argument: through addresses
    /// that it finds in other memory.
    pub fn reads<T: Plain>(&mut self, memory: View<'a, T>) {
        self.reads.push(memory.block());
    }

    /// Checks the arguments against the kernel's parameters: their number and sizes, buffers for pointers and
    /// values for values, and mutable buffers for pointers that the kernel may write through.
    pub(crate) fn check(&self, kernel: &str, parameters: &[Parameter]) -> Result<()> {
        let wrong = |detail| Err(Error::Arguments { kernel: kernel.into(), detail });
        if parameters.len() != self.given.len() {
            return wrong(format!("takes {} arguments, got {}", parameters.len(), self.given.len()));
        }
        for (i, (wanted, given)) in parameters.iter().zip(&self.given).enumerate() {
            let detail = match (wanted.passing, given.passing) {
                (Passing::Value, Passing::Value) if wanted.bytes == given.bytes => continue,
                (Passing::Value, Passing::Value) => format!("has {} bytes, got {}", wanted.bytes, given.bytes),
                (Passing::AddressList, Passing::AddressList) => continue,
                (Passing::AddressList, _) => "is a list of addresses; pass the result of Stream::addresses".into(),
                (_, Passing::AddressList) => "is not a list of addresses (`const T* const*`), got one".into(),
                (Passing::Value, _) => format!("is a value of {} bytes, got a buffer", wanted.bytes),
                (_, Passing::Value) => "is a pointer, got a value; pass a buffer or a view".into(),
                (Passing::Pointer, Passing::ConstPointer) => {
                    "is written to, got a buffer for reading; pass `&mut` or a ViewMut, or declare it `const`"
                        .into()
                }
                (Passing::Pointer | Passing::ConstPointer, _) => continue,
            };
            return wrong(format!("argument {i} (counted from 0) {detail}"));
        }
        Ok(())
    }
}

impl<T: Plain> Argument for T {
    fn push<'a>(&'a self, list: &mut ArgumentList<'a>) {
        // The launch copies the value's bytes.
        const { T::CHECK };
        list.value(self);
    }
}

impl<T: Plain> Argument for &Buffer<T> {
    fn push<'a>(&'a self, list: &mut ArgumentList<'a>) {
        list.pointer(Buffer::at(self), Passing::ConstPointer);
        list.reads.push(Buffer::block(self));
    }
}

impl<T: Plain> Argument for &mut Buffer<T> {
    fn push<'a>(&'a self, list: &mut ArgumentList<'a>) {
        list.pointer(Buffer::at(self), Passing::Pointer);
        list.writes.push(Buffer::block(self));
    }
}

impl<T: Plain> Argument for View<'_, T> {
    fn push<'a>(&'a self, list: &mut ArgumentList<'a>) {
        list.pointer(self.at(), Passing::ConstPointer);
        list.reads.push(self.block());
    }
}

impl<T: Plain> Argument for ViewMut<'_, T> {
    fn push<'a>(&'a self, list: &mut ArgumentList<'a>) {
        list.pointer(self.at(), Passing::Pointer);
        list.writes.push(self.block());
    }
}

/// An optional buffer: for `None` the kernel gets a null pointer.
impl<T: Plain> Argument for Option<View<'_, T>> {
    fn push<'a>(&'a self, list: &mut ArgumentList<'a>) {
        match self {
            Some(view) => view.push(list),
            None => list.pointer(&DevicePtr(0), Passing::ConstPointer),
        }
    }
}

/// An optional writable buffer: for `None` the kernel gets a null pointer.
impl<T: Plain> Argument for Option<ViewMut<'_, T>> {
    fn push<'a>(&'a self, list: &mut ArgumentList<'a>) {
        match self {
            Some(view) => view.push(list),
            None => list.pointer(&DevicePtr(0), Passing::Pointer),
        }
    }
}

/// A buffer that holds the addresses of other buffers, for kernels that read more buffers than a launch has
/// arguments. Made by [`Stream::addresses`](crate::Stream::addresses).
///
/// A kernel takes it as a `const T* const*`. The launch counts as a use of every buffer in the list, and the list
/// keeps their memory alive.
pub struct AddressList<T: Plain> {
    list: Buffer<u64>,
    blocks: Vec<Arc<Block>>,
    uploaded: Origin,
    of: PhantomData<T>,
}

impl<T: Plain> AddressList<T> {
    pub(crate) fn new(list: Buffer<u64>, views: &[View<'_, T>], uploaded: Origin) -> Self {
        Self { list, blocks: views.iter().map(|view| view.block().clone()).collect(), uploaded, of: PhantomData }
    }
}

impl<T: Plain> Argument for &AddressList<T> {
    fn push<'a>(&'a self, list: &mut ArgumentList<'a>) {
        list.pointer(Buffer::at(&self.list), Passing::AddressList);
        list.reads.push(Buffer::block(&self.list));
        list.lists.push(&self.uploaded);
        list.reads.extend(&self.blocks);
    }
}

impl<T: Plain> std::fmt::Debug for AddressList<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AddressList<{}>({})", std::any::type_name::<T>(), self.list.len())
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
