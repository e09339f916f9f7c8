//! Recorded work, replayed with one call: a chain of small kernels without a launch cost for each.

use std::sync::Arc;

use crate::buffer::Block;
use crate::device::Device;
use crate::driver::Raw;
use crate::error::Result;
use crate::stream::Stream;

/// Work recorded from a stream. It keeps the memory it refers to.
pub struct Graph {
    device: Device,
    executable: Raw,
    kept: Vec<Arc<Block>>,
}

/// How [`Graph::recapture`] took in new arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recapture {
    /// The work has the same shape: only arguments changed.
    Updated,
    /// The work has another shape: the graph was built anew.
    Rebuilt,
}

impl Graph {
    /// Records the work that `record` gives to `stream`, without running it.
    ///
    /// Memory may be allocated inside; host memory can only be copied if it is pinned.
    pub fn capture(stream: &Stream, record: impl FnOnce(&Stream) -> Result<()>) -> Result<Self> {
        let (graph, kept) = captured(stream, record)?;
        let driver = stream.device().driver();
        let executable = driver.instantiate(graph);
        driver.destroy_graph(graph);
        Ok(Self { device: stream.device().clone(), executable: executable?, kept })
    }

    /// Runs the recorded work on `stream`.
    pub fn replay(&self, stream: &Stream) -> Result<()> {
        self.device.must_own("Graph::replay", stream.device())?;
        for block in &self.kept {
            stream.queue().uses(block);
        }
        self.device.counters().replayed();
        self.device.driver().launch_graph(self.executable, stream.raw())
    }

    /// Records again, with other arguments, and makes this graph do the new work.
    pub fn recapture(&mut self, stream: &Stream, record: impl FnOnce(&Stream) -> Result<()>) -> Result<Recapture> {
        self.device.must_own("Graph::recapture", stream.device())?;
        let (graph, kept) = captured(stream, record)?;
        let driver = self.device.driver();
        let result = match driver.update(self.executable, graph) {
            Ok(true) => Ok(Recapture::Updated),
            Ok(false) => driver.instantiate(graph).map(|executable| {
                driver.destroy_executable(std::mem::replace(&mut self.executable, executable));
                Recapture::Rebuilt
            }),
            Err(error) => Err(error),
        };
        driver.destroy_graph(graph);
        if result.is_ok() {
            self.kept = kept;
        }
        result
    }
}

fn captured(stream: &Stream, record: impl FnOnce(&Stream) -> Result<()>) -> Result<(Raw, Vec<Arc<Block>>)> {
    let driver = stream.device().driver();
    stream.outside_capture("Graph::capture")?;
    driver.begin_capture(stream.raw())?;
    stream.queue().set_capturing(true);
    let recorded = record(stream);
    stream.queue().set_capturing(false);
    let graph = driver.end_capture(stream.raw());
    let mut kept = stream.queue().take_kept();
    kept.sort_by_key(Arc::as_ptr);
    kept.dedup_by_key(|block| Arc::as_ptr(block));
    match (recorded, graph) {
        (Ok(()), Ok(graph)) => Ok((graph, kept)),
        (Err(error), Ok(graph)) => {
            driver.destroy_graph(graph);
            Err(error)
        }
        (Err(error), Err(_)) | (Ok(()), Err(error)) => Err(error),
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        self.device.driver().destroy_executable(self.executable);
    }
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Graph({} buffers on {})", self.kept.len(), self.device)
    }
}
