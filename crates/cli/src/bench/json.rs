//! The report in JSON.

use std::fmt;

use rigel_gpu::{Bytes, Device, Properties};
use serde::Serialize;

use super::ceilings::Ceilings;
use super::measure::{Row, Size};
use crate::terminal::without_options;

/// Incremented when a field changes its meaning or is removed.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
pub struct Document {
    pub schema: u32,
    /// Rigel's version.
    pub rigel: &'static str,
    pub reports: Vec<Report>,
}

/// The measurements on one device.
#[derive(Serialize)]
pub struct Report {
    pub device: DeviceDescription,
    /// `full` or `quick`.
    pub size: &'static str,
    /// The number of measurements per median.
    pub repeat: usize,
    pub ceilings: Ceilings,
    pub rows: Vec<Row>,
}

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

impl Document {
    pub fn new(reports: Vec<Report>) -> Self {
        Self { schema: SCHEMA, rigel: env!("CARGO_PKG_VERSION"), reports }
    }

    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("the report holds strings and finite numbers");
        text.push('\n');
        text
    }
}

impl Size {
    pub fn name(self) -> &'static str {
        self.pick("full", "quick")
    }
}
