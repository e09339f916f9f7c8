//! Kernels on the emulated device, through its [`Driver`].

mod checks;
mod execution;
mod graphs;
mod language;
mod races;

use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

use super::{Emulation, open};
use crate::base::{Error, Result};
use crate::drivers::{DevicePtr, Driver, Function, Grid, Image, PeerCopy, Raw, Strides, Unit};

/// A device with a stream.
struct Rig {
    driver: Arc<dyn Driver>,
    stream: Raw,
    iota: OnceLock<Function>,
}

/// A kernel argument as the driver wants it.
fn argument<T>(value: &T) -> *const c_void {
    (value as *const T).cast()
}

macro_rules! arguments {
    ($($value:expr),* $(,)?) => { &[$(crate::drivers::emulated::tests::argument(&$value)),*] };
}
use arguments;

fn grid(blocks: u32, threads: u32) -> Grid {
    Grid { blocks: [blocks, 1, 1], threads: [threads, 1, 1], shared: 0 }
}

impl Rig {
    fn new(emulation: Emulation) -> Self {
        Self::on(open(&emulation, &[(0, 0)]).unwrap().remove(0))
    }

    fn on(driver: Arc<dyn Driver>) -> Self {
        let stream = driver.create_stream().unwrap();
        Self { driver, stream, iota: OnceLock::new() }
    }

    fn standard() -> Self {
        Self::new(Emulation { workers: 2, ..Emulation::default() })
    }

    fn image(&self, text: &str, kernels: &[&str]) -> Result<Image> {
        let kernels = kernels.iter().map(|kernel| kernel.to_string()).collect();
        self.driver.compile(&Unit { name: "test.cu".into(), text: text.into(), kernels, ..Unit::default() })
    }

    fn functions(&self, text: &str, kernels: &[&str]) -> Vec<Function> {
        let image = self.image(text, kernels).unwrap_or_else(|error| panic!("{error}"));
        let module = self.driver.load("test.cu", &image).unwrap();
        let pairs = image.symbols.iter().zip(kernels);
        pairs.map(|(symbol, kernel)| self.driver.function(module, symbol, kernel).unwrap()).collect()
    }

    fn function(&self, text: &str, kernel: &str) -> Function {
        self.functions(text, &[kernel]).remove(0)
    }

    fn launch(&self, function: &Function, grid: Grid, arguments: &[*const c_void]) -> Result<()> {
        assert_eq!(function.parameters.len(), arguments.len());
        // SAFETY: tests give values of the kernels' parameter types; kernels that go astray are caught.
        unsafe { self.driver.launch(self.stream, function.raw, grid, arguments) }
    }

    /// Launches a kernel that must fail, and returns the fault's message.
    fn fault(&self, function: &Function, grid: Grid, arguments: &[*const c_void]) -> String {
        match self.launch(function, grid, arguments) {
            Err(Error::Fault { detail, .. }) => {
                self.check_usable();
                detail
            }
            other => panic!("expected a fault, got {other:?}"),
        }
    }

    /// Runs a kernel that has nothing to do with what went before.
    fn check_usable(&self) {
        let text = "__global__ void iota(unsigned* p) { p[threadIdx.x] = threadIdx.x; }";
        let out = self.alloc::<u32>(64);
        let iota = self.iota.get_or_init(|| self.function(text, "iota"));
        self.launch(iota, grid(1, 64), arguments![out]).unwrap();
        assert_eq!(self.download::<u32>(out, 64), (0..64).collect::<Vec<_>>());
        self.driver.free(out);
    }

    fn alloc<T>(&self, count: usize) -> DevicePtr {
        self.driver.alloc(count * size_of::<T>()).unwrap()
    }

    fn upload<T: Copy>(&self, values: &[T]) -> DevicePtr {
        let at = self.alloc::<T>(values.len());
        // SAFETY: the buffer was made for these values.
        unsafe { self.driver.upload(self.stream, at, values.as_ptr().cast(), size_of_val(values)) }.unwrap();
        at
    }

    fn download<T: Copy + Default>(&self, at: DevicePtr, count: usize) -> Vec<T> {
        let mut values = vec![T::default(); count];
        // SAFETY: tests read what they allocated.
        unsafe { self.driver.download(self.stream, values.as_mut_ptr().cast(), at, count * size_of::<T>()) }
            .unwrap();
        values
    }
}
