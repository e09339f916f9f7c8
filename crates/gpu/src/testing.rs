//! Runs a test on every available device.

use crate::base::{Error, Result};
use crate::device::{Device, Selector};
use crate::work::Stream;

/// The devices to test on: the emulated device and, if CUDA is available, the first CUDA device.
/// `RIGEL_TEST_DEVICES` (`emulated`, `cuda:0`, or a comma-separated list) overrides this.
pub fn devices() -> Result<Vec<Device>> {
    match std::env::var("RIGEL_TEST_DEVICES").ok().filter(|text| !text.is_empty()) {
        Some(names) => names.split(',').map(|name| Device::open(name.trim().parse()?)).collect(),
        None => {
            let emulated = Device::open(Selector::Emulated(0))?;
            // Skip CUDA on machines without it, but fail if there is a GPU that can't be opened.
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
