//! The CUDA part of `rigel doctor`'s report.

use std::path::PathBuf;

use super::library;
use crate::base::Result;

/// The state of CUDA on this machine. Each part is a result of its own.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// The driver's library.
    pub driver: Result<PathBuf>,
    /// The newest CUDA version that the driver supports (`13.0`).
    pub version: Result<String>,
    /// The number of devices.
    pub devices: Result<u32>,
    /// The method by which copies between devices are submitted.
    pub peer_copies: Result<&'static str>,
    /// NVRTC's library.
    pub nvrtc: Result<PathBuf>,
    /// NVRTC's version (`13.0`).
    pub nvrtc_version: Result<String>,
}

/// Checks everything without opening a device.
pub fn status() -> Status {
    Status {
        driver: library::libcuda().map(|library| library.path.clone()),
        version: library::libcuda().map(|library| library.version()),
        devices: library::device_count(),
        peer_copies: library::driver().map(|_| match library::has_batched_copies() {
            true => "one call for all that a device sends",
            false => "a call for each; most drivers of CUDA 13 take one for all that a device sends",
        }),
        nvrtc: library::libnvrtc().map(|library| library.path.clone()),
        nvrtc_version: library::libnvrtc().map(|library| library.version()),
    }
}
