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

pub(super) fn open(emulation: &Emulation) -> Result<Vec<Arc<dyn Driver>>> {
    let shareable = emulation.execution == Execution::Threads;
    if shareable && !cfg!(target_arch = "x86_64") {
        return Err(Error::shape("RIGEL_EMULATED", "execution=threads needs an x86_64 machine"));
    }
    // Reserve generously: ranges may be far larger than the memory that is ever mapped in them.
    let all = emulation.memory_bytes.saturating_mul(emulation.devices as usize);
    // ThreadSanitizer leaves only a small address range to programs.
    let addresses = if shareable { all.saturating_mul(2) } else { all.saturating_mul(16).max(64 << 30) };
    let region = Arc::new(Region::new(addresses.min(1 << 44), emulation.checked && !shareable, shareable)?);
    let driver = Compiler::find().map_or_else(|error| error.to_string(), |compiler| compiler.version);
    let workers = emulation.workers.clamp(1, SETS);
    let device = |ordinal| -> Arc<dyn Driver> {
        Arc::new(Device {
            properties: Properties {
                kind: DeviceKind::Emulated,
                ordinal,
                name: format!("emulated device with {workers} workers"),
                capability: (0, 0),
                multiprocessors: workers as u32,
                warp: WARP as u32,
                max_threads_per_block: MAX_THREADS as u32,
                max_shared_per_block: MAX_SHARED,
                l2_bytes: 8 << 20,
                memory_bytes: emulation.memory_bytes,
                driver: driver.clone(),
            },
            emulation: emulation.clone(),
            memory: Memory::new(format!("emulated:{ordinal}"), emulation.memory_bytes, region.clone()),
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
    Ok((0..emulation.devices).map(device).collect())
}

impl Device {
    pub(super) fn failed(&self, operation: &'static str, detail: impl Into<String>) -> Error {
        Error::Driver { device: format!("emulated:{}", self.properties.ordinal), operation, detail: detail.into() }
    }

    /// Fails if the device is lost.
    pub(super) fn answers(&self, operation: &'static str) -> Result<()> {
        match self.emulation.lost_after {
            Some(most) if self.launches.load(Ordering::Relaxed) > most => Err(Error::DeviceLost {
                device: format!("emulated:{}", self.properties.ordinal),
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
