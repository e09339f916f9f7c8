//! Copies between host and device.
//!
//! The host side is always pinned memory, so every copy is asynchronous and can be captured in a graph.

use cudarc::driver::sys;

use super::context::{Cuda, pointer};
use crate::base::Result;
use crate::drivers::{CopyDriver, DevicePtr, Raw};

impl CopyDriver for Cuda {
    unsafe fn upload(&self, stream: Raw, to: DevicePtr, from: *const u8, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller guarantees both ranges.
        self.call("cuMemcpyHtoDAsync", || unsafe {
            sys::cuMemcpyHtoDAsync_v2(to.0, from.cast(), bytes, pointer(stream))
        })
    }

    unsafe fn download(&self, stream: Raw, to: *mut u8, from: DevicePtr, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller guarantees both ranges.
        self.call("cuMemcpyDtoHAsync", || unsafe {
            sys::cuMemcpyDtoHAsync_v2(to.cast(), from.0, bytes, pointer(stream))
        })
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
}
