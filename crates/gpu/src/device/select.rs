//! Device selection.

use std::fmt;
use std::str::FromStr;

use super::{Device, Options};
use crate::base::{DeviceKind, Error, Properties, Result};
use crate::drivers::emulated::{self, Emulation};
use crate::drivers::{Driver, cuda};

/// Selects a device: `auto`, `cuda:N`, `emulated`, `emulated:N` or `none`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Selector {
    /// The first CUDA device.
    #[default]
    Auto,
    /// The CUDA device with this number.
    Cuda(u32),
    /// The emulated device with this number.
    Emulated(u32),
    /// No device.
    None,
}

impl Selector {
    /// Parses `RIGEL_DEVICE`; `auto` if it is not set.
    pub fn from_env() -> Result<Self> {
        match std::env::var("RIGEL_DEVICE") {
            Ok(text) => text.parse(),
            Err(_) => Ok(Self::Auto),
        }
    }
}

impl FromStr for Selector {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = || Error::Selector(text.to_string());
        let (kind, number) = match text.split_once(':') {
            Some((kind, number)) => (kind, Some(number.parse::<u32>().map_err(|_| unknown())?)),
            None => (text, None),
        };
        match (kind, number) {
            ("auto" | "", None) => Ok(Self::Auto),
            ("none", None) => Ok(Self::None),
            ("cuda", number) => Ok(Self::Cuda(number.unwrap_or(0))),
            ("emulated", number) => Ok(Self::Emulated(number.unwrap_or(0))),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
            Self::Emulated(number) => write!(f, "emulated:{number}"),
            Self::None => f.write_str("none"),
        }
    }
}

impl Device {
    /// Opens the device that `RIGEL_DEVICE` selects, with options from the environment.
    pub fn from_env() -> Result<Self> {
        Self::open(Selector::from_env()?)
    }

    /// Opens a device, with options from the environment.
    pub fn open(selector: Selector) -> Result<Self> {
        Self::open_with(selector, Options::from_env()?)
    }

    /// Opens a device.
    pub fn open_with(selector: Selector, options: Options) -> Result<Self> {
        let driver = match selector {
            Selector::None => return Err(Error::Disabled),
            Selector::Auto => cuda::open(0)?,
            Selector::Cuda(number) => cuda::open(number)?,
            Selector::Emulated(number) => {
                let mut emulation = Emulation::from_env()?;
                emulation.devices = emulation.devices.max(1);
                let count = emulation.devices;
                let drivers = emulated::open(&emulation)?;
                drivers.into_iter().nth(number as usize).ok_or(Error::NoSuchDevice {
                    kind: DeviceKind::Emulated,
                    ordinal: number,
                    count,
                })?
            }
        };
        Ok(Self::with_driver(driver, options))
    }

    /// Opens emulated devices that are peers of each other.
    pub fn emulated(emulation: &Emulation, options: &Options) -> Result<Vec<Self>> {
        let drivers = emulated::open(emulation)?;
        Ok(drivers.into_iter().map(|driver| Self::with_driver(driver, options.clone())).collect())
    }

    /// A device that only compiles, for the architecture `sm_90` (say), without a GPU: whatever is compiled on it is in
    /// the cache for GPUs of that architecture. It needs NVRTC alone. With `compute_90` (to PTX) or
    /// `syntax_90` (not even that) it only checks that code compiles, which is quicker, and nothing is kept.
    pub fn compile_only(architecture: &str, options: &Options) -> Result<Self> {
        let architecture: cuda::Architecture = architecture.parse()?;
        let mut options = options.clone();
        if !matches!(architecture, cuda::Architecture::Machine(_)) {
            options.cache = None;
        }
        Ok(Self::with_driver(cuda::compile_only::open(architecture)?, options))
    }

    /// Opens every CUDA device of the machine.
    pub fn all_cuda(options: &Options) -> Result<Vec<Self>> {
        (0..cuda::count()?).map(|n| Self::open_with(Selector::Cuda(n), options.clone())).collect()
    }

    /// The properties of every CUDA device of the machine; empty if CUDA is not available.
    pub fn list() -> Vec<Properties> {
        let open = |n| cuda::open(n).map(|driver| Driver::properties(&*driver).clone());
        (0..cuda::count().unwrap_or(0)).filter_map(|n| open(n).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_read_and_printed() {
        for text in ["auto", "cuda:0", "cuda:9", "emulated:1", "none"] {
            assert_eq!(text.parse::<Selector>().unwrap().to_string(), text);
        }
        assert_eq!("cuda".parse::<Selector>().unwrap(), Selector::Cuda(0));
        for text in ["gpu", "cuda:x", "cuda:-1", "none:1", "auto:0", "cuda:0:1"] {
            let error = text.parse::<Selector>().unwrap_err().to_string();
            assert!(error.contains("cuda:N"), "{error}");
        }
    }
}
