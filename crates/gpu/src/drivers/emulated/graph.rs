//! Streams that record, and what they record.

use std::ffi::c_void;
use std::sync::Arc;

use super::module::Kernel;
use crate::drivers::Grid;

/// One piece of work on a stream. Addresses are kept as numbers; whoever replays a graph guarantees them.
#[derive(Clone)]
pub(super) enum Operation {
    Launch {
        kernel: Arc<Kernel>,
        grid: Grid,
        arguments: Vec<Argument>,
    },
    /// Between any two of host, device and peer: all are memory of this process.
    Copy {
        to: usize,
        from: usize,
        bytes: usize,
    },
    Fill {
        to: usize,
        byte: u8,
        bytes: usize,
    },
    /// An event recorded or waited for: order is all it means in a graph, and a graph here runs in order.
    Event,
}

/// A copy of the value of one argument, aligned for any type a kernel takes.
#[derive(Clone)]
pub(super) struct Argument(Box<[u128]>);

impl Argument {
    /// # Safety
    ///
    /// `size` bytes can be read at `at`.
    pub(super) unsafe fn copy(at: *const c_void, size: usize) -> Self {
        let mut value = vec![0u128; size.div_ceil(16)].into_boxed_slice();
        // SAFETY: promised by the caller; the box has room for `size` bytes.
        unsafe { std::ptr::copy_nonoverlapping(at.cast::<u8>(), value.as_mut_ptr().cast(), size) };
        Self(value)
    }

    pub(super) fn as_ptr(&self) -> *const c_void {
        self.0.as_ptr().cast()
    }
}

impl Operation {
    /// Whether this can take the place of `other` in an instantiated graph.
    fn like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Launch { kernel, .. }, Self::Launch { kernel: theirs, .. }) => Arc::ptr_eq(kernel, theirs),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

/// Recorded work, in order.
pub(super) type Graph = Vec<Operation>;

/// Whether two graphs have the same shape: the same operations, but for addresses, sizes and arguments.
pub(super) fn same_shape(a: &Graph, b: &Graph) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.like(b))
}

/// What a stream does with the work it is given.
#[derive(Default)]
pub(super) enum Stream {
    #[default]
    Runs,
    Records(Graph),
    /// Something that can't be recorded was asked for.
    Spoiled(&'static str),
}
