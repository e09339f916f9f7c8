//! Finds libcuda and libnvrtc, and checks that they have every symbol that is called.

use std::env;
use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys::{self, CUresult};
use cudarc::nvrtc::sys as nvrtc_sys;

use super::failure::describe;
use super::search::{self, Wanted};
use crate::base::{Error, Result};

/// The oldest driver that has every call made here, as `cuDriverGetVersion` reports it: `cuEventElapsedTime_v2`
/// came with CUDA 12.8, `cuFuncGetParamInfo` and `cuFuncLoad` with 12.4, `cuGraphExecUpdate_v2` with 12.0.
const OLDEST_DRIVER: u32 = 12_080;

/// The oldest supported NVRTC: version 11 does not support Hopper, and its C++17 support is incomplete.
const OLDEST_NVRTC: (u32, u32) = (12, 0);

const DRIVER_ADVICE: &str = "Install an NVIDIA driver of version 580 or later (570 serves with NVRTC 12), or use \
                             RIGEL_DEVICE=emulated";

const NVRTC_ADVICE: &str = "Install NVRTC of the CUDA 13 toolkit, or `pip install nvidia-cuda-nvrtc==13.0.*` and \
                            set RIGEL_NVRTC to the folder that holds libnvrtc.so.13";

const NVRTC: Wanted = Wanted {
    library: "libnvrtc.so",
    companion: "libnvrtc-builtins.so",
    wheels: &["cu13/lib", "cuda_nvrtc/lib"],
    variable: "RIGEL_NVRTC",
};

/// The symbols that are called before the driver's version is known.
const DRIVER_BASICS: [&str; 3] = ["cuInit", "cuDriverGetVersion", "cuGetErrorString"];

/// Every other driver symbol that this module calls (a test compares this list with the sources).
const DRIVER_SYMBOLS: [&str; 65] = [
    "cuCtxCreate_v4",
    "cuCtxDestroy_v2",
    "cuCtxEnablePeerAccess",
    "cuCtxGetCurrent",
    "cuCtxPopCurrent_v2",
    "cuCtxRecordEvent",
    "cuCtxSetCurrent",
    "cuDeviceCanAccessPeer",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceGetPCIBusId",
    "cuDeviceGetP2PAttribute",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime_v2",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncGetAttribute",
    "cuFuncGetParamInfo",
    "cuFuncLoad",
    "cuFuncSetAttribute",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphExecUpdate_v2",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuLaunchKernel",
    "cuMemAddressFree",
    "cuMemAddressReserve",
    "cuMemAlloc_v2",
    "cuMemCreate",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetAllocationGranularity",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemMap",
    "cuMemRelease",
    "cuMemSetAccess",
    "cuMemUnmap",
    "cuMemcpy2DAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyPeerAsync",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuOccupancyMaxPotentialBlockSize",
    "cuPointerGetAttributes",
    "cuStreamBeginCapture_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamEndCapture",
    "cuStreamIsCapturing",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuThreadExchangeStreamCaptureMode",
];

/// Exported by drivers of CUDA 13 only. It takes many copies with one call.
const BATCHED_COPIES: &str = "cuMemcpy3DBatchAsync_v2";

/// Every NVRTC symbol that this module calls (the same test).
const NVRTC_SYMBOLS: [&str; 13] = [
    "nvrtcAddNameExpression",
    "nvrtcCompileProgram",
    "nvrtcCreateProgram",
    "nvrtcDestroyProgram",
    "nvrtcGetCUBIN",
    "nvrtcGetCUBINSize",
    "nvrtcGetErrorString",
    "nvrtcGetLoweredName",
    "nvrtcGetNumSupportedArchs",
    "nvrtcGetProgramLog",
    "nvrtcGetProgramLogSize",
    "nvrtcGetSupportedArchs",
    "nvrtcVersion",
];

/// The driver's library.
pub(super) struct Libcuda {
    pub(super) path: PathBuf,
    /// 1000 * major + 10 * minor: 13000 is CUDA 13.0.
    version: u32,
}

impl Libcuda {
    pub(super) fn version(&self) -> String {
        dotted(self.version)
    }
}

/// NVRTC's library.
pub(super) struct Libnvrtc {
    pub(super) path: PathBuf,
    pub(super) version: (u32, u32),
    /// The identity of this build among others of the same version, such as patch releases.
    pub(super) build: String,
}

impl Libnvrtc {
    pub(super) fn version(&self) -> String {
        format!("{}.{}", self.version.0, self.version.1)
    }
}

/// The driver's library, of any version.
pub(super) fn libcuda() -> Result<&'static Libcuda> {
    static FOUND: OnceLock<Result<Libcuda>> = OnceLock::new();
    FOUND.get_or_init(find_libcuda).as_ref().map_err(Error::clone)
}

/// The driver, initialised and recent enough. After this, every driver call of this module may be made.
pub(super) fn driver() -> Result<&'static Libcuda> {
    static READY: OnceLock<Result<()>> = OnceLock::new();
    let library = libcuda()?;
    READY.get_or_init(|| initialise(library)).clone()?;
    Ok(library)
}

/// Whether the driver takes many copies between devices with one call.
pub(super) fn has_batched_copies() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| driver().is_ok() && driver_symbol(BATCHED_COPIES).is_some())
        && !REFUSED.load(Ordering::Relaxed)
}

/// Whether the driver has refused many copies at once.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Switches batched copies off: later copies are made one by one.
pub(super) fn refuse_batched_copies() {
    REFUSED.store(true, Ordering::Relaxed);
}

/// NVRTC. After this, every NVRTC call of this module may be made.
pub(super) fn libnvrtc() -> Result<&'static Libnvrtc> {
    static FOUND: OnceLock<Result<Libnvrtc>> = OnceLock::new();
    FOUND.get_or_init(find_libnvrtc).as_ref().map_err(Error::clone)
}

/// The number of devices, at least one.
pub(super) fn device_count() -> Result<u32> {
    driver()?;
    let mut count = 0;
    // SAFETY: the driver is initialised, and `count` outlives the call.
    let code = unsafe { sys::cuDeviceGetCount(&mut count) };
    if code != CUresult::CUDA_SUCCESS {
        return Err(unavailable(format!("cuDeviceGetCount failed: {}", describe(code)), DRIVER_ADVICE));
    }
    match u32::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(no_device()),
    }
}

fn unavailable(reason: impl Into<String>, advice: impl Into<String>) -> Error {
    Error::Unavailable { reason: reason.into(), advice: advice.into() }
}

fn no_device() -> Error {
    let visible = match env::var("CUDA_VISIBLE_DEVICES") {
        Ok(list) => format!(" (CUDA_VISIBLE_DEVICES={list:?})"),
        Err(_) => String::new(),
    };
    unavailable(
        format!("the driver finds no device{visible}"),
        "Check nvidia-smi, and that the container was started with access to GPUs; or use RIGEL_DEVICE=emulated",
    )
}

fn no_nvrtc(reason: impl Into<String>) -> Error {
    Error::NoCompiler { compiler: "NVRTC", reason: reason.into(), advice: NVRTC_ADVICE.into() }
}

fn dotted(version: u32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

fn find_libcuda() -> Result<Libcuda> {
    // SAFETY: opening libcuda runs its initialisers, which are safe to run in any process.
    if !unsafe { sys::is_culib_present() } {
        return Err(unavailable("libcuda.so, the NVIDIA driver's library, was not found", DRIVER_ADVICE));
    }
    if let Some(symbol) = DRIVER_BASICS.into_iter().find(|symbol| driver_symbol(symbol).is_none()) {
        return Err(unavailable(format!("libcuda.so has no {symbol}"), DRIVER_ADVICE));
    }
    let mut version = 0;
    // SAFETY: the symbol is there, `version` outlives the call, and no initialisation is needed.
    let code = unsafe { sys::cuDriverGetVersion(&mut version) };
    if code != CUresult::CUDA_SUCCESS {
        return Err(unavailable(format!("cuDriverGetVersion failed: {}", describe(code)), DRIVER_ADVICE));
    }
    let path = driver_symbol("cuInit").and_then(file_of).unwrap_or_else(|| "libcuda.so".into());
    Ok(Libcuda { path, version: u32::try_from(version).unwrap_or(0) })
}

fn initialise(library: &Libcuda) -> Result<()> {
    if library.version < OLDEST_DRIVER {
        let (found, needed) = (dotted(library.version), dotted(OLDEST_DRIVER));
        let reason = format!("the NVIDIA driver is too old: it supports CUDA {found}, {needed} is required");
        return Err(unavailable(reason, DRIVER_ADVICE));
    }
    if let Some(symbol) = DRIVER_SYMBOLS.into_iter().find(|symbol| driver_symbol(symbol).is_none()) {
        let reason = format!("{} reports CUDA {} but lacks {symbol}", library.path.display(), library.version());
        return Err(unavailable(reason, DRIVER_ADVICE));
    }
    // SAFETY: the symbol is there; cuInit may be called at any time, from any thread.
    match unsafe { sys::cuInit(0) } {
        CUresult::CUDA_SUCCESS => Ok(()),
        CUresult::CUDA_ERROR_NO_DEVICE => Err(no_device()),
        CUresult::CUDA_ERROR_STUB_LIBRARY => Err(unavailable(
            format!("{} is the toolkit's stub, not a driver", library.path.display()),
            "Remove the toolkit's stubs folder from LD_LIBRARY_PATH",
        )),
        code => Err(unavailable(
            format!("cuInit failed: {}", describe(code)),
            "Check the driver with nvidia-smi, or use RIGEL_DEVICE=emulated",
        )),
    }
}

fn find_libnvrtc() -> Result<Libnvrtc> {
    let named = NVRTC
        .named()
        .map(|place| {
            NVRTC.preload(&place).map_err(|reason| no_nvrtc(format!("RIGEL_NVRTC={}: {reason}", place.display())))
        })
        .transpose()?;
    if !nvrtc_is_present() {
        let places = NVRTC.places();
        if !places.iter().any(|place| NVRTC.preload(place).is_ok()) || !nvrtc_is_present() {
            let reason = format!("libnvrtc.so is not on the loader's path, nor in {}", search::list(&places));
            return Err(no_nvrtc(reason));
        }
    }
    if let Some(symbol) = NVRTC_SYMBOLS.into_iter().find(|symbol| nvrtc_symbol(symbol).is_none()) {
        return Err(no_nvrtc(format!("libnvrtc.so has no {symbol}")));
    }
    let symbol = nvrtc_symbol("nvrtcVersion").ok_or_else(|| no_nvrtc("libnvrtc.so has no nvrtcVersion"))?;
    let path = file_of(symbol).unwrap_or_else(|| "libnvrtc.so".into());
    let build = search::build_of(symbol as *const c_void)
        .map_err(|reason| no_nvrtc(format!("{} can't be told from other builds: {reason}", path.display())))?;
    if let Some(named) = named.filter(|named| search::resolved(path.clone()) != *named) {
        // cudarc asks the loader for `libnvrtc.so` before `libnvrtc.so.13`: a toolkit's library wins.
        return Err(no_nvrtc(format!(
            "{}, named by RIGEL_NVRTC, is hidden by {}, which the loader finds first; remove that from its path",
            named.display(),
            path.display()
        )));
    }
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the symbol is there, and both numbers outlive the call.
    unsafe { nvrtc_sys::nvrtcVersion(&mut major, &mut minor) };
    let version = (u32::try_from(major).unwrap_or(0), u32::try_from(minor).unwrap_or(0));
    if version < OLDEST_NVRTC {
        return Err(no_nvrtc(format!(
            "{} is version {}.{}; the oldest supported version is {}.{}",
            path.display(),
            version.0,
            version.1,
            OLDEST_NVRTC.0,
            OLDEST_NVRTC.1
        )));
    }
    Ok(Libnvrtc { path, version, build })
}

fn nvrtc_is_present() -> bool {
    // SAFETY: opening libnvrtc runs its initialisers, which are safe to run in any process.
    unsafe { nvrtc_sys::is_culib_present() }
}

type Symbol = unsafe extern "C" fn();

fn driver_symbol(name: &str) -> Option<Symbol> {
    // SAFETY: the library is present (`is_culib_present`), so `culib` does not panic; the address is not called
    // through this type.
    unsafe { sys::culib().get::<Symbol>(name.as_bytes()).ok().map(|symbol| *symbol) }
}

fn nvrtc_symbol(name: &str) -> Option<Symbol> {
    // SAFETY: as above.
    unsafe { nvrtc_sys::culib().get::<Symbol>(name.as_bytes()).ok().map(|symbol| *symbol) }
}

/// The file that a symbol was loaded from.
fn file_of(symbol: Symbol) -> Option<PathBuf> {
    search::file_of(symbol as *const c_void)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The functions that a source calls as `sys::name(`.
    fn calls(source: &str) -> Vec<&str> {
        source
            .split("sys::")
            .skip(1)
            .filter_map(|rest| {
                let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')?;
                rest[end..].starts_with('(').then_some(&rest[..end])
            })
            .filter(|name| name.starts_with("cu") || name.starts_with("nvrtc"))
            .filter(|name| *name != "culib")
            .collect()
    }

    #[test]
    fn every_symbol_called_is_checked_first() {
        let sources = [
            include_str!("code.rs"),
            include_str!("context.rs"),
            include_str!("copy.rs"),
            include_str!("failure.rs"),
            include_str!("foreign.rs"),
            include_str!("graph.rs"),
            include_str!("library.rs"),
            include_str!("memory.rs"),
            include_str!("nvrtc.rs"),
            include_str!("peer.rs"),
            include_str!("queue.rs"),
        ];
        let mut called: Vec<_> = sources.into_iter().flat_map(calls).collect();
        called.sort_unstable();
        called.dedup();
        let mut checked: Vec<_> =
            DRIVER_BASICS.into_iter().chain(DRIVER_SYMBOLS).chain(NVRTC_SYMBOLS).chain([BATCHED_COPIES]).collect();
        checked.sort_unstable();
        assert_eq!(called, checked);
    }

    #[test]
    fn versions_read_as_nvidia_writes_them() {
        assert_eq!(dotted(12_080), "12.8");
        assert_eq!(dotted(13_000), "13.0");
    }
}
