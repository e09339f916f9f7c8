//! An emulated device.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::compiler::Compiler;
use super::emulation::{Emulation, Execution};
use super::fiber::SETS;
use super::graph::{Graph, Stream};
use super::handles::Handles;
use super::memory::Memory;
use super::module::{Kernel, Module};
use super::pool::Pool;
use super::queue::Event;
use super::region::Region;
use super::runtime::{MAX_THREADS, WARP};
use crate::base::{DeviceKind, Error, Lock, Properties, Result};
use crate::drivers::{BlasDriver, Driver};

/// Maximum shared memory of a block, as on an H100.
pub(super) const MAX_SHARED: u32 = 227 << 10;

pub(super) struct Device {
    pub(super) properties: Properties,
    pub(super) emulation: Emulation,
    pub(super) memory: Memory,
    pub(super) pool: Pool,
    /// One grid at a time.
    pub(super) launching: Lock<()>,
    /// Launches so far.
    pub(super) launches: AtomicU64,
    pub(super) streams: Handles<Lock<Stream>>,
    pub(super) events: Handles<Event>,
    pub(super) modules: Handles<Arc<Module>>,
    pub(super) kernels: Handles<Arc<Kernel>>,
    pub(super) graphs: Handles<Graph>,
    pub(super) executables: Handles<Lock<Graph>>,
}

/// Opens the devices with these numbers, each with the number of its context.
pub(super) fn open(emulation: &Emulation, devices: &[(u32, u32)]) -> Result<Vec<Arc<dyn Driver>>> {
    let shareable = emulation.execution == Execution::Threads;
    if shareable && !cfg!(target_arch = "x86_64") {
        return Err(Error::shape("RIGEL_EMULATED", "execution=threads needs an x86_64 machine"));
    }
    // Reserve generously: ranges may be far larger than the memory that is ever mapped in them.
    let all = emulation.memory_bytes.saturating_mul(devices.len());
    // ThreadSanitizer leaves only a small address range to programs.
    let addresses = if shareable { all.saturating_mul(2) } else { all.saturating_mul(16).max(64 << 30) };
    let region = Arc::new(Region::new(addresses.min(1 << 44), emulation.checked && !shareable, shareable)?);
    let driver = Compiler::find().map_or_else(|error| error.to_string(), |compiler| compiler.version);
    let workers = emulation.workers.clamp(1, SETS);
    let device = |&(ordinal, context): &(u32, u32)| -> Arc<dyn Driver> {
        let properties = Properties {
            kind: DeviceKind::Emulated,
            ordinal,
            context,
            numa_node: None,
            name: format!("emulated device with {workers} workers"),
            capability: (0, 0),
            multiprocessors: workers as u32,
            warp: WARP as u32,
            max_threads_per_block: MAX_THREADS as u32,
            max_shared_per_block: MAX_SHARED,
            l2_bytes: 8 << 20,
            memory_bytes: emulation.memory_bytes,
            driver: driver.clone(),
        };
        Arc::new(Device {
            memory: Memory::new(properties.to_string(), emulation.memory_bytes, region.clone()),
            properties,
            emulation: emulation.clone(),
            pool: Pool::new(workers - 1),
            launching: Lock::default(),
            launches: AtomicU64::new(0),
            streams: Handles::new("stream"),
            events: Handles::new("event"),
            modules: Handles::new("module"),
            kernels: Handles::new("kernel"),
            graphs: Handles::new("graph"),
            executables: Handles::new("executable graph"),
        })
    };
    Ok(devices.iter().map(device).collect())
}

impl Device {
    pub(super) fn failed(&self, operation: &'static str, detail: impl Into<String>) -> Error {
        Error::Driver { device: self.properties.to_string(), operation, detail: detail.into() }
    }

    /// Fails if the device is lost.
    pub(super) fn answers(&self, operation: &'static str) -> Result<()> {
        let is_meant = self.emulation.lost_device.is_none_or(|device| device == self.properties.ordinal);
        match self.emulation.lost_after {
            Some(most) if is_meant && self.launches.load(Ordering::Relaxed) > most => Err(Error::DeviceLost {
                device: self.properties.to_string(),
                operation,
                detail: format!("it was configured to be lost after {most} launches"),
            }),
            _ => Ok(()),
        }
    }
}

impl Driver for Device {
    fn properties(&self) -> &Properties {
        &self.properties
    }
}

impl BlasDriver for Device {}
