//! Configuration of the emulated device.

use crate::base::{Bytes, Error, Result};

/// Configuration of the emulated device.
///
/// `RIGEL_EMULATED` sets any of the fields by name, separated by commas:
/// `devices=2,memory=1GiB,workers=1,checked=off,order=shuffled:7,execution=threads`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emulation {
    /// Number of devices.
    pub devices: u32,
    /// The memory of each, in bytes. Host memory is only used for pages that are touched.
    pub memory_bytes: usize,
    /// Host threads that run the blocks of a grid; at most 16 are used.
    pub workers: usize,
    /// Whether each load and store is checked against live buffers and shared arrays.
    pub checked: bool,
    /// The order in which the threads of a block run between barriers.
    pub order: ThreadOrder,
    /// The mechanism that runs the threads of a block.
    pub execution: Execution,
    /// The number of launches after which each device is lost: from then on every call fails, as on a GPU that has
    /// failed.
    pub lost_after: Option<u64>,
    /// The number of the device that is lost then; all of them if it is not set.
    pub lost_device: Option<u32>,
}

/// The order in which the threads of a block run between barriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadOrder {
    /// Threads run in the order of their indices.
    Ascending,
    /// Threads run in a new random order in each round, generated from this seed. If a kernel's result depends on
    /// the seed, it lacks a barrier.
    Shuffled(u64),
}

/// The mechanism that runs the threads of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// Threads are fibers, which switch where threads wait for each other.
    Fibers,
    /// Threads are real threads in a process under ThreadSanitizer, which detects data races. Slow.
    Threads,
}

impl Default for Emulation {
    fn default() -> Self {
        Self {
            devices: 1,
            memory_bytes: 8 << 30,
            workers: std::thread::available_parallelism().map_or(1, Into::into),
            checked: true,
            order: ThreadOrder::Ascending,
            execution: Execution::Fibers,
            lost_after: None,
            lost_device: None,
        }
    }
}

impl Emulation {
    /// The default, modified by `RIGEL_EMULATED`.
    pub fn from_env() -> Result<Self> {
        match std::env::var("RIGEL_EMULATED") {
            Ok(text) => Self::parse(&text),
            Err(std::env::VarError::NotPresent) => Ok(Self::default()),
            Err(error) => Err(Error::shape("RIGEL_EMULATED", error.to_string())),
        }
    }

    fn parse(text: &str) -> Result<Self> {
        let mut emulation = Self::default();
        for setting in text.split(',').map(str::trim).filter(|setting| !setting.is_empty()) {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            let understood = match name.trim() {
                "devices" => positive(value).map(|n| emulation.devices = n),
                "memory" => value.parse::<Bytes>().ok().map(|bytes| emulation.memory_bytes = bytes.0),
                "workers" => positive(value).map(|n| emulation.workers = n as usize),
                "checked" => one_of(value, &[("on", true), ("off", false)]).map(|on| emulation.checked = on),
                "order" => order(value).map(|order| emulation.order = order),
                "execution" => one_of(value, &[("fibers", Execution::Fibers), ("threads", Execution::Threads)])
                    .map(|execution| emulation.execution = execution),
                "lost_after" => value.parse().ok().map(|launches| emulation.lost_after = Some(launches)),
                "lost_device" => value.parse().ok().map(|device| emulation.lost_device = Some(device)),
                _ => None,
            };
            understood.ok_or_else(|| {
                Error::shape(
                    "RIGEL_EMULATED",
                    format!(
                        "{setting:?} is unknown; use devices=N, memory=1GiB, workers=N, checked=on|off, \
                         order=ascending|shuffled:SEED, execution=fibers|threads, lost_after=N, lost_device=N, \
                         separated by commas"
                    ),
                )
            })?;
        }
        Ok(emulation)
    }
}

fn one_of<T: Copy>(text: &str, values: &[(&str, T)]) -> Option<T> {
    values.iter().find(|(name, _)| *name == text).map(|(_, value)| *value)
}

fn order(text: &str) -> Option<ThreadOrder> {
    match text.split_once(':') {
        None => one_of(text, &[("ascending", ThreadOrder::Ascending)]),
        Some((kind, seed)) => (kind == "shuffled").then_some(ThreadOrder::Shuffled(seed.parse().ok()?)),
    }
}

fn positive(text: &str) -> Option<u32> {
    text.parse().ok().filter(|&n| n > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_can_be_set() {
        let text = "devices=2, memory=1GiB,workers=3,checked=off,order=shuffled:7,execution=threads,lost_after=9,\
                    lost_device=1";
        let expected = Emulation {
            devices: 2,
            memory_bytes: 1 << 30,
            workers: 3,
            checked: false,
            order: ThreadOrder::Shuffled(7),
            execution: Execution::Threads,
            lost_after: Some(9),
            lost_device: Some(1),
        };
        assert_eq!(Emulation::parse(text).unwrap(), expected);
        assert_eq!(Emulation::parse("").unwrap(), Emulation::default());
        assert_eq!(Emulation::parse("memory=64KiB").unwrap().memory_bytes, 65536);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for text in ["devices=0", "memory=1GB", "memory=", "checked=maybe", "order=shuffled", "fast", "workers=-1"]
        {
            let error = Emulation::parse(text).unwrap_err().to_string();
            assert!(error.contains("RIGEL_EMULATED") && error.contains(text), "{error}");
        }
    }
}
