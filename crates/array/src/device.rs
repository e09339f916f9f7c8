//! Devices of arrays.

use std::fmt;
use std::str::FromStr;

use rigel_gpu::Lock;
use rigel_gpu::Selector;

use crate::error::{Error, Result};

/// The device that holds an array and runs its operations: the CPU, a GPU, or the emulated device.
///
/// ```
/// use rigel_array::Device;
///
/// assert_eq!(Device::open("cpu")?.to_string(), "cpu");
/// let device = Device::open("emulated")?; // or "cuda:0", or "auto" for the first GPU
/// assert_eq!(device, Device::open("emulated:0")?);
/// # Ok::<(), rigel_array::Error>(())
/// ```
#[derive(Clone)]
pub enum Device {
    /// The host's memory and cores.
    Cpu,
    /// A GPU or the emulated device.
    Gpu(rigel_gpu::Device),
}

/// The open devices. A device is opened once per process, so that its pools are shared.
static OPEN: Lock<Vec<rigel_gpu::Device>> = Lock::new(Vec::new());

impl Device {
    /// The device of this name: `cpu`, `auto` (the first GPU), `cuda:N`, `emulated`, `emulated:N`.
    ///
    /// It never falls back: without a GPU, `cuda:0` and `auto` are errors that say what is missing.
    pub fn open(name: &str) -> Result<Self> {
        if name == "cpu" {
            return Ok(Self::Cpu);
        }
        let name = if name == "cuda" { "cuda:0" } else { name };
        let mut open = OPEN.lock();
        let selector = Selector::from_str(name).map_err(|_| Error::DeviceName(name.to_owned()))?;
        let full = match selector {
            Selector::Auto => "cuda:0".to_owned(),
            Selector::Emulated(ordinal) => format!("emulated:{ordinal}"),
            _ => name.to_owned(),
        };
        if let Some(known) = open.iter().find(|device| device.to_string() == full) {
            return Ok(Self::Gpu(known.clone()));
        }
        let device = rigel_gpu::Device::open(selector)?;
        open.push(device.clone());
        Ok(Self::Gpu(device))
    }

    /// Whether it is the CPU.
    pub fn is_cpu(&self) -> bool {
        matches!(self, Self::Cpu)
    }

    /// Waits for all enqueued work and returns its errors. Does nothing on the CPU.
    pub fn synchronize(&self) -> Result<()> {
        match self {
            Self::Cpu => Ok(()),
            Self::Gpu(device) => Ok(device.synchronize()?),
        }
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cpu, Self::Cpu) => true,
            (Self::Gpu(a), Self::Gpu(b)) => a.is(b),
            _ => false,
        }
    }
}

impl Eq for Device {}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Gpu(device) => device.fmt(f),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({self})")
    }
}

impl From<rigel_gpu::Device> for Device {
    fn from(device: rigel_gpu::Device) -> Self {
        Self::Gpu(device)
    }
}

/// Checks that two operands are on one device.
pub(crate) fn same_device(operation: &'static str, a: &Device, b: &Device) -> Result<()> {
    if a == b {
        return Ok(());
    }
    Err(Error::Devices { operation, first: a.to_string(), second: b.to_string() })
}
