//! Runs a test on every available device, and programs while calls of the driver fail; reads and writes entries of the
//! cache of compiled kernels.

pub mod chains;
pub mod faults;
pub mod programs;

use std::sync::OnceLock;

use crate::base::{DeviceKind, Error, Result};
use crate::code::{decode_image, encode_image};
use crate::device::{Device, Options, Selector};
use crate::drivers::Image;
use crate::drivers::emulated::Emulation;
use crate::memory::Pooling;
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

/// Whether the [`devices`] take buffers from their arena, and not each from the driver (`RIGEL_POOL=direct`).
///
/// # Panics
/// If an environment variable with an option is wrong.
pub fn are_pooled() -> bool {
    Options::from_env().unwrap_or_else(|error| panic!("{error}")).pooling == Pooling::Arena
}

/// The parts of an entry of the cache: a binary, the kernels' symbols and how they take their parameters.
pub type CacheEntry = (Vec<u8>, Vec<String>, Vec<String>);

/// The bytes of an entry of the cache.
pub fn encode_cache_entry((binary, symbols, signatures): CacheEntry) -> Vec<u8> {
    encode_image(&Image { binary, symbols, signatures })
}

/// The entry of the cache that these bytes are, if they are undamaged.
pub fn decode_cache_entry(bytes: &[u8]) -> Option<CacheEntry> {
    decode_image(bytes).map(|Image { binary, symbols, signatures }| (binary, symbols, signatures))
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

/// The most openings of a GPU by [`groups`]: each context takes some hundred megabytes of its memory.
const MOST_CONTEXTS: u32 = 4;

/// Groups of `count` devices for a test that takes several at once: emulated devices that are peers and, if CUDA is
/// among the [`devices`] and `count` is at most 4, its device opened as often, with a context for each.
///
/// On the emulated device a stream is idle when a call returns, so only the contexts of a GPU show whether work on one
/// device waits for work on another.
pub fn groups(count: u32) -> Result<Vec<Vec<Device>>> {
    let options = Options::from_env()?;
    let mut groups = Vec::new();
    for device in devices()? {
        let properties = device.properties();
        let (kind, ordinal) = (properties.kind, properties.ordinal);
        match kind {
            DeviceKind::Emulated => {
                groups.push(Device::emulated(&Emulation { devices: count, ..Emulation::default() }, &options)?);
            }
            DeviceKind::Cuda if count <= MOST_CONTEXTS => {
                let opening = |context| match context {
                    0 => Selector::Cuda(ordinal),
                    _ => Selector::Again { kind, ordinal, context },
                };
                let open = |context| Device::open_with(opening(context), options.clone());
                groups.push((0..count).map(open).collect::<Result<_>>()?);
            }
            DeviceKind::Cuda => {}
        }
    }
    Ok(groups)
}

/// Devices that only compile ([`Device::compile_only`]), one for each architecture that `RIGEL_CHECK_NVRTC` names
/// (`sm_80,compute_90,syntax_120`); none if it is not set.
///
/// Kernels that are generated for another device are compiled for these too, and fail where they do not compile. So a
/// machine without a GPU finds out whether its proofs would run on one.
pub fn check_compilers() -> Result<&'static [Device]> {
    static OPENED: OnceLock<Result<Vec<Device>>> = OnceLock::new();
    let opened = OPENED.get_or_init(|| {
        let names = std::env::var("RIGEL_CHECK_NVRTC").unwrap_or_default();
        let options = Options::from_env()?;
        let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.map(|name| Device::compile_only(name, &options)).collect()
    });
    opened.as_deref().map_err(Clone::clone)
}
