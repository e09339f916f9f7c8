//! The prover that committed to preprocessed columns. A proof that reads them must be made with the same devices
//! and parameters.

use rigel_gpu::Device;

use crate::base::error::{Error, Result};
use crate::prover::Prover;
use crate::upstream::config::DeviceConfig;

/// The devices and parameters of the prover that committed to preprocessed columns.
pub(crate) struct Setup {
    /// The devices in the order of their blocks of rows; none for a CPU prover.
    devices: Vec<Device>,
    log_blowup: usize,
    cap_height: usize,
}

impl Setup {
    pub(crate) fn of<SC: DeviceConfig>(prover: &Prover<SC>) -> Self {
        let devices = prover.devices().cloned().collect();
        Self { devices, log_blowup: prover.fri.log_blowup, cap_height: prover.cap_height }
    }

    /// Checks that a proof of `prover` can read what was committed to. The error names `table`, the first one with such
    /// columns, and `setup`, the function to call.
    pub(crate) fn check<SC: DeviceConfig>(&self, prover: &Prover<SC>, table: usize, setup: &str) -> Result<()> {
        let Some(difference) = self.difference(prover) else { return Ok(()) };
        let detail =
            format!("the preprocessed columns were set up by {difference}; call {setup} with this prover");
        Err(Error::Preprocessed { table, detail })
    }

    fn difference<SC: DeviceConfig>(&self, prover: &Prover<SC>) -> Option<String> {
        let here = Self::of(prover);
        if self.log_blowup != here.log_blowup {
            let (found, needed) = (self.log_blowup, here.log_blowup);
            return Some(format!("a prover with a blowup of 2^{found}, this one has 2^{needed}"));
        }
        if self.cap_height != here.cap_height {
            let (found, needed) = (self.cap_height, here.cap_height);
            return Some(format!("a prover with a cap height of {found}, this one has {needed}"));
        }
        // The CPU commits to the columns again.
        if here.devices.is_empty() {
            return None;
        }
        if self.devices.is_empty() {
            return Some("a CPU prover".into());
        }
        let same = |(found, needed): (&Device, &Device)| found.is(needed);
        if self.devices.len() == here.devices.len() && self.devices.iter().zip(&here.devices).all(same) {
            return None;
        }
        let (found, needed) = (names(&self.devices), names(&here.devices));
        let again = if found == needed { ", opened another time" } else { "" };
        Some(format!("a prover with other devices: {found}, this one has {needed}{again}"))
    }
}

/// The number of devices, and their names in order.
fn names(devices: &[Device]) -> String {
    let names: Vec<String> = devices.iter().map(Device::to_string).collect();
    format!("{} ({})", names.len(), names.join(", "))
}
