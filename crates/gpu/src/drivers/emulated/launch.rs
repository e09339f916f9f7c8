//! Compiling, loading and launching kernels. The workers run a grid block by block.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::block::{Launch, Worker};
use super::compiler::Compiler;
use super::device::{Device, MAX_SHARED};
use super::emulation::Execution;
use super::fiber::{StackSet, Stacks};
use super::graph::{Argument, Operation};
use super::module::{Code, Entry, Kernel, Library, Module};
use super::race::RaceProgram;
use super::runtime::MAX_THREADS;
use super::signals;
use crate::base::{Error, Result};
use crate::drivers::{CodeDriver, Function, Grid, Image, Occupancy, Raw, Unit};

/// The time for which a launch runs on the caller's thread alone; waking other threads takes about as long.
const ALONE: Duration = Duration::from_micros(50);
/// A grid of more threads is not expected to finish within [`ALONE`].
const SMALL: u64 = 1 << 14;

impl CodeDriver for Device {
    fn compiler(&self) -> Result<String> {
        Ok(Compiler::find()?.identity(self.emulation.checked, self.emulation.execution))
    }

    fn compile(&self, unit: &Unit) -> Result<Image> {
        Compiler::find()?.compile(unit, self.emulation.checked, self.emulation.execution)
    }

    fn load(&self, name: &str, image: &Image) -> Result<Raw> {
        let code = match self.emulation.execution {
            Execution::Fibers => Code::Library(Library::load(name, image, self.memory.region().clone())?),
            Execution::Threads => Code::Program(RaceProgram::load(name, image)?),
        };
        Ok(self.modules.add(Arc::new(Module { name: name.to_owned(), code })))
    }

    fn unload(&self, module: Raw) {
        if let Some(module) = self.modules.remove(module) {
            self.kernels.retain(|kernel| !Arc::ptr_eq(&kernel.module, &module));
        }
    }

    fn function(&self, module: Raw, symbol: &str, expression: &str) -> Result<Function> {
        let module = self.modules.get(module)?;
        let kernel = Kernel::find(&module, symbol, expression)?;
        let parameters = kernel.parameters.clone();
        let raw = self.kernels.add(Arc::new(kernel));
        Ok(Function { raw, parameters, max_threads: MAX_THREADS as u32, registers: 0, static_shared: 0, local: 0 })
    }

    fn occupancy(&self, function: Raw, _shared: u32) -> Result<Occupancy> {
        self.kernels.get(function)?;
        Ok(Occupancy { threads: 256, blocks: self.properties.multiprocessors })
    }

    unsafe fn launch(&self, stream: Raw, function: Raw, grid: Grid, parameters: &[*const c_void]) -> Result<()> {
        let kernel = self.kernels.get(function)?;
        self.check_shape(&kernel, grid, parameters.len())?;
        let values = parameters.iter().zip(&kernel.parameters);
        // SAFETY: guaranteed by the caller.
        let arguments = values.map(|(&at, parameter)| unsafe { Argument::copy(at, parameter.bytes) }).collect();
        // SAFETY: guaranteed by the caller.
        unsafe { self.submit(stream, Operation::Launch { kernel: (*kernel).clone(), grid, arguments }) }
    }
}

impl Device {
    /// # Safety
    ///
    /// Addresses are valid for the operation, and arguments fit the kernel's parameters.
    pub(super) unsafe fn run(&self, operation: &Operation) -> Result<()> {
        if matches!(operation, Operation::Launch { .. }) {
            self.launches.fetch_add(1, Ordering::Relaxed);
        }
        self.answers("running an operation")?;
        match operation {
            Operation::Launch { kernel, grid, arguments } => {
                let pointers: Vec<*const c_void> = arguments.iter().map(Argument::as_ptr).collect();
                // SAFETY: guaranteed by the caller.
                unsafe { self.run_grid(kernel, *grid, &pointers) }
            }
            &Operation::Copy { to, from, bytes } => {
                // SAFETY: guaranteed by the caller; the ranges may overlap.
                unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
                Ok(())
            }
            &Operation::Fill { to, byte, bytes } => {
                // SAFETY: guaranteed by the caller.
                unsafe { std::ptr::write_bytes(to as *mut u8, byte, bytes) };
                Ok(())
            }
            Operation::Event => Ok(()),
        }
    }

    /// # Safety
    ///
    /// `parameters` point to values of the kernel's parameter types, whose addresses are valid for it.
    unsafe fn run_grid(&self, kernel: &Kernel, grid: Grid, parameters: &[*const c_void]) -> Result<()> {
        let _one = self.launching.lock();
        let entry = match (kernel.entry, &kernel.module.code) {
            (Entry::Function(entry), _) => entry,
            (Entry::Number(number), Code::Program(program)) => {
                let values = parameters.iter().zip(&kernel.parameters);
                // SAFETY: guaranteed by the caller.
                let values = values.map(|(&at, parameter)| unsafe {
                    std::slice::from_raw_parts(at.cast::<u8>(), parameter.bytes)
                });
                let bytes = values.collect::<Vec<_>>().concat();
                return program.launch(&kernel.name, number, grid, &bytes, self.memory.region());
            }
            (Entry::Number(_), Code::Library(_)) => unreachable!("kernels of libraries are functions"),
        };
        let stacks = Stacks::get().map_err(|detail| self.failed("launching", detail))?;
        let (order, checked) = (self.emulation.order, self.emulation.checked);
        let launch = Launch::new(entry, parameters.as_ptr(), grid, self.memory.region(), order, checked);
        let worker = |set: StackSet| {
            signals::prepare();
            Worker::new(&launch, set).map_err(|detail| launch.fail(detail)).ok()
        };
        let help = || {
            let work = || {
                let set = launch.has_more().then(|| stacks.try_lease()).flatten();
                if let Some(mut worker) = set.and_then(worker) {
                    while worker.run_next() {}
                }
            };
            // The launching thread waits for its workers, so a panic must not unwind past this point.
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err() {
                launch.fail("a worker of the emulated device panicked".into());
            }
        };
        let blocks = launch.blocks();
        let workers = usize::try_from(blocks - 1).unwrap_or(usize::MAX).min(self.pool.workers());
        let threads: u64 = grid.threads.iter().map(|&n| n as u64).product();
        self.pool.join(&help, workers, |offer| {
            let Some(mut worker) = worker(stacks.lease()) else { return };
            let began = Instant::now();
            let mut offered = workers == 0;
            loop {
                if !offered && (blocks * threads > SMALL || began.elapsed() > ALONE) && launch.has_more() {
                    offer();
                    offered = true;
                }
                if !worker.run_next() {
                    break;
                }
            }
        });
        match launch.into_failure() {
            None => Ok(()),
            Some(detail) => Err(Error::Fault { kernel: kernel.name.clone(), detail }),
        }
    }

    fn check_shape(&self, kernel: &Kernel, grid: Grid, parameters: usize) -> Result<()> {
        if parameters != kernel.parameters.len() {
            let detail = format!("got {parameters} arguments for {} parameters", kernel.parameters.len());
            return Err(Error::Arguments { kernel: kernel.name.clone(), detail });
        }
        let refuse = |detail: String| Err(Error::LaunchShape { kernel: kernel.name.clone(), detail });
        let Grid { blocks, threads, shared } = grid;
        let product: u64 = threads.iter().map(|&n| n as u64).product();
        if product == 0 || product > MAX_THREADS as u64 || threads[2] > 64 {
            return refuse(format!(
                "a block of {threads:?} threads; the maximum is {MAX_THREADS} in total, and 64 in z"
            ));
        }
        if blocks.contains(&0) || blocks[0] > i32::MAX as u32 || blocks[1] > 65535 || blocks[2] > 65535 {
            return refuse(format!(
                "a grid of {blocks:?} blocks; the maximum is 2147483647 x 65535 x 65535 blocks"
            ));
        }
        if shared > MAX_SHARED {
            return refuse(format!("{shared} bytes of dynamic shared memory; the maximum is {MAX_SHARED}"));
        }
        Ok(())
    }
}
