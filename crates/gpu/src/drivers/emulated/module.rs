//! Loaded images.

use std::ffi::{CStr, c_void};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use super::fiber::{Stacks, suspend};
use super::race::RaceProgram;
use super::region::{Region, memory_file};
use super::runtime::{self, Runtime};
use crate::base::{Error, Result};
use crate::drivers::{Image, Parameter, Passing};

/// An image that kernels can be launched from.
pub(super) struct Module {
    pub(super) name: String,
    pub(super) code: Code,
}

pub(super) enum Code {
    Library(Library),
    Program(RaceProgram),
}

/// A shared library in this process.
pub(super) struct Library {
    library: libloading::os::unix::Library,
    /// The library reads the region's shadow.
    _region: Arc<Region>,
    /// The loader identifies the library by the path of this descriptor, so it must stay open.
    _file: std::fs::File,
}

/// Decodes a parameter from compiled code.
pub(super) fn parameter(bytes: u32, code: u64) -> Option<Parameter> {
    Some(Parameter { bytes: bytes as usize, passing: Passing::from_code(code)? })
}

/// A kernel of a module.
pub(super) struct Kernel {
    pub(super) module: Arc<Module>,
    /// The kernel's name in messages.
    pub(super) name: String,
    pub(super) parameters: Vec<Parameter>,
    pub(super) entry: Entry,
}

#[derive(Clone, Copy)]
pub(super) enum Entry {
    /// Called on a fiber with pointers to the arguments.
    Function(unsafe extern "C" fn(*const *const c_void)),
    /// The number of the kernel in a race program.
    Number(usize),
}

impl Library {
    /// Loads an image from an in-memory file, because cache folders may be read-only or mounted `noexec`.
    pub(super) fn load(name: &str, image: &Image, region: Arc<Region>) -> Result<Self> {
        let failed = |detail: String| Error::Driver {
            device: "emulated".into(),
            operation: "loading a module",
            detail: format!("{name}: {detail}"),
        };
        let file = memory_file(c"rigel-kernels").ok_or_else(|| failed("can't create a file in memory".into()))?;
        let mut file = std::fs::File::from(file);
        file.write_all(&image.binary).map_err(|error| failed(error.to_string()))?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let stacks = Stacks::get().map_err(|detail| failed(detail.into()))?;
        let runtime = Runtime {
            region: region.base,
            region_bytes: region.bytes,
            shadow: region.shadow(),
            hurry: region.hurry.as_ptr(),
            threads: stacks.key(),
            wait: suspend,
        };
        // SAFETY: the image was compiled from our shim: it has no constructors, and `rigel_bind` has this type.
        let library = unsafe {
            let flags = libloading::os::unix::RTLD_NOW | libloading::os::unix::RTLD_LOCAL;
            let library = libloading::os::unix::Library::open(Some(&path), flags)
                .map_err(|error| failed(error.to_string()))?;
            let bind = library.get::<unsafe extern "C" fn(*const Runtime)>(b"rigel_bind\0");
            bind.map_err(|error| failed(error.to_string()))?(&runtime);
            library
        };
        Ok(Self { library, _region: region, _file: file })
    }
}

impl Kernel {
    pub(super) fn find(module: &Arc<Module>, symbol: &str, expression: &str) -> Result<Self> {
        let missing = || Error::NoSuchKernel {
            module: module.name.clone(),
            kernel: expression.to_owned(),
            known: module.known(),
        };
        let (parameters, entry) = match &module.code {
            Code::Library(code) => {
                let symbol = format!("{symbol}\0");
                // SAFETY: symbols of this name are `Kernel` structures, generated in `compiler.rs`; each has as
                // many sizes and codes as parameters, and the library stays loaded while the module lives.
                unsafe {
                    let kernel = code.library.get::<*const runtime::Kernel>(symbol.as_bytes());
                    let kernel = &**kernel.map_err(|_| missing())?;
                    let count = kernel.parameters as usize;
                    let sizes = std::slice::from_raw_parts(kernel.sizes, count);
                    let codes = std::slice::from_raw_parts(kernel.passing, count);
                    let parameters =
                        sizes.iter().zip(codes).map(|(&size, &code)| parameter(size, u64::from(code)));
                    (parameters.collect::<Option<Vec<_>>>().ok_or_else(missing)?, Entry::Function(kernel.entry))
                }
            }
            Code::Program(program) => {
                let number = symbol.strip_prefix("rigel_kernel_").and_then(|n| n.parse().ok());
                let number = number.filter(|&n: &usize| n < program.parameters.len()).ok_or_else(missing)?;
                (program.parameters[number].clone(), Entry::Number(number))
            }
        };
        Ok(Self { module: module.clone(), name: expression.to_owned(), parameters, entry })
    }
}

impl Module {
    /// The names of its kernels, for messages.
    fn known(&self) -> String {
        match &self.code {
            Code::Program(program) => format!("{} kernels", program.parameters.len()),
            Code::Library(code) => {
                let names = (0..).map_while(|i| {
                    let symbol = format!("rigel_kernel_{i}\0");
                    // SAFETY: as in `Kernel::find`; the name is a string literal of the library.
                    unsafe {
                        let kernel = code.library.get::<*const runtime::Kernel>(symbol.as_bytes()).ok()?;
                        Some(CStr::from_ptr((**kernel).name).to_string_lossy().into_owned())
                    }
                });
                names.collect::<Vec<_>>().join(", ")
            }
        }
    }
}
