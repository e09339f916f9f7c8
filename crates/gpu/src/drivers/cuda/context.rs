//! One device: its context, its properties, and the wrapper for every driver call.

use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys::{self, CUcontext, CUdevice, CUdevice_attribute, CUresult};

use super::code::Modules;
use super::failure::failure;
use super::library;
use super::memory::{self, Ranges};
use super::peer::Peers;
use crate::base::{DeviceKind, Error, Lock, Properties, Result, numa};
use crate::drivers::{Driver, Raw};

/// An open CUDA device.
pub(super) struct Cuda {
    pub(super) properties: Properties,
    pub(super) granularity: usize,
    pub(super) ranges: Lock<Ranges>,
    pub(super) modules: Lock<Modules>,
    pub(super) peers: Lock<Peers>,
    /// The last field, so that it is released last.
    pub(super) context: Context,
}

/// A context of a device: the primary one, which is shared with other libraries in the process, or one of its own.
pub(super) struct Context {
    pub(super) device: CUdevice,
    pub(super) handle: CUcontext,
    /// Whether the context was created here. Such a context is current only during calls, so that no thread is left
    /// with it when it is destroyed.
    own: bool,
    /// Whether the context has to live as long as the process.
    kept: AtomicBool,
}

// SAFETY: any thread may use a context handle; the driver synchronises internally.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// The device's primary context.
    fn primary(device: CUdevice) -> Result<Self, CUresult> {
        let mut handle = ptr::null_mut();
        // SAFETY: `device` came from cuDeviceGet, and `handle` outlives the call.
        match unsafe { sys::cuDevicePrimaryCtxRetain(&mut handle, device) } {
            CUresult::CUDA_SUCCESS => Ok(Self { device, handle, own: false, kept: AtomicBool::new(false) }),
            code => Err(code),
        }
    }

    /// A new context. The thread's current context stays what it was.
    fn create(device: CUdevice) -> Result<Self, CUresult> {
        let mut handle = ptr::null_mut();
        // SAFETY: `device` came from cuDeviceGet, and `handle` outlives the call.
        match unsafe { sys::cuCtxCreate_v4(&mut handle, ptr::null_mut(), 0, device) } {
            CUresult::CUDA_SUCCESS => {}
            code => return Err(code),
        }
        let context = Self { device, handle, own: true, kept: AtomicBool::new(false) };
        let mut popped = ptr::null_mut();
        // SAFETY: the call above has pushed the context on this thread's stack, and `popped` outlives the call.
        match unsafe { sys::cuCtxPopCurrent_v2(&mut popped) } {
            CUresult::CUDA_SUCCESS => Ok(context),
            code => Err(code),
        }
    }

    /// Keeps the context for the rest of the process.
    pub(super) fn keep(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }

    /// Makes the context current on this thread.
    ///
    /// It queries the driver for the current context, which costs one thread-local read. A cached value would miss
    /// changes by other libraries in the process, and contexts that were released since.
    ///
    /// Returns the context to make current again afterwards: the one that another library had made current, or, if this
    /// context must not stay current, whatever there was.
    fn enter(&self) -> Result<Option<CUcontext>, CUresult> {
        let mut current = ptr::null_mut();
        // SAFETY: the driver is initialised, and `current` outlives the call.
        let code = unsafe { sys::cuCtxGetCurrent(&mut current) };
        if code != CUresult::CUDA_SUCCESS {
            return Err(code);
        }
        if current == self.handle {
            return Ok(None);
        }
        // SAFETY: the context lives as long as `self`.
        match unsafe { sys::cuCtxSetCurrent(self.handle) } {
            CUresult::CUDA_SUCCESS => Ok((self.own || !current.is_null()).then_some(current)),
            code => Err(code),
        }
    }
}

impl Drop for Context {
    /// Results are ignored: a lost device has nothing to release.
    fn drop(&mut self) {
        if *self.kept.get_mut() {
            return;
        }
        if self.own {
            // SAFETY: it was created here, is current on no thread, and its owner uses it no more.
            unsafe { sys::cuCtxDestroy_v2(self.handle) };
        } else {
            // SAFETY: this releases the one reference that `primary` took.
            unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
        }
    }
}

impl Cuda {
    /// Opens a device, with its primary context if `context` is 0, else with one of its own. `ordinal` must be less
    /// than the number of devices.
    pub(super) fn open(ordinal: u32, context: u32) -> Result<Self> {
        let library = library::driver()?;
        let device_name = || match context {
            0 => format!("{}:{ordinal}", DeviceKind::Cuda),
            context => format!("{}:{ordinal}#{context}", DeviceKind::Cuda),
        };
        let check = |operation: &'static str, code: CUresult| match code {
            CUresult::CUDA_SUCCESS => Ok(()),
            code => Err(failure(device_name(), operation, code)),
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
            context,
            numa_node: pci_address(device).and_then(|pci| numa::node_of(&pci)),
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
                reason: format!("{} ({}) lacks virtual memory management", device_name(), properties.name),
                advice: "Use another device, or RIGEL_DEVICE=emulated".into(),
            });
        }

        let context = match context {
            0 => Context::primary(device).map_err(|code| failure(device_name(), "cuDevicePrimaryCtxRetain", code)),
            _ => Context::create(device).map_err(|code| failure(device_name(), "cuCtxCreate", code)),
        };
        let (ranges, modules, peers) = (Lock::default(), Lock::default(), Lock::default());
        let mut opened = Self { properties, granularity: 0, ranges, modules, peers, context: context? };
        let mut granularity = 0;
        // SAFETY: the properties are complete, and both outlive the call.
        opened.call("cuMemGetAllocationGranularity", || unsafe {
            sys::cuMemGetAllocationGranularity(
                &mut granularity,
                &memory::allocation(device),
                sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED,
            )
        })?;
        opened.granularity = granularity;
        Ok(opened)
    }

    /// The device's name in messages.
    pub(super) fn name(&self) -> String {
        self.properties.to_string()
    }

    /// Makes a driver call in this device's context and returns its result code.
    pub(super) fn attempt(&self, call: impl FnOnce() -> CUresult) -> CUresult {
        let previous = match self.context.enter() {
            Ok(previous) => previous,
            Err(code) => return code,
        };
        let code = in_relaxed_capture_mode(call);
        if let Some(previous) = previous {
            // SAFETY: this was the current context when the call began, or null if there was none; the library that
            // made it current keeps it.
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

/// Makes a call in a mode in which it does not concern captures of other threads. In the mode in which threads begin, a
/// call that may synchronize, such as one for memory, fails while another library captures a graph in CUDA's global
/// mode, and spoils its capture.
fn in_relaxed_capture_mode(call: impl FnOnce() -> CUresult) -> CUresult {
    let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: the driver is initialised, and `mode` outlives the call, which exchanges it with the thread's mode.
    let changed = unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) } == CUresult::CUDA_SUCCESS;
    let code = call();
    if changed {
        // SAFETY: as above.
        unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) };
    }
    code
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

/// The device's address on the PCI bus, as the system writes it, if the driver tells.
fn pci_address(device: CUdevice) -> Option<String> {
    let mut address = [0u8; 32];
    // SAFETY: the driver writes at most the length given, its terminator included.
    let code = unsafe { sys::cuDeviceGetPCIBusId(address.as_mut_ptr().cast(), address.len() as c_int, device) };
    let text = CStr::from_bytes_until_nul(&address).ok()?;
    (code == CUresult::CUDA_SUCCESS).then(|| text.to_string_lossy().into_owned())
}

/// Converts a [`Raw`] handle to the driver's pointer.
pub(super) fn pointer<T>(raw: Raw) -> *mut T {
    ptr::with_exposed_provenance_mut(raw.0 as usize)
}

/// Converts the driver's pointer to a [`Raw`] handle.
pub(super) fn handle<T>(pointer: *mut T) -> Raw {
    Raw(pointer.expose_provenance() as u64)
}
