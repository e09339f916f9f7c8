//! The doctor's findings, as `--json` prints them.

use rigel_gpu::{Device, Error, Link, Properties, Result};
use serde::Serialize;

#[derive(Serialize)]
pub struct Report {
    /// Rigel's version.
    pub rigel: &'static str,
    /// The requested device: `auto`, `cuda:0`, …
    pub asked: String,
    /// The device that was examined, if one could be opened.
    pub chosen: Option<String>,
    /// Whether the requested device is usable.
    pub usable: bool,
    pub devices: Vec<DeviceReport>,
    pub cuda: CudaReport,
    pub host_compiler: Finding,
    pub cache: CacheReport,
    pub environment: Vec<Variable>,
    /// A tiny kernel, compiled and run on the chosen device.
    pub kernel_check: Option<Finding>,
    /// Launches that are submitted together, run on the chosen device.
    pub gathered: Option<Finding>,
    pub bandwidths: Vec<Bandwidth>,
    pub peers: Option<Peers>,
    /// Problems that make the requested device unusable.
    pub problems: Vec<String>,
    /// Notes that do not affect usability.
    pub notes: Vec<String>,
}

/// A finding: a fact, or the reason why it was not found and how to fix that.
#[derive(Serialize)]
pub struct Finding {
    pub ok: bool,
    pub detail: String,
    pub advice: Option<String>,
}

impl<T: ToString> From<Result<T>> for Finding {
    fn from(result: Result<T>) -> Self {
        let (ok, detail, advice) = match result {
            Ok(value) => (true, value.to_string(), None),
            Err(Error::Unavailable { reason, advice } | Error::NoCompiler { reason, advice, .. }) => {
                (false, reason, Some(advice))
            }
            Err(error) => (false, error.to_string(), None),
        };
        Self { ok, detail, advice }
    }
}

#[derive(Serialize)]
pub struct DeviceReport {
    /// `cuda:0`, as `--device` takes it.
    pub device: String,
    pub name: String,
    /// `9.0`; `None` for the emulated device.
    pub capability: Option<String>,
    pub multiprocessors: u32,
    pub memory_bytes: usize,
    /// `None` if the device could not be opened.
    pub free_bytes: Option<usize>,
    pub l2_bytes: usize,
    pub driver: String,
}

impl DeviceReport {
    pub fn new(properties: &Properties, device: Option<&Device>) -> Self {
        let (major, minor) = properties.capability;
        Self {
            device: format!("{}:{}", properties.kind, properties.ordinal),
            name: properties.name.clone(),
            capability: (major > 0).then(|| format!("{major}.{minor}")),
            multiprocessors: properties.multiprocessors,
            memory_bytes: properties.memory_bytes,
            free_bytes: device.and_then(|device| device.memory().ok()).map(|memory| memory.free),
            l2_bytes: properties.l2_bytes,
            driver: properties.driver.clone(),
        }
    }
}

#[derive(Serialize)]
pub struct CudaReport {
    pub driver: Finding,
    pub version: Finding,
    pub devices: Finding,
    pub peer_copies: Finding,
    pub nvrtc: Finding,
    pub nvrtc_version: Finding,
    pub cublas: Finding,
}

#[derive(Serialize)]
pub struct CacheReport {
    /// `None` if compiled kernels are not cached.
    pub folder: Option<String>,
    pub entries: usize,
    pub bytes: u64,
    pub writable: bool,
}

#[derive(Serialize)]
pub struct Variable {
    pub name: &'static str,
    pub value: Option<String>,
    /// The meaning of the setting.
    pub meaning: &'static str,
}

#[derive(Serialize)]
pub struct Bandwidth {
    pub way: &'static str,
    pub gigabytes_per_second: f64,
}

#[derive(Serialize)]
pub struct Peers {
    pub devices: Vec<String>,
    /// `links[from][to]`.
    pub links: Vec<Vec<String>>,
    /// `gigabytes_per_second[from][to]`.
    pub gigabytes_per_second: Vec<Vec<f64>>,
}

impl Peers {
    pub fn new(devices: &[Device], links: &[Vec<Link>], rates: &[Vec<f64>]) -> Self {
        Self {
            devices: devices.iter().map(ToString::to_string).collect(),
            links: links.iter().map(|row| row.iter().map(ToString::to_string).collect()).collect(),
            gigabytes_per_second: rates.to_vec(),
        }
    }
}
