//! The report in JSON.

use serde::Serialize;

use super::ceilings::Ceilings;
use super::measure::Row;
use crate::bench::device::DeviceDescription;

/// The version of the format, incremented when a field changes its meaning or is removed.
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
