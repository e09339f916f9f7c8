//! The device that a report is about.

use std::fmt;

use rigel_gpu::{Bytes, Device, Properties};
use serde::Serialize;

use crate::terminal::without_options;

/// A device's name, size and versions, as reports print and write them.
#[derive(Serialize)]
pub struct DeviceDescription {
    /// `cuda:0`.
    pub device: String,
    pub name: String,
    /// Major and minor.
    pub capability: (u32, u32),
    pub multiprocessors: u32,
    pub memory_bytes: usize,
    pub l2_bytes: usize,
    pub driver: String,
    /// The compiler of the kernels.
    pub compiler: String,
}

impl DeviceDescription {
    pub fn new(device: &Device) -> Self {
        let Properties { name, capability, multiprocessors, l2_bytes, memory_bytes, driver, .. } =
            device.properties().clone();
        let compiler = device.compiler().unwrap_or_default();
        let compiler = without_options(&compiler).to_string();
        Self {
            device: device.to_string(),
            name,
            capability,
            multiprocessors,
            memory_bytes,
            l2_bytes,
            driver,
            compiler,
        }
    }
}

/// A one-line description: device, memory and driver.
impl fmt::Display for DeviceDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, multiprocessors, driver, compiler, .. } = self;
        write!(f, "{device}, {multiprocessors} multiprocessors, {}, ", Bytes(self.memory_bytes))?;
        match self.capability {
            (0, 0) => write!(f, "{compiler}"),
            _ => write!(f, "driver {driver}, {compiler}"),
        }
    }
}
