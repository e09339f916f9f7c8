//! What `rigel doctor` reports about CUDA.

use std::path::PathBuf;

use super::library;
use crate::base::Result;

/// What of CUDA there is on this machine; each part says for itself what is missing.
#[derive(Clone, Debug)]
pub struct Status {
    /// The driver's library.
    pub driver: Result<PathBuf>,
    /// The newest CUDA that the driver has (`13.0`).
    pub version: Result<String>,
    /// The number of devices.
    pub devices: Result<u32>,
    /// NVRTC's library.
    pub nvrtc: Result<PathBuf>,
    /// NVRTC's version (`13.0`).
    pub nvrtc_version: Result<String>,
}

/// Looks for everything and opens no device.
pub fn status() -> Status {
    Status {
        driver: library::libcuda().map(|library| library.path.clone()),
        version: library::libcuda().map(|library| library.version()),
        devices: library::device_count(),
        nvrtc: library::libnvrtc().map(|library| library.path.clone()),
        nvrtc_version: library::libnvrtc().map(|library| library.version()),
    }
}
