//! Device selection.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{Device, Options};
use crate::base::{DeviceKind, Error, Properties, Result};
use crate::drivers::emulated::{self, Emulation};
use crate::drivers::{Driver, cuda};

/// Selects a device: `auto`, `cuda:N`, `cuda:N#K`, `emulated`, `emulated:N`, `emulated:N#K` or `none`. For several see
/// [`Selectors`].
///
/// `cuda:N#K` opens a GPU once more, with a context of its own: contexts take turns on the GPU and share its memory,
/// but copies and events between them are those of different devices, so one GPU can stand for several. `emulated:N#K`
/// is one more emulated device, with memory of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Selector {
    /// The first CUDA device.
    #[default]
    Auto,
    /// The CUDA device with this number.
    Cuda(u32),
    /// The emulated device with this number.
    Emulated(u32),
    /// A device that is opened once more.
    Again {
        /// CUDA or emulated.
        kind: DeviceKind,
        /// The device's number.
        ordinal: u32,
        /// The number of this opening, at least 1.
        context: u32,
    },
    /// Selects no device.
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
        if text == "all" || text.contains(',') {
            let detail = "one device is used here; name one, and several only where a list is taken".into();
            return Err(Error::Selectors { devices: text.into(), detail });
        }
        let (name, context) = match text.split_once('#') {
            Some((name, context)) => (name, context.parse::<u32>().map_err(|_| unknown())?),
            None => (text, 0),
        };
        let (kind, number) = match name.split_once(':') {
            Some((kind, number)) => (kind, Some(number.parse::<u32>().map_err(|_| unknown())?)),
            None => (name, None),
        };
        let again = |kind| Ok(Self::Again { kind, ordinal: number.unwrap_or(0), context });
        match (kind, number) {
            ("cuda", _) if context > 0 => again(DeviceKind::Cuda),
            ("emulated", _) if context > 0 => again(DeviceKind::Emulated),
            _ if text.contains('#') && !matches!(kind, "cuda" | "emulated") => Err(unknown()),
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
            Self::Again { kind, ordinal, context } => write!(f, "{kind}:{ordinal}#{context}"),
            Self::None => f.write_str("none"),
        }
    }
}

/// Selects one device or several of one kind: the name of a [`Selector`], a list of names with commas between them
/// (`cuda:0,cuda:1`), or `all`, which is every CUDA device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selectors(Listed);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Listed {
    All,
    /// One or more selectors. Several are of one kind and differ.
    These(Vec<Selector>),
}

/// The most emulated devices of a list, and the bound of their numbers.
const MOST_EMULATED: u32 = 64;

impl Selectors {
    /// Parses `RIGEL_DEVICE`; `auto` if it is not set.
    pub fn from_env() -> Result<Self> {
        match std::env::var("RIGEL_DEVICE") {
            Ok(text) if !text.is_empty() => text.parse(),
            _ => Ok(Selector::Auto.into()),
        }
    }

    /// The selector, if one device is named by itself.
    pub fn single(&self) -> Option<Selector> {
        match &self.0 {
            Listed::These(selectors) if selectors.len() == 1 => Some(selectors[0]),
            _ => None,
        }
    }

    /// Opens the devices, at least one, with options from the environment.
    pub fn open(&self) -> Result<Vec<Device>> {
        self.open_with(&Options::from_env()?)
    }

    /// Opens the devices, at least one, in the order of the list. Emulated devices of a list are peers of each other,
    /// and there are as many as it names.
    pub fn open_with(&self, options: &Options) -> Result<Vec<Device>> {
        let selectors = match &self.0 {
            Listed::All => return Device::all_cuda(options),
            Listed::These(selectors) => selectors,
        };
        let emulated: Vec<(u32, u32)> = selectors.iter().filter_map(emulated_opening).collect();
        if selectors.len() == 1 || emulated.is_empty() {
            return selectors.iter().map(|&selector| Device::open_with(selector, options.clone())).collect();
        }
        if let Some(&(ordinal, _)) = emulated.iter().find(|(ordinal, _)| *ordinal >= MOST_EMULATED) {
            return Err(Error::NoSuchDevice { kind: DeviceKind::Emulated, ordinal, count: MOST_EMULATED });
        }
        if emulated.len() > MOST_EMULATED as usize {
            let detail = format!("{} emulated devices; name at most {MOST_EMULATED}", emulated.len());
            return Err(Error::Selectors { devices: self.to_string(), detail });
        }
        let drivers = emulated::open(&Emulation::from_env()?, &emulated)?;
        Ok(drivers.into_iter().map(|driver| Device::with_driver(driver, options.clone())).collect())
    }
}

/// The number and the context of an emulated device.
fn emulated_opening(selector: &Selector) -> Option<(u32, u32)> {
    match *selector {
        Selector::Emulated(ordinal) => Some((ordinal, 0)),
        Selector::Again { kind: DeviceKind::Emulated, ordinal, context } => Some((ordinal, context)),
        _ => None,
    }
}

impl From<Selector> for Selectors {
    fn from(selector: Selector) -> Self {
        Self(Listed::These(vec![selector]))
    }
}

impl FromStr for Selectors {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |detail: String| Err(Error::Selectors { devices: text.into(), detail });
        let names: Vec<&str> = text.split(',').map(str::trim).collect();
        if names == ["all"] {
            return Ok(Self(Listed::All));
        }
        if names.contains(&"") {
            return wrong("a name is empty; write a list as cuda:0,cuda:1, or all for every GPU".into());
        }
        if let Some(alone) = names.iter().find(|name| ["all", "auto", "none"].contains(name))
            && names.len() > 1
        {
            return wrong(format!("{alone} stands alone; a list names each device, as cuda:0,cuda:1"));
        }
        let selectors = names.iter().map(|name| name.parse()).collect::<Result<Vec<Selector>>>()?;
        for (i, selector) in selectors.iter().enumerate() {
            if selectors[..i].contains(selector) {
                return wrong(format!(
                    "{selector} is named twice; {} opens it once more",
                    once_more(&selectors[..i])
                ));
            }
        }
        let emulated = selectors.iter().filter_map(emulated_opening).count();
        if emulated != 0 && emulated != selectors.len() {
            return wrong("they are of different kinds; name GPUs, or emulated devices, but not both".into());
        }
        Ok(Self(Listed::These(selectors)))
    }
}

/// The first opening of the last of these devices that none of them is.
fn once_more(selectors: &[Selector]) -> String {
    let name = selectors.last().map(ToString::to_string).unwrap_or_default();
    let name = name.split('#').next().unwrap_or_default();
    let taken =
        |context: &u32| selectors.iter().any(|selector| selector.to_string() == format!("{name}#{context}"));
    let context = (1..).find(|context| !taken(context)).unwrap_or(1);
    format!("{name}#{context}")
}

impl fmt::Display for Selectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Listed::All => f.write_str("all"),
            Listed::These(selectors) => {
                let names: Vec<String> = selectors.iter().map(ToString::to_string).collect();
                f.write_str(&names.join(","))
            }
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
        Ok(Self::with_driver(driver_of(selector)?, options))
    }

    /// Opens emulated devices that are peers of each other.
    pub fn emulated(emulation: &Emulation, options: &Options) -> Result<Vec<Self>> {
        let devices: Vec<_> = (0..emulation.devices).map(|ordinal| (ordinal, 0)).collect();
        let drivers = emulated::open(emulation, &devices)?;
        Ok(drivers.into_iter().map(|driver| Self::with_driver(driver, options.clone())).collect())
    }

    /// A device that only compiles, for the architecture `sm_90` (say), without a GPU: whatever is compiled on it is in
    /// the cache for GPUs of that architecture. It needs NVRTC alone. With `compute_90` (to PTX) or `syntax_90` (not
    /// even that) it only checks that code compiles, which is quicker, and the cache keeps no code but that it did.
    pub fn compile_only(architecture: &str, options: &Options) -> Result<Self> {
        let driver = cuda::compile_only::open(architecture.parse()?)?;
        Ok(Self::with_driver(driver, options.clone()))
    }

    /// Opens every CUDA device of the machine.
    pub fn all_cuda(options: &Options) -> Result<Vec<Self>> {
        (0..cuda::count()?).map(|n| Self::open_with(Selector::Cuda(n), options.clone())).collect()
    }

    /// The properties of every CUDA device of the machine; empty if CUDA is not available.
    pub fn list() -> Vec<Properties> {
        let open = |n| cuda::open(n, 0).map(|driver| Driver::properties(&*driver).clone());
        (0..cuda::count().unwrap_or(0)).filter_map(|n| open(n).ok()).collect()
    }
}

/// The driver of a device.
pub(crate) fn driver_of(selector: Selector) -> Result<Arc<dyn Driver>> {
    match selector {
        Selector::None => Err(Error::Disabled),
        Selector::Auto => cuda::open(0, 0),
        Selector::Cuda(number) => cuda::open(number, 0),
        Selector::Again { kind: DeviceKind::Cuda, ordinal, context } => cuda::open(ordinal, context),
        Selector::Emulated(ordinal) => emulated_device(ordinal, 0),
        Selector::Again { kind: DeviceKind::Emulated, ordinal, context } => emulated_device(ordinal, context),
    }
}

/// An emulated device by itself, of the number that `RIGEL_EMULATED` sets.
fn emulated_device(ordinal: u32, context: u32) -> Result<Arc<dyn Driver>> {
    let emulation = Emulation::from_env()?;
    let no_such = Error::NoSuchDevice { kind: DeviceKind::Emulated, ordinal, count: emulation.devices };
    if ordinal >= emulation.devices {
        return Err(no_such);
    }
    emulated::open(&emulation, &[(ordinal, context)])?.pop().ok_or(no_such)
}

/// Checks that devices can make one proof together: at least one, a power of two of them, of one kind, each given once.
/// The error says what is wrong and what to do; callers add what they were asked for.
pub fn check_team(devices: &[Device]) -> std::result::Result<(), String> {
    let Some(first) = devices.first() else {
        return Err("no devices given; a proof needs at least one".into());
    };
    if !devices.len().is_power_of_two() {
        let (count, less) = (devices.len(), 1usize << devices.len().ilog2());
        return Err(format!("{count} devices; a proof is shared out over a power of two of them, such as {less}"));
    }
    for (k, device) in devices.iter().enumerate() {
        if device.kind() != first.kind() {
            return Err(format!("{device} and {first} are of different kinds; give devices of one kind"));
        }
        if devices[..k].iter().any(|other| other.is(device) || other.to_string() == device.to_string()) {
            return Err(format!("{device} is given twice; give each device once"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_read_and_printed() {
        for text in ["auto", "cuda:0", "cuda:9", "cuda:0#1", "emulated:1", "emulated:1#2", "none"] {
            assert_eq!(text.parse::<Selector>().unwrap().to_string(), text);
        }
        assert_eq!("cuda".parse::<Selector>().unwrap(), Selector::Cuda(0));
        for text in
            ["gpu", "cuda:x", "cuda:-1", "none:1", "auto:0", "cuda:0:1", "cuda:0#", "cuda:0#x", "auto#1", "none#0"]
        {
            let error = text.parse::<Selector>().unwrap_err().to_string();
            assert!(error.contains("cuda:N") && error.contains("cuda:0#1"), "{error}");
        }
        for text in ["all", "cuda:0,cuda:1"] {
            let error = text.parse::<Selector>().unwrap_err().to_string();
            assert!(error.contains("one device is used here"), "{error}");
        }
    }

    #[test]
    fn lists_of_emulated_devices_are_bounded() {
        let names: Vec<String> = (1..=65).map(|context| format!("emulated:0#{context}")).collect();
        let open = |names: &[String]| names.join(",").parse::<Selectors>().unwrap().open().map(|_| ());
        let error = open(&names).unwrap_err().to_string();
        assert!(error.contains("65 emulated devices; name at most 64"), "{error}");
        let error = open(&["emulated:0".into(), "emulated:64".into()]).unwrap_err().to_string();
        assert!(error.contains("emulated:64 does not exist"), "{error}");
    }

    #[test]
    fn lists_are_read_and_printed() {
        for text in ["all", "auto", "none", "cuda:0,cuda:1", "cuda:0,cuda:0#1,cuda:0#2", "emulated:0,emulated:3"] {
            assert_eq!(text.parse::<Selectors>().unwrap().to_string(), text);
        }
        assert_eq!("cuda:0, cuda:1".parse::<Selectors>().unwrap().to_string(), "cuda:0,cuda:1");
        assert_eq!("emulated".parse::<Selectors>().unwrap().single(), Some(Selector::Emulated(0)));
        assert_eq!("cuda:0,cuda:1".parse::<Selectors>().unwrap().single(), None);
        for (text, reason) in [
            ("", "a name is empty"),
            ("cuda:0,", "a name is empty"),
            (",", "a name is empty"),
            ("cuda:0,cuda:0", "cuda:0 is named twice; cuda:0#1 opens it once more"),
            ("cuda,cuda:0#1,cuda:0#0", "cuda:0 is named twice; cuda:0#2"),
            ("emulated:1,emulated:1", "emulated:1#1"),
            ("cuda:0,emulated:0", "different kinds"),
            ("cuda:0#1,emulated", "different kinds"),
            ("all,cuda:0", "all stands alone"),
            ("cuda:0,auto", "auto stands alone"),
            ("none,none", "none stands alone"),
            ("cuda:0,gpu", "unknown device"),
        ] {
            let error = text.parse::<Selectors>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text:?}: {error}");
        }
    }
}
