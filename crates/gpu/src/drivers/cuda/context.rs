//! One device: its primary context, its properties, and the wrapper for every driver call.

use std::ffi::c_int;
use std::ptr;

use cudarc::driver::sys::{self, CUcontext, CUdevice, CUdevice_attribute, CUresult};

use super::code::Modules;
use super::failure::failure;
use super::library;
use super::memory::{self, Ranges};
use crate::base::{DeviceKind, Error, Lock, Properties, Result};
use crate::drivers::{Driver, Raw};

/// An open CUDA device.
pub(super) struct Cuda {
    pub(super) properties: Properties,
    pub(super) granularity: usize,
    pub(super) ranges: Lock<Ranges>,
    pub(super) modules: Lock<Modules>,
    /// The last field, so that it is released last.
    pub(super) primary: Primary,
}

/// A reference to a device's primary context, which is shared with other libraries in the process.
pub(super) struct Primary {
    pub(super) device: CUdevice,
    pub(super) context: CUcontext,
}

// SAFETY: any thread may use a context handle; the driver synchronises internally.
unsafe impl Send for Primary {}
// SAFETY: as above.
unsafe impl Sync for Primary {}

impl Primary {
    fn retain(device: CUdevice) -> Result<Self, CUresult> {
        let mut context = ptr::null_mut();
        // SAFETY: `device` came from cuDeviceGet, and `context` outlives the call.
        match unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, device) } {
            CUresult::CUDA_SUCCESS => Ok(Self { device, context }),
            code => Err(code),
        }
    }

    /// Keeps the context for the rest of the process.
    pub(super) fn keep(&self) {
        // A context that is held once can be held again, so there is no error to return.
        if let Ok(another) = Self::retain(self.device) {
            std::mem::forget(another);
        }
    }

    /// Makes the context current on this thread.
    ///
    /// It queries the driver for the current context, which costs one thread-local read. A cached value would miss
    /// changes by other libraries in the process, and contexts that were released since.
    ///
    /// Returns the context to make current again afterwards, if another library had made one current.
    fn enter(&self) -> Result<Option<CUcontext>, CUresult> {
        let mut current = ptr::null_mut();
        // SAFETY: the driver is initialised, and `current` outlives the call.
        let code = unsafe { sys::cuCtxGetCurrent(&mut current) };
        if code != CUresult::CUDA_SUCCESS {
            return Err(code);
        }
        if current == self.context {
            return Ok(None);
        }
        // SAFETY: the context is retained for as long as `self` lives.
        match unsafe { sys::cuCtxSetCurrent(self.context) } {
            CUresult::CUDA_SUCCESS => Ok((!current.is_null()).then_some(current)),
            code => Err(code),
        }
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        // SAFETY: this releases the one reference that `retain` took. The result is ignored: a lost device has
        // nothing to release.
        unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

impl Cuda {
    /// Opens a device. `ordinal` must be less than the number of devices.
    pub(super) fn open(ordinal: u32) -> Result<Self> {
        let library = library::driver()?;
        let check = |operation: &'static str, code: CUresult| match code {
            CUresult::CUDA_SUCCESS => Ok(()),
            code => Err(failure(device_name(ordinal), operation, code)),
        };

        let mut device = 0;
        // SAFETY: the driver is initialised, and `device` outlives the call.
        check("cuDeviceGet", unsafe { sys::cuDeviceGet(&mut device, ordinal as c_int) })?;
        let attribute = |attribute: CUdevice_attribute| -> Result<u32> {
            let mut value = 0;
            // SAFETY: `device` came from cuDeviceGet, and `value` outlives the call.
            let code = unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device) };
            check("cuDeviceGetAttribute", code)?;
            Ok(u32::try_from(value).unwrap_or(0))
        };
        let mut name = [0u8; 256];
        // SAFETY: the driver writes at most the length given, its terminator included.
        let code = unsafe { sys::cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as c_int, device) };
        check("cuDeviceGetName", code)?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let mut memory_bytes = 0;
        // SAFETY: `device` came from cuDeviceGet, and `memory_bytes` outlives the call.
        check("cuDeviceTotalMem", unsafe { sys::cuDeviceTotalMem_v2(&mut memory_bytes, device) })?;

        use CUdevice_attribute::*;
        let properties = Properties {
            kind: DeviceKind::Cuda,
            ordinal,
            name: String::from_utf8_lossy(name).into_owned(),
            capability: (
                attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            multiprocessors: attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            warp: attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE)?,
            max_threads_per_block: attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            max_shared_per_block: attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            l2_bytes: attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as usize,
            memory_bytes,
            driver: library.version(),
        };
        if attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED)? == 0 {
            return Err(Error::Unavailable {
                reason: format!("{} ({}) lacks virtual memory management", device_name(ordinal), properties.name),
                advice: "Use another device, or RIGEL_DEVICE=emulated".into(),
            });
        }

        let primary = Primary::retain(device)
            .map_err(|code| failure(device_name(ordinal), "cuDevicePrimaryCtxRetain", code))?;
        primary.enter().map_err(|code| failure(device_name(ordinal), "cuCtxSetCurrent", code))?;
        let mut granularity = 0;
        // SAFETY: the properties are complete, and both outlive the call.
        let code = unsafe {
            sys::cuMemGetAllocationGranularity(
                &mut granularity,
                &memory::allocation(device),
                sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED,
            )
        };
        check("cuMemGetAllocationGranularity", code)?;

        Ok(Self { properties, granularity, ranges: Lock::default(), modules: Lock::default(), primary })
    }

    /// The device's name in messages.
    pub(super) fn name(&self) -> String {
        device_name(self.properties.ordinal)
    }

    /// Makes a driver call in this device's context and returns its result code.
    pub(super) fn attempt(&self, call: impl FnOnce() -> CUresult) -> CUresult {
        let previous = match self.primary.enter() {
            Ok(previous) => previous,
            Err(code) => return code,
        };
        let code = call();
        if let Some(previous) = previous {
            // SAFETY: this was the current context when the call began; the library that made it current keeps it.
            unsafe { sys::cuCtxSetCurrent(previous) };
        }
        code
    }

    /// Makes the driver call named `operation` in this device's context.
    pub(super) fn call(&self, operation: &'static str, call: impl FnOnce() -> CUresult) -> Result<()> {
        self.check(operation, self.attempt(call))
    }

    pub(super) fn check(&self, operation: &'static str, code: CUresult) -> Result<()> {
        match code {
            CUresult::CUDA_SUCCESS => Ok(()),
            code => Err(failure(self.name(), operation, code)),
        }
    }

    /// An error about the call named `operation`.
    pub(super) fn refuse(&self, operation: &'static str, detail: impl Into<String>) -> Error {
        Error::Driver { device: self.name(), operation, detail: detail.into() }
    }
}

impl Driver for Cuda {
    fn properties(&self) -> &Properties {
        &self.properties
    }
}

impl Drop for Cuda {
    /// Mapped memory belongs to no context, so it is freed here. Everything else (streams, events, modules,
    /// graphs, allocations) its owners have freed, or it is destroyed with the context, which lives as long as the
    /// process if cuBLAS was used.
    fn drop(&mut self) {
        self.release_all();
    }
}

fn device_name(ordinal: u32) -> String {
    format!("{}:{ordinal}", DeviceKind::Cuda)
}

/// Converts a [`Raw`] handle to the driver's pointer.
pub(super) fn pointer<T>(raw: Raw) -> *mut T {
    ptr::with_exposed_provenance_mut(raw.0 as usize)
}

/// Converts the driver's pointer to a [`Raw`] handle.
pub(super) fn handle<T>(pointer: *mut T) -> Raw {
    Raw(pointer.expose_provenance() as u64)
}
