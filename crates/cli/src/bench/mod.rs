//! `rigel bench`: operations measured against the device's peak rates, and proofs against upstream's.

mod device;
mod faults;
pub mod fuzz;
#[cfg(feature = "full")]
pub mod operations;
#[cfg(not(feature = "full"))]
#[path = "no_operations.rs"]
pub mod operations;
pub mod proofs;
pub mod several;
pub mod soak;

use std::path::Path;
use std::str::FromStr;

use rigel_gpu::{Device, Error, Options, Result, Selector};

/// The size of the workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Well beyond the caches of a GPU; the sizes for which the bars are defined.
    Full,
    /// Takes seconds, even on the emulated device.
    Quick,
}

impl Size {
    pub fn pick<T>(self, full: T, quick: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
        }
    }

    pub fn name(self) -> &'static str {
        self.pick("full", "quick")
    }
}

/// The devices to measure.
#[derive(Clone)]
enum Devices {
    AllCuda,
    Named(Vec<Selector>),
}

impl FromStr for Devices {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "all" {
            return Ok(Self::AllCuda);
        }
        text.split(',').map(|name| name.trim().parse()).collect::<Result<_>>().map(Self::Named)
    }
}

fn open(devices: Option<&Devices>) -> Result<Vec<(Selector, Device)>> {
    let selectors = match devices {
        None => vec![Selector::from_env()?],
        Some(Devices::Named(selectors)) => selectors.clone(),
        Some(Devices::AllCuda) => {
            let devices = Device::all_cuda(&Options::from_env()?)?;
            return Ok((0..).map(Selector::Cuda).zip(devices).collect());
        }
    };
    let open = |selector| match (Device::open(selector), selector) {
        (Err(error @ Error::Unavailable { .. }), Selector::Auto) => {
            eprintln!("note: {error}\nnote: measuring the emulated device instead, with small sizes");
            let selector = Selector::Emulated(0);
            Ok((selector, Device::open(selector)?))
        }
        (opened, _) => Ok((selector, opened?)),
    };
    selectors.into_iter().map(open).collect()
}

/// Prints the names and shapes of cases, a line each or as a JSON array.
fn list(cases: &[(String, String)], json: bool) {
    if json {
        let object = |(name, shape): &(String, String)| serde_json::json!({ "name": name, "shape": shape });
        println!("{}", cases.iter().map(object).collect::<serde_json::Value>());
        return;
    }
    for (name, shape) in cases {
        println!("{}", format!("{name:<44}{shape}").trim_end());
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text)
        .map_err(|error| Error::Io { path: path.display().to_string(), detail: error.to_string() })
}
