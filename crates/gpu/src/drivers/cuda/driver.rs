//! [`Driver`] for CUDA, method by method.
//!
//! The trait's handles are the driver's own pointers. That each is live, and of this device, is the promise of
//! the layer above, which owns them; every `SAFETY` line here that says "live" rests on it.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use cudarc::driver::sys::{self, CUevent_flags, CUresult, CUstream_flags};

use super::context::{Cuda, handle, pointer};
use super::nvrtc;
use crate::base::Result;
use crate::base::{Link, MemoryInfo, Properties};
use crate::drivers::{DevicePtr, Driver, Function, Gemm, Grid, Image, Occupancy, Raw, Unit};

impl Driver for Cuda {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn memory(&self) -> Result<MemoryInfo> {
        self.memory_info()
    }

    // --- memory -------------------------------------------------------------------------------------------

    fn granularity(&self) -> usize {
        self.granularity
    }

    fn reserve(&self, bytes: usize) -> Result<DevicePtr> {
        self.reserve_range(bytes)
    }

    fn map(&self, at: DevicePtr, bytes: usize) -> Result<()> {
        self.map_range(at, bytes)
    }

    fn unmap(&self, at: DevicePtr, bytes: usize) {
        self.unmap_piece(at, bytes);
    }

    fn release(&self, base: DevicePtr, _bytes: usize) {
        self.release_range(base);
    }

    fn alloc(&self, bytes: usize) -> Result<DevicePtr> {
        self.allocate(bytes)
    }

    fn free(&self, at: DevicePtr) {
        // SAFETY: the address came from `alloc` and is used no more.
        self.attempt(|| unsafe { sys::cuMemFree_v2(at.0) });
    }

    fn mark(&self, _at: DevicePtr, _bytes: usize, _live: bool) {}

    fn check_foreign(&self, at: DevicePtr, bytes: usize) -> Result<()> {
        self.check_memory_of_others(at, bytes)
    }

    fn alloc_pinned(&self, bytes: usize) -> Result<NonNull<u8>> {
        self.allocate_pinned(bytes)
    }

    fn free_pinned(&self, at: NonNull<u8>, _bytes: usize) {
        // SAFETY: the address came from `alloc_pinned` and is used no more.
        self.attempt(|| unsafe { sys::cuMemFreeHost(at.as_ptr().cast()) });
    }

    // --- streams and events -------------------------------------------------------------------------------

    fn create_stream(&self) -> Result<Raw> {
        let mut stream = ptr::null_mut();
        // SAFETY: `stream` outlives the call.
        self.call("cuStreamCreate", || unsafe {
            sys::cuStreamCreate(&mut stream, CUstream_flags::CU_STREAM_NON_BLOCKING as u32)
        })?;
        Ok(handle(stream))
    }

    fn destroy_stream(&self, stream: Raw) {
        // SAFETY: the stream is live and used no more; work still in it is finished by the driver.
        self.attempt(|| unsafe { sys::cuStreamDestroy_v2(pointer(stream)) });
    }

    fn synchronize(&self, stream: Raw) -> Result<()> {
        // SAFETY: the stream is live.
        self.call("cuStreamSynchronize", || unsafe { sys::cuStreamSynchronize(pointer(stream)) })
    }

    fn wait_event(&self, stream: Raw, event: Raw) -> Result<()> {
        // SAFETY: both are live.
        self.call("cuStreamWaitEvent", || unsafe { sys::cuStreamWaitEvent(pointer(stream), pointer(event), 0) })
    }

    fn create_event(&self, timing: bool) -> Result<Raw> {
        let flags = if timing { CUevent_flags::CU_EVENT_DEFAULT } else { CUevent_flags::CU_EVENT_DISABLE_TIMING };
        let mut event = ptr::null_mut();
        // SAFETY: `event` outlives the call.
        self.call("cuEventCreate", || unsafe { sys::cuEventCreate(&mut event, flags as u32) })?;
        Ok(handle(event))
    }

    fn destroy_event(&self, event: Raw) {
        // SAFETY: the event is live and used no more; the driver keeps what a pending record needs.
        self.attempt(|| unsafe { sys::cuEventDestroy_v2(pointer(event)) });
    }

    fn record_event(&self, event: Raw, stream: Raw) -> Result<()> {
        // SAFETY: both are live.
        self.call("cuEventRecord", || unsafe { sys::cuEventRecord(pointer(event), pointer(stream)) })
    }

    fn event_done(&self, event: Raw) -> Result<bool> {
        // SAFETY: the event is live.
        match self.attempt(|| unsafe { sys::cuEventQuery(pointer(event)) }) {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            code => self.check("cuEventQuery", code).map(|()| true),
        }
    }

    fn synchronize_event(&self, event: Raw) -> Result<()> {
        // SAFETY: the event is live.
        self.call("cuEventSynchronize", || unsafe { sys::cuEventSynchronize(pointer(event)) })
    }

    fn elapsed(&self, start: Raw, end: Raw) -> Result<f32> {
        let mut milliseconds = 0.0;
        // SAFETY: both are live, and `milliseconds` outlives the call.
        self.call("cuEventElapsedTime", || unsafe {
            sys::cuEventElapsedTime_v2(&mut milliseconds, pointer(start), pointer(end))
        })?;
        Ok(milliseconds)
    }

    // --- copies -------------------------------------------------------------------------------------------

    unsafe fn upload(&self, stream: Raw, to: DevicePtr, from: *const u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.copy_up(stream, to, from, bytes) }
    }

    unsafe fn download(&self, stream: Raw, to: *mut u8, from: DevicePtr, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.copy_down(stream, to, from, bytes) }
    }

    unsafe fn copy(&self, stream: Raw, to: DevicePtr, from: DevicePtr, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller guarantees both ranges.
        self.call("cuMemcpyDtoDAsync", || unsafe {
            sys::cuMemcpyDtoDAsync_v2(to.0, from.0, bytes, pointer(stream))
        })
    }

    unsafe fn fill(&self, stream: Raw, to: DevicePtr, byte: u8, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller guarantees the range.
        self.call("cuMemsetD8Async", || unsafe { sys::cuMemsetD8Async(to.0, byte, bytes, pointer(stream)) })
    }

    unsafe fn copy_to_peer(
        &self,
        stream: Raw,
        peer: &dyn Driver,
        to: DevicePtr,
        from: DevicePtr,
        bytes: usize,
    ) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller's promise, passed on.
        unsafe { self.copy_over(stream, peer, to, from, bytes) }
    }

    // --- code ---------------------------------------------------------------------------------------------

    fn compiler(&self) -> Result<String> {
        nvrtc::compiler(self.properties.capability)
    }

    fn compile(&self, unit: &Unit) -> Result<Image> {
        nvrtc::compile(unit, self.properties.capability)
    }

    fn load(&self, name: &str, image: &Image) -> Result<Raw> {
        self.load_module(name, image)
    }

    fn unload(&self, module: Raw) {
        self.unload_module(module);
    }

    fn function(&self, module: Raw, symbol: &str, expression: &str) -> Result<Function> {
        self.find_function(module, symbol, expression)
    }

    fn occupancy(&self, function: Raw, shared: u32) -> Result<Occupancy> {
        self.best_occupancy(function, shared)
    }

    unsafe fn launch(&self, stream: Raw, function: Raw, grid: Grid, parameters: &[*const c_void]) -> Result<()> {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.launch_grid(stream, function, grid, parameters) }
    }

    // --- matrix products ----------------------------------------------------------------------------------

    fn create_blas(&self) -> Result<Raw> {
        self.open_blas()
    }

    fn destroy_blas(&self, blas: Raw) {
        self.close_blas(blas);
    }

    unsafe fn gemm(&self, blas: Raw, stream: Raw, workspace: (DevicePtr, usize), gemm: &Gemm) -> Result<()> {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.multiply(blas, stream, workspace, gemm) }
    }

    // --- graphs -------------------------------------------------------------------------------------------

    fn begin_capture(&self, stream: Raw) -> Result<()> {
        self.start_capture(stream)
    }

    fn end_capture(&self, stream: Raw) -> Result<Raw> {
        self.finish_capture(stream)
    }

    fn destroy_graph(&self, graph: Raw) {
        self.drop_graph(graph);
    }

    fn instantiate(&self, graph: Raw) -> Result<Raw> {
        self.make_launchable(graph)
    }

    fn update(&self, executable: Raw, graph: Raw) -> Result<bool> {
        self.update_executable(executable, graph)
    }

    fn launch_graph(&self, executable: Raw, stream: Raw) -> Result<()> {
        // SAFETY: both are live, and the layer above keeps what the graph addresses.
        self.call("cuGraphLaunch", || unsafe { sys::cuGraphLaunch(pointer(executable), pointer(stream)) })
    }

    fn destroy_executable(&self, executable: Raw) {
        // SAFETY: the graph is live and used no more; the driver finishes a launch that is under way.
        self.attempt(|| unsafe { sys::cuGraphExecDestroy(pointer(executable)) });
    }

    // --- peers --------------------------------------------------------------------------------------------

    fn link(&self, peer: &dyn Driver) -> Result<Link> {
        self.link_to(peer)
    }

    fn enable_peer(&self, peer: &dyn Driver) -> Result<()> {
        self.reach(peer)
    }
}
