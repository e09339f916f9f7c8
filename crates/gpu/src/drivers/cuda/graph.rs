//! Graphs: capture, instantiation, update.

use std::collections::BTreeMap;
use std::ptr;

use cudarc::driver::sys::{self, CUgraph, CUgraphExecUpdateResult, CUgraphExecUpdateResultInfo, CUresult};

use super::context::{Cuda, handle, pointer};
use crate::base::{Lock, Result};
use crate::drivers::{GraphDriver, Raw};

/// The number of captures in progress in this process, by context. A call that would end those of a context is made
/// under the lock, while there are none.
pub(super) static CAPTURES: Lock<BTreeMap<usize, usize>> = Lock::new(BTreeMap::new());

impl GraphDriver for Cuda {
    /// Uses the relaxed mode. In the other modes a capture must end on the thread that began it, while this trait
    /// may be called from any thread, and the capturing thread could not grow a pool or query an event.
    fn begin_capture(&self, stream: Raw) -> Result<()> {
        let mut captures = CAPTURES.lock();
        // SAFETY: the stream is live.
        self.call("cuStreamBeginCapture", || unsafe {
            sys::cuStreamBeginCapture_v2(pointer(stream), sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)
        })?;
        *captures.entry(self.context.handle.addr()).or_default() += 1;
        Ok(())
    }

    /// Ends a capture, also an invalid one, which gives no graph; the stream is then usable again.
    fn end_capture(&self, stream: Raw) -> Result<Raw> {
        let mut graph: CUgraph = ptr::null_mut();
        // SAFETY: the stream is live, and `graph` outlives the call.
        let code = self.attempt(|| unsafe { sys::cuStreamEndCapture(pointer(stream), &mut graph) });
        *CAPTURES.lock().get_mut(&self.context.handle.addr()).expect("it began in this context") -= 1;
        if code != CUresult::CUDA_SUCCESS && !graph.is_null() {
            self.destroy_graph(handle(graph));
        }
        self.check("cuStreamEndCapture", code)?;
        if graph.is_null() {
            return Err(self.refuse("cuStreamEndCapture", "the capture was invalid and gave no graph"));
        }
        Ok(handle(graph))
    }

    fn destroy_graph(&self, graph: Raw) {
        // SAFETY: the graph came from `end_capture` and is not used again.
        self.attempt(|| unsafe { sys::cuGraphDestroy(pointer(graph)) });
    }

    fn instantiate(&self, graph: Raw) -> Result<Raw> {
        let mut executable = ptr::null_mut();
        // SAFETY: the graph is live, and `executable` outlives the call.
        self.call("cuGraphInstantiate", || unsafe {
            sys::cuGraphInstantiateWithFlags(&mut executable, pointer(graph), 0)
        })?;
        Ok(handle(executable))
    }

    fn update(&self, executable: Raw, graph: Raw) -> Result<bool> {
        let mut why = CUgraphExecUpdateResultInfo {
            result: CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_SUCCESS,
            errorNode: ptr::null_mut(),
            errorFromNode: ptr::null_mut(),
        };
        // SAFETY: both graphs are live, and `why` outlives the call.
        let code =
            self.attempt(|| unsafe { sys::cuGraphExecUpdate_v2(pointer(executable), pointer(graph), &mut why) });
        if code == CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE {
            return Ok(false);
        }
        self.check("cuGraphExecUpdate", code)?;
        Ok(true)
    }

    fn launch_graph(&self, executable: Raw, stream: Raw) -> Result<()> {
        // SAFETY: both are live, and the layer above keeps the memory alive that the graph accesses.
        self.call("cuGraphLaunch", || unsafe { sys::cuGraphLaunch(pointer(executable), pointer(stream)) })
    }

    fn destroy_executable(&self, executable: Raw) {
        // SAFETY: the graph is live and not used again; the driver completes a launch in progress.
        self.attempt(|| unsafe { sys::cuGraphExecDestroy(pointer(executable)) });
    }
}
