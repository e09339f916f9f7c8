//! Modules, their functions, and launches.

use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};
use std::ptr;

use cudarc::driver::sys::{self, CUfunction, CUfunction_attribute, CUresult};

use super::context::{Cuda, handle, pointer};
use super::failure::describe;
use super::nvrtc::{self, Architecture};
use super::{cubin, library};
use crate::base::{Error, Result};
use crate::drivers::{Chain, CodeDriver, Function, Grid, Image, Launch, Occupancy, Parameter, Passing, Raw, Unit};

/// Names of loaded modules and their functions, for error messages.
#[derive(Default)]
pub(super) struct Modules {
    loaded: HashMap<Raw, Module>,
    functions: HashMap<Raw, NamedFunction>,
}

struct Module {
    name: String,
    symbols: Vec<String>,
    signatures: Vec<String>,
}

struct NamedFunction {
    module: Raw,
    expression: String,
}

impl CodeDriver for Cuda {
    fn compiler(&self) -> Result<String> {
        nvrtc::compiler(Architecture::Machine(self.properties.capability))
    }

    fn compile(&self, unit: &Unit) -> Result<Image> {
        nvrtc::compile(unit, Architecture::Machine(self.properties.capability))
    }

    fn load(&self, name: &str, image: &Image) -> Result<Raw> {
        // cuModuleLoadData takes no length and trusts the offsets in the ELF headers.
        if !cubin::is_whole(&image.binary) {
            return Err(self.refuse("cuModuleLoadData", format!("the binary of {name} is damaged")));
        }
        let mut module = ptr::null_mut();
        // SAFETY: the image is a cubin whose sections all lie within its bytes; both outlive the call.
        let code = self.attempt(|| unsafe { sys::cuModuleLoadData(&mut module, image.binary.as_ptr().cast()) });
        if matches!(code, CUresult::CUDA_ERROR_INVALID_IMAGE | CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU) {
            let nvrtc = library::libnvrtc().map_or_else(|_| "unknown".into(), |library| library.version());
            let driver = &self.properties.driver;
            let detail = format!(
                "{}: the driver (CUDA {driver}) rejects {name}, compiled by NVRTC (now {nvrtc}); update the \
                 driver, or use an NVRTC of its version",
                describe(code)
            );
            return Err(self.refuse("cuModuleLoadData", detail));
        }
        self.check("cuModuleLoadData", code)?;
        let module = handle(module);
        let (symbols, signatures) = (image.symbols.clone(), image.signatures.clone());
        self.modules.lock().loaded.insert(module, Module { name: name.into(), symbols, signatures });
        Ok(module)
    }

    fn unload(&self, module: Raw) {
        let mut modules = self.modules.lock();
        modules.loaded.remove(&module);
        modules.functions.retain(|_, function| function.module != module);
        // SAFETY: the module came from `load` and is not used again.
        self.attempt(|| unsafe { sys::cuModuleUnload(pointer(module)) });
    }

    fn function(&self, module: Raw, symbol: &str, expression: &str) -> Result<Function> {
        let no_such_kernel = || {
            let modules = self.modules.lock();
            let (name, known) = match modules.loaded.get(&module) {
                Some(module) => (module.name.clone(), module.symbols.join(", ")),
                None => ("(unloaded)".into(), String::new()),
            };
            Error::NoSuchKernel { module: name, kernel: expression.into(), known }
        };
        let signature = self.signature(module, symbol).ok_or_else(no_such_kernel)?;
        let symbol = CString::new(symbol).map_err(|_| no_such_kernel())?;
        let mut function = ptr::null_mut();
        // SAFETY: the module is loaded, the symbol NUL-terminated, and both outlive the call.
        let code =
            self.attempt(|| unsafe { sys::cuModuleGetFunction(&mut function, pointer(module), symbol.as_ptr()) });
        if code == CUresult::CUDA_ERROR_NOT_FOUND {
            return Err(no_such_kernel());
        }
        self.check("cuModuleGetFunction", code)?;
        // With lazy loading the driver would load a kernel at its first launch, which can synchronize the device.
        // SAFETY: the function was just found.
        self.call("cuFuncLoad", || unsafe { sys::cuFuncLoad(function) })?;

        use CUfunction_attribute::*;
        let static_shared = self.attribute(function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
        let dynamic = self.properties.max_shared_per_block.saturating_sub(static_shared);
        // SAFETY: the function was just found; the driver checks the value.
        self.call("cuFuncSetAttribute", || unsafe {
            let attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            sys::cuFuncSetAttribute(function, attribute, dynamic as c_int)
        })?;

        let raw = handle(function);
        let named = NamedFunction { module, expression: expression.into() };
        self.modules.lock().functions.insert(raw, named);
        Ok(Function {
            raw,
            parameters: self.parameters(function, expression, &signature)?,
            max_threads: self.attribute(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            registers: self.attribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            static_shared,
            local: self.attribute(function, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
        })
    }

    fn occupancy(&self, function: Raw, shared: u32) -> Result<Occupancy> {
        let (mut blocks, mut threads) = (0, 0);
        // SAFETY: the function is live, and both numbers outlive the call; no callback and no limit are given.
        self.call("cuOccupancyMaxPotentialBlockSize", || unsafe {
            let function = pointer(function);
            sys::cuOccupancyMaxPotentialBlockSize(&mut blocks, &mut threads, function, None, shared as usize, 0)
        })?;
        Ok(Occupancy { threads: u32::try_from(threads).unwrap_or(0), blocks: u32::try_from(blocks).unwrap_or(0) })
    }

    unsafe fn launch(&self, stream: Raw, function: Raw, grid: Grid, parameters: &[*const c_void]) -> Result<()> {
        let Grid { blocks: [bx, by, bz], threads: [tx, ty, tz], shared } = grid;
        let values = parameters.as_ptr().cast_mut().cast();
        let (kernel, queue) = (pointer(function), pointer(stream));
        // SAFETY: the caller guarantees that the values fit the kernel and that what they point to is mapped; the
        // driver copies them before it returns, and writes to none.
        let code = self.attempt(|| unsafe {
            sys::cuLaunchKernel(kernel, bx, by, bz, tx, ty, tz, shared, queue, values, ptr::null_mut())
        });
        match code {
            CUresult::CUDA_ERROR_INVALID_VALUE | CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES => {
                let modules = self.modules.lock();
                let kernel = modules.functions.get(&function).map_or("(unknown)", |named| &named.expression);
                let detail = format!(
                    "[{bx}, {by}, {bz}] blocks of [{tx}, {ty}, {tz}] threads with {shared} bytes of dynamic \
                     shared memory: {}",
                    describe(code)
                );
                Err(Error::LaunchShape { kernel: kernel.into(), detail })
            }
            code => self.check("cuLaunchKernel", code),
        }
    }

    unsafe fn launch_chain(
        &self,
        stream: Raw,
        launches: &[Launch],
        chain: Option<Chain>,
    ) -> (Option<Chain>, Result<()>) {
        // SAFETY: guaranteed by the caller.
        if let Some((chain, launched)) = unsafe { self.chained(stream, launches, chain) } {
            return (Some(chain), launched);
        }
        // SAFETY: guaranteed by the caller.
        let each =
            |launch: &Launch| unsafe { self.launch(stream, launch.function, launch.grid, &launch.parameters()) };
        (None, launches.iter().try_for_each(each))
    }

    fn destroy_chain(&self, chain: Chain) {
        self.discard_chain(chain);
    }
}

impl Cuda {
    fn attribute(&self, function: CUfunction, attribute: CUfunction_attribute) -> Result<u32> {
        let mut value = 0;
        // SAFETY: the function is live, and `value` outlives the call.
        self.call("cuFuncGetAttribute", || unsafe { sys::cuFuncGetAttribute(&mut value, attribute, function) })?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    /// Looks up how a kernel takes its parameters, as determined at compile time.
    fn signature(&self, module: Raw, symbol: &str) -> Option<Vec<Passing>> {
        let modules = self.modules.lock();
        let module = modules.loaded.get(&module)?;
        let index = module.symbols.iter().position(|known| known == symbol)?;
        module.signatures.get(index)?.chars().map(Passing::from_letter).collect()
    }

    fn parameters(&self, function: CUfunction, kernel: &str, signature: &[Passing]) -> Result<Vec<Parameter>> {
        let mut parameters = Vec::with_capacity(signature.len());
        for (index, &passing) in signature.iter().enumerate() {
            let (mut offset, mut bytes) = (0, 0);
            // SAFETY: the function is live, and both numbers outlive the call, which checks the index.
            let code =
                self.attempt(|| unsafe { sys::cuFuncGetParamInfo(function, index, &mut offset, &mut bytes) });
            if code == CUresult::CUDA_ERROR_INVALID_VALUE {
                let detail = format!("{kernel} has {index} parameters in the binary, but its signature has more");
                return Err(self.refuse("cuFuncGetParamInfo", detail));
            }
            self.check("cuFuncGetParamInfo", code)?;
            parameters.push(Parameter { bytes, passing });
        }
        Ok(parameters)
    }
}
