//! Streams and events.
//!
//! Handles are the driver's own pointers. The layer above owns them and guarantees that each is live and belongs
//! to this device. Every `SAFETY` comment in this folder that says "live" relies on this.

use std::ptr;

use cudarc::driver::sys::{self, CUevent_flags, CUresult, CUstream, CUstream_flags, CUstreamCaptureStatus};

use super::context::{Cuda, handle, pointer};
use super::graph::CAPTURES;
use crate::base::Result;
use crate::drivers::{QueueDriver, Raw};

/// CUDA's name for the default stream that waits for all blocking streams.
const LEGACY: usize = 1;

impl QueueDriver for Cuda {
    fn create_stream(&self) -> Result<Raw> {
        let mut stream = ptr::null_mut();
        // SAFETY: `stream` outlives the call.
        self.call("cuStreamCreate", || unsafe {
            sys::cuStreamCreate(&mut stream, CUstream_flags::CU_STREAM_NON_BLOCKING as u32)
        })?;
        Ok(handle(stream))
    }

    fn destroy_stream(&self, stream: Raw) {
        // SAFETY: the stream is live and not used again; the driver completes its remaining work.
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
        // SAFETY: the event is live and not used again; the driver keeps it until a pending record completes.
        self.attempt(|| unsafe { sys::cuEventDestroy_v2(pointer(event)) });
    }

    fn record_event(&self, event: Raw, stream: Raw) -> Result<()> {
        // SAFETY: both are live.
        self.call("cuEventRecord", || unsafe { sys::cuEventRecord(pointer(event), pointer(stream)) })
    }

    fn record_context(&self, event: Raw) -> Result<()> {
        const CALL: &str = "cuCtxRecordEvent";
        // CUDA would end the captures of all streams of the context. Those of the process are counted; of other
        // libraries' captures CUDA tells at least those on blocking streams.
        let captures = CAPTURES.lock();
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the legacy stream always exists, and `status` outlives the call.
        self.call(CALL, || unsafe { sys::cuStreamIsCapturing(LEGACY as CUstream, &mut status) })?;
        if let Some(count @ 1..) = captures.get(&self.context.handle.addr()) {
            return Err(self.refuse(CALL, format!("{count} captures are in progress, which it would end")));
        }
        // SAFETY: the context and the event are live.
        self.call("cuCtxRecordEvent", || unsafe { sys::cuCtxRecordEvent(self.context.handle, pointer(event)) })
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
}
