//! Compiled code, and launching it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::args::{ArgumentList, Arguments};
use crate::device::{Core, Device, must_own};
use crate::driver::{Function, Occupancy, Raw};
use crate::error::{Error, Result};
use crate::launch::{LaunchPolicy, Shape};
use crate::source::Source;
use crate::stream::Stream;

/// A source compiled for a device and loaded on it.
#[derive(Clone)]
pub struct Module {
    loaded: Arc<Loaded>,
}

/// The driver's module and its kernels, unloaded with the last holder.
pub(crate) struct Loaded {
    core: Arc<Core>,
    raw: Raw,
    name: String,
    kernels: HashMap<String, Arc<Entry>>,
}

struct Entry {
    expression: String,
    function: Function,
    occupancy: Mutex<HashMap<u32, Occupancy>>,
}

impl Loaded {
    /// Compiles (or finds in the cache) and loads a source.
    pub(crate) fn new(device: &Device, source: &Source, key: &str) -> Result<Self> {
        let driver = device.driver();
        let image = device.cache().get_or_compile(key, || driver.compile(&source.unit))?;
        let name = source.unit.name.clone();
        let raw = driver.load(&name, &image)?;
        let mut loaded = Self { core: device.core().clone(), raw, name, kernels: HashMap::new() };
        for (expression, symbol) in source.unit.kernels.iter().zip(&image.symbols) {
            let function = driver.function(raw, symbol, expression)?;
            let entry = Entry { expression: expression.clone(), function, occupancy: Mutex::default() };
            loaded.kernels.insert(expression.clone(), Arc::new(entry));
        }
        Ok(loaded)
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.core.driver.unload(self.raw);
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

/// What the compiler made of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Registers of a thread (0 on the emulated device).
    pub registers: u32,
    /// Bytes of local memory of a thread: spills, and arrays that did not fit registers.
    pub local: u32,
    /// Bytes of static shared memory of a block.
    pub shared: u32,
    /// The most threads a block may have.
    pub max_threads: u32,
}

impl Kernel {
    /// The name expression it was asked for with.
    pub fn name(&self) -> &str {
        &self.entry.expression
    }

    fn core(&self) -> &Arc<Core> {
        &self.loaded.core
    }

    /// The size of each parameter in bytes, where the driver tells.
    pub fn parameters(&self) -> Option<&[usize]> {
        self.entry.function.parameters.as_deref()
    }

    /// Registers and memory it takes.
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

    /// Enough blocks to fill the device, but no more than cover `items`: for kernels that stride over their input.
    pub fn fill(&self, items: usize) -> Result<Shape> {
        let threads = self.threads(0)?;
        let full = self.occupancy(0)?;
        let resident = (full.blocks * full.threads).div_ceil(threads);
        let needed = items.div_ceil(threads as usize);
        Ok(Shape::new(needed.min(resident as usize) as u32, threads))
    }

    /// The size of a block under the device's launch policy, with `shared` bytes of dynamic shared memory.
    pub fn threads(&self, shared: u32) -> Result<u32> {
        match *self.core().launch_policy.lock().expect("no panic while the lock is held") {
            LaunchPolicy::Fixed(threads) => Ok(threads.min(self.entry.function.max_threads)),
            LaunchPolicy::Occupancy => Ok(self.occupancy(shared)?.threads),
        }
    }

    fn occupancy(&self, shared: u32) -> Result<Occupancy> {
        let mut known = self.entry.occupancy.lock().expect("no panic while the lock is held");
        if let Some(&found) = known.get(&shared) {
            return Ok(found);
        }
        let found = self.core().driver.occupancy(self.entry.function.raw, shared)?;
        known.insert(shared, found);
        Ok(found)
    }

    /// Enqueues the kernel over `shape`. A shape without blocks does nothing.
    ///
    /// The number of arguments and the size of each are checked against the kernel's parameters, buffers against
    /// the stream's device. What a kernel does with a pointer can't be checked on a GPU: a wrong one gives wrong
    /// numbers or a lost device, never an invalid Rust value, since device memory holds plain data only.
    pub fn launch(&self, stream: &Stream, shape: Shape, arguments: impl Arguments) -> Result<()> {
        let mut list = ArgumentList::with_room();
        arguments.push_all(&mut list);
        self.check(stream, shape, &list)?;
        if shape.is_empty() {
            return Ok(());
        }
        for block in &list.blocks {
            stream.queue().uses(block);
        }
        self.core().counters.launched();
        // SAFETY: the arguments match the kernel's parameters in number and size, and outlive the call; their
        // buffers stay mapped until the arena sees that this stream is done with them.
        unsafe { self.core().driver.launch(stream.raw(), self.entry.function.raw, shape.grid(), &list.values) }
    }

    fn check(&self, stream: &Stream, shape: Shape, list: &ArgumentList<'_>) -> Result<()> {
        let name = self.name();
        must_own(name, self.core(), stream.device().core())?;
        for block in &list.blocks {
            must_own(name, self.core(), block.device().core())?;
        }
        if let Some(parameters) = &self.entry.function.parameters {
            let wrong = |detail| Err(Error::Arguments { kernel: name.into(), detail });
            if parameters.len() != list.sizes.len() {
                return wrong(format!("takes {} arguments, got {}", parameters.len(), list.sizes.len()));
            }
            let mismatch = (0..parameters.len()).find(|&i| parameters[i] != list.sizes[i]);
            if let Some(i) = mismatch {
                let (wanted, got) = (parameters[i], list.sizes[i]);
                return wrong(format!("argument {i} (counted from 0) has {wanted} bytes, got {got}"));
            }
        }
        if shape.is_empty() {
            return Ok(());
        }
        shape.check(name, &self.entry.function, self.core().driver.properties())
    }
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kernel({} on {})", self.name(), self.core())
    }
}
