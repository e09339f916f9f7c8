//! One table of a batch.

use crate::columns::trace::Trace;
use crate::upstream::config::DeviceConfig;

/// One table of a batch.
#[derive(Debug)]
pub struct Instance<'a, SC: DeviceConfig, A> {
    /// The table's AIR.
    pub air: &'a A,
    /// The table's trace, on the host or on the device.
    pub trace: Trace<'a, SC::Value>,
    /// The table's public values.
    pub public_values: Vec<SC::Value>,
}

impl<'a, SC: DeviceConfig, A> Instance<'a, SC, A> {
    /// A table.
    pub fn new(air: &'a A, trace: impl Into<Trace<'a, SC::Value>>, public_values: Vec<SC::Value>) -> Self {
        Self { air, trace: trace.into(), public_values }
    }
}
