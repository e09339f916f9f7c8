//! Captures: work of a stream that is recorded in a graph instead of being run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ThreadId;

use super::Timeline;
use super::uses::Resource;
use crate::base::{Error, Result};
use crate::drivers::Raw;

/// A capture in progress.
pub(super) struct Recording {
    pub(super) id: u64,
    /// The capturing thread. Work submitted by other threads would end up in the graph, so it is rejected.
    pub(super) thread: ThreadId,
    pub(super) kept: Vec<Arc<dyn Resource>>,
    pub(super) kernels: Vec<u64>,
}

/// A finished capture.
pub(crate) struct Recorded {
    pub(crate) graph: Raw,
    /// The resources that the graph refers to.
    pub(crate) kept: Vec<Arc<dyn Resource>>,
    /// The [numbers](crate::drivers::Launch::kernel) of its kernels, in order.
    pub(crate) kernels: Vec<u64>,
}

/// A guard that owns a capture from begin to end, also on errors and panics.
pub(crate) struct Capture<'a> {
    timeline: &'a Arc<Timeline>,
    ended: bool,
}

impl<'a> Capture<'a> {
    /// Begins a capture: work that this thread submits to the stream from now on is recorded and not run.
    pub(crate) fn begin(timeline: &'a Arc<Timeline>) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut state = timeline.state.lock();
        if state.capture.is_some() {
            return Err(Error::shape("Graph::capture", "the stream is already under capture"));
        }
        let Some(stream) = state.stream else {
            return Err(Error::shape("Graph::capture", "the stream is closed"));
        };
        // With this mark, waiting for earlier work does not touch the stream during the capture.
        let issued = state.issued;
        timeline.mark(&mut state, issued)?;
        state.submit(timeline)?;
        timeline.driver.begin_capture(stream)?;
        let (id, thread) = (NEXT.fetch_add(1, Ordering::Relaxed), std::thread::current().id());
        state.capture = Some(Recording { id, thread, kept: Vec::new(), kernels: Vec::new() });
        Ok(Self { timeline, ended: false })
    }

    /// Ends the capture.
    pub(crate) fn end(mut self) -> Result<Recorded> {
        self.ended = true;
        self.stop()
    }

    fn stop(&self) -> Result<Recorded> {
        let (graph, Recording { mut kept, kernels, .. }) = {
            let mut state = self.timeline.state.lock();
            let stream = state.stream.expect("the stream is borrowed");
            let graph = self.timeline.driver.end_capture(stream);
            (graph, state.capture.take().expect("this guard began it"))
        };
        let address = |resource: &Arc<dyn Resource>| Arc::as_ptr(resource).cast::<()>();
        kept.sort_by_key(address);
        kept.dedup_by_key(|resource| address(resource));
        Ok(Recorded { graph: graph?, kept, kernels })
    }
}

impl Drop for Capture<'_> {
    /// Discards the recorded work and ends the capture, after an error or a panic in it.
    fn drop(&mut self) {
        if !self.ended
            && let Ok(Recorded { graph, .. }) = self.stop()
        {
            self.timeline.driver.destroy_graph(graph);
        }
    }
}
