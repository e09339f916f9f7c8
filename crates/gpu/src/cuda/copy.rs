//! Copies between host and device.
//!
//! From and to pinned memory they are asynchronous. From and to pageable memory the driver's documentation says
//! that an asynchronous copy "might be synchronous": it usually is, by staging, but where a device reads the
//! host's pages by itself (HMM, Grace) it need not be. [`Driver`](crate::driver::Driver) promises that pageable
//! memory is free again on return, so such copies end with a wait for the stream. A capture has no such end, so
//! there they are refused.

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys::{self, CUmemorytype, CUpointer_attribute, CUresult, CUstreamCaptureStatus};

use super::context::{Cuda, pointer};
use crate::driver::{DevicePtr, Raw};
use crate::error::Result;

impl Cuda {
    /// # Safety
    ///
    /// As [`Driver::upload`](crate::driver::Driver::upload).
    pub(super) unsafe fn copy_up(&self, stream: Raw, to: DevicePtr, from: *const u8, bytes: usize) -> Result<()> {
        self.copy_host(stream, "upload", from, bytes, || {
            // SAFETY: the caller guarantees both ranges.
            self.call("cuMemcpyHtoDAsync", || unsafe {
                sys::cuMemcpyHtoDAsync_v2(to.0, from.cast(), bytes, pointer(stream))
            })
        })
    }

    /// # Safety
    ///
    /// As [`Driver::download`](crate::driver::Driver::download).
    pub(super) unsafe fn copy_down(&self, stream: Raw, to: *mut u8, from: DevicePtr, bytes: usize) -> Result<()> {
        self.copy_host(stream, "download", to, bytes, || {
            // SAFETY: the caller guarantees both ranges.
            self.call("cuMemcpyDtoHAsync", || unsafe {
                sys::cuMemcpyDtoHAsync_v2(to.cast(), from.0, bytes, pointer(stream))
            })
        })
    }

    /// Enqueues a copy from or to `host`, and waits for it where that memory is pageable.
    fn copy_host(
        &self,
        stream: Raw,
        operation: &'static str,
        host: *const u8,
        bytes: usize,
        enqueue: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        if self.is_pinned(host)? {
            return enqueue();
        }
        if self.is_capturing(stream)? {
            return Err(self.refuse(operation, "a graph can only copy from and to pinned host memory"));
        }
        enqueue()?;
        self.wait_for_stream(stream)
    }

    pub(super) fn wait_for_stream(&self, stream: Raw) -> Result<()> {
        // SAFETY: the stream is live.
        self.call("cuStreamSynchronize", || unsafe { sys::cuStreamSynchronize(pointer(stream)) })
    }

    /// Whether host memory is pinned. The plural call is the one that takes any address; the singular one fails
    /// on addresses that the driver does not know, which tools then report.
    fn is_pinned(&self, at: *const u8) -> Result<bool> {
        let mut attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
        let mut memory_type = 0u32;
        let mut data: *mut c_void = ptr::from_mut(&mut memory_type).cast();
        // SAFETY: one attribute is asked for, of four bytes, and all three variables outlive the call.
        let code = self.attempt(|| unsafe {
            sys::cuPointerGetAttributes(1, &mut attribute, &mut data, at.expose_provenance() as u64)
        });
        match code {
            CUresult::CUDA_ERROR_INVALID_VALUE | CUresult::CUDA_ERROR_INVALID_CONTEXT => Ok(false),
            code => {
                self.check("cuPointerGetAttributes", code)?;
                Ok(memory_type == CUmemorytype::CU_MEMORYTYPE_HOST as u32)
            }
        }
    }

    fn is_capturing(&self, stream: Raw) -> Result<bool> {
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the stream is live, and `status` outlives the call.
        self.call("cuStreamIsCapturing", || unsafe { sys::cuStreamIsCapturing(pointer(stream), &mut status) })?;
        Ok(status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }
}
