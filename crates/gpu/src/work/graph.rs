//! Graphs: recorded work that is replayed with one call, without a launch cost per kernel.

use std::sync::Arc;

use crate::base::{Lock, Result};
use crate::drivers::Raw;
use crate::memory::{Core, same_device};
use crate::queue::{Capture, Recorded, Resource};
use crate::work::Stream;

/// Work recorded from a stream. It keeps the device memory, pinned memory and code that it uses alive.
pub struct Graph {
    /// The instantiated graph, locked for each launch, because graphs are not synchronized by the driver.
    executable: Lock<Raw>,
    kept: Vec<Arc<dyn Resource>>,
    /// The numbers of its kernels, in order.
    kernels: Vec<u64>,
    core: Arc<Core>,
}

/// The kind of change that [`Graph::recapture`] made to the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recapture {
    /// The work has the same shape and kernels, so only the arguments were updated.
    Updated,
    /// The work has another shape or other kernels, so the graph was instantiated again.
    Rebuilt,
}

impl Graph {
    /// Records the work that `record` submits to `stream`, without running it.
    ///
    /// `record` may allocate device memory, and may copy host memory only if it is pinned. During the capture only
    /// the calling thread can submit work to the stream, and work on other streams can't join the graph. After an
    /// error or a panic in `record` the stream works as before.
    ///
    /// Other threads may do anything else with the device during a capture. On CUDA, another library in the process
    /// that synchronizes the whole context (`cudaDeviceSynchronize`) invalidates the capture, which is an error.
    pub fn capture(stream: &Stream, record: impl FnOnce(&Stream) -> Result<()>) -> Result<Self> {
        let Recorded { graph, kept, kernels } = captured(stream, record)?;
        let core = stream.core().clone();
        let executable = core.driver.instantiate(graph);
        core.driver.destroy_graph(graph);
        Ok(Self { executable: Lock::new(executable?), kept, kernels, core })
    }

    /// Runs the recorded work on `stream`.
    pub fn replay(&self, stream: &Stream) -> Result<()> {
        same_device("Graph::replay", &self.core, stream.core())?;
        stream.device().take_back(stream.timeline(), self.kept.iter())?;
        for origin in self.kept.iter().filter_map(|resource| resource.origin()) {
            origin.order_before(stream.timeline())?;
        }
        let executable = self.executable.lock();
        let mut work = stream.timeline().begin()?;
        work.uses_all(&self.kept, &self.kernels)?;
        self.core.counters.replayed();
        self.core.driver.launch_graph(*executable, work.stream()?)
    }

    /// Records again, with other arguments, and replaces this graph's work. Kernels that `record` launches through
    /// [`Stream::raw_handle`] have to be the same as before.
    pub fn recapture(&mut self, stream: &Stream, record: impl FnOnce(&Stream) -> Result<()>) -> Result<Recapture> {
        same_device("Graph::recapture", &self.core, stream.core())?;
        let Recorded { graph, kept, kernels } = captured(stream, record)?;
        let driver = &self.core.driver;
        let executable = self.executable.get_mut();
        // Other kernels in the nodes of an instantiated graph are not safe; see `queue::chains`.
        let updated = if kernels == self.kernels { driver.update(*executable, graph) } else { Ok(false) };
        let result = match updated {
            Ok(true) => Ok(Recapture::Updated),
            Ok(false) => driver.instantiate(graph).map(|rebuilt| {
                driver.destroy_executable(std::mem::replace(executable, rebuilt));
                Recapture::Rebuilt
            }),
            Err(error) => Err(error),
        };
        driver.destroy_graph(graph);
        match result {
            Ok(_) => (self.kept, self.kernels) = (kept, kernels),
            // The graph may do the old work or the new.
            Err(_) => self.kept.extend(kept),
        }
        result
    }
}

fn captured(stream: &Stream, record: impl FnOnce(&Stream) -> Result<()>) -> Result<Recorded> {
    let capture = Capture::begin(stream.timeline())?;
    record(stream)?;
    capture.end()
}

impl Drop for Graph {
    fn drop(&mut self) {
        self.core.driver.destroy_executable(*self.executable.get_mut());
    }
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Graph(with {} buffers and modules on {})", self.kept.len(), self.core)
    }
}
