//! Copies between host and device.
//!
//! The host's side is pinned memory of ours, so that every copy is asynchronous, and can be part of a graph.

use cudarc::driver::sys;

use super::context::{Cuda, pointer};
use crate::base::Result;
use crate::drivers::{DevicePtr, Raw};

impl Cuda {
    /// # Safety
    ///
    /// As [`Driver::upload`](crate::drivers::Driver::upload).
    pub(super) unsafe fn copy_up(&self, stream: Raw, to: DevicePtr, from: *const u8, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller guarantees both ranges.
        self.call("cuMemcpyHtoDAsync", || unsafe {
            sys::cuMemcpyHtoDAsync_v2(to.0, from.cast(), bytes, pointer(stream))
        })
    }

    /// # Safety
    ///
    /// As [`Driver::download`](crate::drivers::Driver::download).
    pub(super) unsafe fn copy_down(&self, stream: Raw, to: *mut u8, from: DevicePtr, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller guarantees both ranges.
        self.call("cuMemcpyDtoHAsync", || unsafe {
            sys::cuMemcpyDtoHAsync_v2(to.cast(), from.0, bytes, pointer(stream))
        })
    }
}
