//! Devices for tests: what runs on one should run on all.

use crate::base::{Error, Result};
use crate::device::{Device, Selector};
use crate::work::Stream;

/// The devices to test on: the emulated one and, where CUDA is available, its first. `RIGEL_TEST_DEVICES`
/// (`emulated`, `cuda:0`, or several with commas) names others.
pub fn devices() -> Result<Vec<Device>> {
    match std::env::var("RIGEL_TEST_DEVICES").ok().filter(|text| !text.is_empty()) {
        Some(names) => names.split(',').map(|name| Device::open(name.trim().parse()?)).collect(),
        None => {
            let emulated = Device::open(Selector::Emulated(0))?;
            // A machine without CUDA has nothing to test there; a GPU that does not open is a failure.
            let cuda = match Device::open(Selector::Auto) {
                Ok(device) => Some(device),
                Err(Error::Unavailable { .. }) => None,
                Err(error) => return Err(error),
            };
            Ok(std::iter::once(emulated).chain(cuda).collect())
        }
    }
}

/// Runs a test on the compute stream of each of the [`devices`].
///
/// # Panics
/// If a device can't be opened, or work on its stream failed.
pub fn on_each_device(test: impl Fn(&Stream)) {
    for device in devices().unwrap_or_else(|error| panic!("{error}")) {
        let stream = device.compute().unwrap_or_else(|error| panic!("{device}: {error}"));
        test(&stream);
        stream.synchronize().unwrap_or_else(|error| panic!("{device}: {error}"));
    }
}
