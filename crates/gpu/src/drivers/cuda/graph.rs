//! Graphs: capture, instantiation, update.

use std::ptr;

use cudarc::driver::sys::{self, CUgraph, CUgraphExecUpdateResult, CUgraphExecUpdateResultInfo, CUresult};

use super::context::{Cuda, handle, pointer};
use crate::base::Result;
use crate::drivers::Raw;

impl Cuda {
    /// The mode is relaxed. In any other, a capture must end on the thread that began it, while this trait may be
    /// called from any; and the capturing thread could not grow a pool or ask an event how far it is.
    pub(super) fn start_capture(&self, stream: Raw) -> Result<()> {
        // SAFETY: the stream is live.
        self.call("cuStreamBeginCapture", || unsafe {
            sys::cuStreamBeginCapture_v2(pointer(stream), sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)
        })
    }

    /// An invalid capture ends here too, with no graph: the stream is then as it was before.
    pub(super) fn finish_capture(&self, stream: Raw) -> Result<Raw> {
        let mut graph: CUgraph = ptr::null_mut();
        // SAFETY: the stream is live, and `graph` outlives the call.
        let code = self.attempt(|| unsafe { sys::cuStreamEndCapture(pointer(stream), &mut graph) });
        if code != CUresult::CUDA_SUCCESS && !graph.is_null() {
            self.drop_graph(handle(graph));
        }
        self.check("cuStreamEndCapture", code)?;
        if graph.is_null() {
            return Err(self.refuse("cuStreamEndCapture", "the capture was invalid and gave no graph"));
        }
        Ok(handle(graph))
    }

    pub(super) fn drop_graph(&self, graph: Raw) {
        // SAFETY: the graph came from `finish_capture` and is used no more.
        self.attempt(|| unsafe { sys::cuGraphDestroy(pointer(graph)) });
    }

    pub(super) fn make_launchable(&self, graph: Raw) -> Result<Raw> {
        let mut executable = ptr::null_mut();
        // SAFETY: the graph is live, and `executable` outlives the call.
        self.call("cuGraphInstantiate", || unsafe {
            sys::cuGraphInstantiateWithFlags(&mut executable, pointer(graph), 0)
        })?;
        Ok(handle(executable))
    }

    pub(super) fn update_executable(&self, executable: Raw, graph: Raw) -> Result<bool> {
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
}
