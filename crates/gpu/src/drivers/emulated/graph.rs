//! Graph capture and replay.

use std::ffi::c_void;
use std::sync::Arc;

use super::device::Device;
use super::module::Kernel;
use crate::base::{Lock, Result};
use crate::drivers::{GraphDriver, Grid, Raw};

/// One piece of work on a stream. The caller that replays a graph guarantees that its addresses are valid.
#[derive(Clone)]
pub(super) enum Operation {
    Launch {
        kernel: Arc<Kernel>,
        grid: Grid,
        arguments: Vec<Argument>,
    },
    /// A copy between any two of host, device and peer, which are all memory of this process.
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
    /// An event that is recorded or waited for. It has no effect in a graph, because graphs here run in order.
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
        // SAFETY: guaranteed by the caller; the box holds at least `size` bytes.
        unsafe { std::ptr::copy_nonoverlapping(at.cast::<u8>(), value.as_mut_ptr().cast(), size) };
        Self(value)
    }

    pub(super) fn as_ptr(&self) -> *const c_void {
        self.0.as_ptr().cast()
    }
}

impl Operation {
    /// Whether this can replace `other` in an instantiated graph.
    fn like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Launch { kernel, .. }, Self::Launch { kernel: theirs, .. }) => Arc::ptr_eq(kernel, theirs),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

/// Recorded work, in order.
pub(super) type Graph = Vec<Operation>;

/// Whether two graphs have the same shape: the same operations, except for addresses, sizes and arguments.
pub(super) fn same_shape(a: &Graph, b: &Graph) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.like(b))
}

/// The state of a stream.
#[derive(Default)]
pub(super) enum Stream {
    #[default]
    Runs,
    Records(Graph),
    /// The capture is invalid, for this reason.
    Spoiled(&'static str),
}

impl GraphDriver for Device {
    fn begin_capture(&self, stream: Raw) -> Result<()> {
        let stream = self.streams.get(stream)?;
        let mut stream = stream.lock();
        if !matches!(*stream, Stream::Runs) {
            return Err(self.failed("recording", "the stream is already under capture"));
        }
        *stream = Stream::Records(Graph::new());
        Ok(())
    }

    fn end_capture(&self, stream: Raw) -> Result<Raw> {
        let stream = self.streams.get(stream)?;
        match std::mem::take(&mut *stream.lock()) {
            Stream::Records(graph) => Ok(self.graphs.add(graph)),
            Stream::Spoiled(why) => Err(self.failed("recording", why)),
            Stream::Runs => Err(self.failed("recording", "the stream is not under capture")),
        }
    }

    fn destroy_graph(&self, graph: Raw) {
        self.graphs.remove(graph);
    }

    fn instantiate(&self, graph: Raw) -> Result<Raw> {
        let graph = self.graphs.get(graph)?;
        Ok(self.executables.add(Lock::new((*graph).clone())))
    }

    fn update(&self, executable: Raw, graph: Raw) -> Result<bool> {
        let (executable, graph) = (self.executables.get(executable)?, self.graphs.get(graph)?);
        let mut executable = executable.lock();
        let same = same_shape(&executable, &graph);
        if same {
            executable.clone_from(&graph);
        }
        Ok(same)
    }

    fn launch_graph(&self, executable: Raw, stream: Raw) -> Result<()> {
        let executable = self.executables.get(executable)?;
        for operation in executable.lock().iter() {
            // SAFETY: the caller that recorded the operation guarantees its addresses when the graph is launched.
            unsafe { self.submit(stream, operation.clone()) }?;
        }
        Ok(())
    }

    fn destroy_executable(&self, executable: Raw) {
        self.executables.remove(executable);
    }
}
