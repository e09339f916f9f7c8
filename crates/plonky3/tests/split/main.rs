//! Proofs that several devices make together, against upstream's, byte for byte.
//!
//! The devices are opened by each test, since it takes several at once: emulated ones, and a GPU as often, where there
//! is one.

mod air;
#[path = "../device/airs.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod airs;
mod batches;
#[path = "../device/configs.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod configs;
mod memory;
mod proofs;
mod refused;
#[path = "../device/support.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod support;
#[path = "../device/tables.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod tables;

use rigel_gpu::{Device, Emulation, Options};
use rigel_plonky3::{DeviceConfig, Prover};

use configs::Fri;

/// Emulated devices that are peers of each other.
fn devices(count: u32) -> Vec<Device> {
    let emulation = Emulation { devices: count, ..Emulation::default() };
    Device::emulated(&emulation, &Options::from_env().unwrap()).unwrap()
}

fn over<SC: DeviceConfig>(devices: &[Device], config: &SC, fri: Fri) -> Prover<SC> {
    Prover::over(devices, config.clone(), &fri.parameters(()), fri.cap_height).unwrap()
}
