//! Loaded modules and their kernels.

use std::collections::HashMap;
use std::sync::Arc;

use super::cache::Cache;
use super::shape::{LaunchPolicy, Shape};
use super::source::Source;
use crate::base::background::{self, Urgent};
use crate::base::{Error, Lock, Result};
use crate::drivers::{Driver, Function, Occupancy, Parameter, Raw, kernel_number};
use crate::memory::Core;
use crate::queue::{Resource, Usage};

/// A source that is compiled for a device and loaded on it.
#[derive(Clone)]
pub struct Module {
    loaded: Arc<Loaded>,
}

/// The driver's module and its kernels. It is unloaded once the last reference is dropped and no work uses it.
pub(crate) struct Loaded {
    core: Arc<Core>,
    policy: Arc<Lock<LaunchPolicy>>,
    module: Option<Unload>,
    usage: Lock<Usage>,
    name: String,
    kernels: HashMap<String, Arc<Entry>>,
}

/// Unloads a module when dropped.
struct Unload {
    driver: Arc<dyn Driver>,
    raw: Raw,
}

impl Drop for Unload {
    fn drop(&mut self) {
        self.driver.unload(self.raw);
    }
}

pub(super) struct Entry {
    expression: String,
    /// A number that no other kernel of this process has or had.
    number: u64,
    pub(super) function: Function,
    occupancy: Lock<HashMap<u32, Occupancy>>,
}

impl Loaded {
    /// Compiles (or finds in the cache) and loads a source.
    pub(crate) fn new(
        core: &Arc<Core>,
        policy: &Arc<Lock<LaunchPolicy>>,
        cache: &Cache,
        source: &Source,
        key: &str,
    ) -> Result<Self> {
        let driver = &core.driver;
        let image = cache.get_or_compile(key, || {
            let _urgent = Urgent::new();
            let image = driver.compile(&source.unit);
            background::after_compiling();
            image
        })?;
        let name = source.unit.name.clone();
        let module = Unload { raw: driver.load(&name, &image)?, driver: driver.clone() };
        let mut kernels = HashMap::new();
        for (expression, symbol) in source.unit.kernels.iter().zip(&image.symbols) {
            let function = driver.function(module.raw, symbol, expression)?;
            let entry = Entry {
                expression: expression.clone(),
                number: kernel_number(),
                function,
                occupancy: Lock::default(),
            };
            kernels.insert(expression.clone(), Arc::new(entry));
        }
        let (core, policy, usage) = (core.clone(), policy.clone(), Lock::default());
        Ok(Self { core, policy, module: Some(module), usage, name, kernels })
    }
}

impl Resource for Loaded {
    fn usage(&self) -> &Lock<Usage> {
        &self.usage
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            self.core.retire(Box::new(module), std::mem::take(&mut self.usage.get_mut().uses));
        }
    }
}

impl Module {
    pub(crate) fn new(loaded: Arc<Loaded>) -> Self {
        Self { loaded }
    }

    /// The source's name.
    pub fn name(&self) -> &str {
        &self.loaded.name
    }

    /// The kernel with this name expression, as given to [`Source::kernel`].
    pub fn kernel(&self, expression: &str) -> Result<Kernel> {
        let entry = self.loaded.kernels.get(expression).ok_or_else(|| {
            let mut known: Vec<_> = self.loaded.kernels.keys().map(String::as_str).collect();
            known.sort_unstable();
            Error::NoSuchKernel {
                module: self.loaded.name.clone(),
                kernel: expression.into(),
                known: if known.is_empty() { "none".into() } else { known.join(", ") },
            }
        })?;
        Ok(Kernel { loaded: self.loaded.clone(), entry: entry.clone() })
    }
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Module({} on {})", self.loaded.name, self.loaded.core)
    }
}

/// A function that runs on the device, once for each thread of a grid.
#[derive(Clone)]
pub struct Kernel {
    loaded: Arc<Loaded>,
    entry: Arc<Entry>,
}

/// The resources that a compiled kernel uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Registers per thread (0 on the emulated device).
    pub registers: u32,
    /// Bytes of local memory per thread: spills, and arrays that do not fit in registers.
    pub local: u32,
    /// Bytes of static shared memory per block.
    pub shared: u32,
    /// Maximum number of threads in a block.
    pub max_threads: u32,
}

impl Kernel {
    /// The name expression passed to [`Module::kernel`].
    pub fn name(&self) -> &str {
        &self.entry.expression
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.loaded.core
    }

    pub(crate) fn loaded(&self) -> &Arc<Loaded> {
        &self.loaded
    }

    pub(crate) fn number(&self) -> u64 {
        self.entry.number
    }

    pub(crate) fn function(&self) -> &Function {
        &self.entry.function
    }

    /// The kernel's parameters.
    pub fn parameters(&self) -> &[Parameter] {
        &self.entry.function.parameters
    }

    /// The registers and memory it uses.
    pub fn resources(&self) -> Resources {
        let function = &self.entry.function;
        Resources {
            registers: function.registers,
            local: function.local,
            shared: function.static_shared,
            max_threads: function.max_threads,
        }
    }

    /// One thread for each of `items`, in blocks of the size that the device's launch policy gives.
    pub fn cover(&self, items: usize) -> Result<Shape> {
        Shape::cover(items, self.threads(0)?)
    }

    /// The shape with enough blocks to fill the device, but no more than needed to cover `items`; for kernels with
    /// a grid-stride loop.
    pub fn fill(&self, items: usize) -> Result<Shape> {
        let threads = self.threads(0)?;
        let full = self.occupancy(0)?;
        let resident = (full.blocks * full.threads).div_ceil(threads);
        let needed = items.div_ceil(threads as usize);
        Ok(Shape::new(needed.min(resident as usize) as u32, threads))
    }

    /// The size of a block under the device's launch policy, with `shared` bytes of dynamic shared memory.
    pub fn threads(&self, shared: u32) -> Result<u32> {
        let policy = *self.loaded.policy.lock();
        let threads = match policy {
            LaunchPolicy::Fixed(threads) => threads.min(self.entry.function.max_threads),
            LaunchPolicy::Occupancy => self.occupancy(shared)?.threads,
        };
        Ok(threads.max(1))
    }

    fn occupancy(&self, shared: u32) -> Result<Occupancy> {
        let mut known = self.entry.occupancy.lock();
        if let Some(&found) = known.get(&shared) {
            return Ok(found);
        }
        let found = self.core().driver.occupancy(self.entry.function.raw, shared)?;
        known.insert(shared, found);
        Ok(found)
    }
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kernel({} on {})", self.name(), self.core())
    }
}
