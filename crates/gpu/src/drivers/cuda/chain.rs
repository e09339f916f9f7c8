//! Chains: instantiated graphs of kernels in a row, whose nodes are set before each launch.

use std::ptr;

use cudarc::driver::sys::{self, CUDA_KERNEL_NODE_PARAMS, CUgraph, CUgraphNode, CUresult};

use super::context::{Cuda, handle, pointer};
use crate::base::Result;
use crate::drivers::{Chain, GraphDriver, Grid, Launch, Raw};

impl Cuda {
    /// Launches by a chain; `None` if the driver refuses to make it or to set its nodes. Then nothing was launched.
    ///
    /// # Safety
    ///
    /// As for `CodeDriver::launch`, for each of `launches`.
    pub(super) unsafe fn chained(
        &self,
        stream: Raw,
        launches: &[Launch],
        chain: Option<Chain>,
    ) -> Option<(Chain, Result<()>)> {
        let chain = match chain {
            Some(chain) => {
                // One call sets them all, because each enters the context.
                let set = self.attempt(|| {
                    let nodes = chain.nodes.iter().zip(launches);
                    let mut codes = nodes.map(|(&node, launch)| set_node(chain.executable, node, launch));
                    codes.find(|&code| code != CUresult::CUDA_SUCCESS).unwrap_or(CUresult::CUDA_SUCCESS)
                });
                if set != CUresult::CUDA_SUCCESS {
                    self.discard_chain(chain);
                    return None;
                }
                chain
            }
            None => self.make_chain(launches)?,
        };
        // SAFETY: both are live, and the caller guarantees what the kernels access.
        let code = self.attempt(|| unsafe { sys::cuGraphLaunch(pointer(chain.executable), pointer(stream)) });
        if code == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            // The driver has no memory for the graph. Kernels by themselves need none.
            self.discard_chain(chain);
            return None;
        }
        Some((chain, self.check("cuGraphLaunch", code)))
    }

    fn make_chain(&self, launches: &[Launch]) -> Option<Chain> {
        let mut graph: CUgraph = ptr::null_mut();
        // SAFETY: `graph` outlives the call.
        if self.attempt(|| unsafe { sys::cuGraphCreate(&mut graph, 0) }) != CUresult::CUDA_SUCCESS {
            return None;
        }
        let mut nodes: Vec<CUgraphNode> = Vec::with_capacity(launches.len());
        let mut add = |launch: &Launch| {
            let before = nodes.last().map_or(&[][..], std::slice::from_ref);
            let mut node = ptr::null_mut();
            let added = with_parameters(launch, |parameters| {
                // SAFETY: graph, nodes and function are live, and the arguments fit the function.
                self.attempt(|| unsafe {
                    sys::cuGraphAddKernelNode_v2(&mut node, graph, before.as_ptr(), before.len(), parameters)
                })
            });
            nodes.push(node);
            added == CUresult::CUDA_SUCCESS
        };
        let executable = launches.iter().all(&mut add).then(|| self.instantiate(handle(graph)).ok()).flatten();
        let Some(executable) = executable else {
            self.destroy_graph(handle(graph));
            return None;
        };
        Some(Chain { graph: handle(graph), executable, nodes: nodes.into_iter().map(handle).collect() })
    }

    pub(super) fn discard_chain(&self, chain: Chain) {
        self.destroy_executable(chain.executable);
        self.destroy_graph(chain.graph);
    }
}

/// Sets another shape and other arguments for the same function.
fn set_node(executable: Raw, node: Raw, launch: &Launch) -> CUresult {
    with_parameters(launch, |parameters| {
        // SAFETY: graph, node and function are live, and the arguments fit the function.
        unsafe { sys::cuGraphExecKernelNodeSetParams_v2(pointer(executable), pointer(node), parameters) }
    })
}

/// The driver's description of a launch.
fn with_parameters<R>(launch: &Launch, call: impl FnOnce(&CUDA_KERNEL_NODE_PARAMS) -> R) -> R {
    let Grid { blocks: [bx, by, bz], threads: [tx, ty, tz], shared } = launch.grid;
    let values = launch.parameters();
    call(&CUDA_KERNEL_NODE_PARAMS {
        func: pointer(launch.function),
        gridDimX: bx,
        gridDimY: by,
        gridDimZ: bz,
        blockDimX: tx,
        blockDimY: ty,
        blockDimZ: tz,
        sharedMemBytes: shared,
        // The driver copies the arguments and writes to none.
        kernelParams: values.as_ptr().cast_mut().cast(),
        extra: ptr::null_mut(),
        kern: ptr::null_mut(),
        ctx: ptr::null_mut(),
    })
}
