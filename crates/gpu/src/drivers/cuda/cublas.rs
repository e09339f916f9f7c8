//! cuBLAS, loaded at run time: the few calls that matrix products need.
//!
//! The search order is: a library already loaded in the process (such as PyTorch's), the loader's path, CUDA
//! toolkits, the active Python environment. All functions are resolved when the library is opened.

use std::ffi::{CStr, OsStr, c_char, c_int, c_longlong, c_void};
use std::path::PathBuf;
use std::ptr;
use std::sync::OnceLock;

use cudarc::driver::sys::CUresult;
use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL, RTLD_NOW};

use super::context::{Cuda, handle, pointer};
use super::search::{self, Wanted};
use crate::base::{Error, Lock, Result};
use crate::drivers::{BlasDriver, BlasType, DevicePtr, Gemm, GemmSide, Raw};

const WANTED: Wanted = Wanted {
    library: "libcublas.so",
    companion: "libcublasLt.so",
    wheels: &["cu13/lib", "cublas/lib"],
    variable: "RIGEL_CUBLAS",
};

/// The library's file names, newest first. Version 12 is the first with 64-bit sizes.
const NAMES: [&str; 2] = ["libcublas.so.13", "libcublas.so.12"];

const ADVICE: &str = "Install cuBLAS of the CUDA 13 toolkit, or `pip install nvidia-cublas==13.*`, and set \
                      RIGEL_CUBLAS to the folder that holds libcublas.so.13 where it is not found by itself";

type Handle = *mut c_void;
type Status = c_int;
type Device = *const c_void;

const SUCCESS: Status = 0;

/// `cublas<t>gemm_64`: sizes, alpha, A, B, beta and C, column-major.
type OneGemm = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    i64,
    i64,
    i64,
    *const c_void,
    Device,
    i64,
    Device,
    i64,
    *const c_void,
    Device,
    i64,
) -> Status;

/// `cublas<t>gemmStridedBatched_64`: the same with a stride after each leading dimension.
type ManyGemms = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    i64,
    i64,
    i64,
    *const c_void,
    Device,
    i64,
    c_longlong,
    Device,
    i64,
    c_longlong,
    *const c_void,
    Device,
    i64,
    c_longlong,
    i64,
) -> Status;

macro_rules! functions {
    ($($field:ident = $name:literal: $type:ty;)*) => {
        /// The functions used here, with the types from `cublas_api.h`.
        struct Functions {
            $($field: $type,)*
        }

        impl Functions {
            /// Loads all functions. On failure, returns the name of the first missing one.
            fn of(library: &Library) -> Result<Self, &'static str> {
                Ok(Self { $($field: {
                    // SAFETY: the function of this name has this type in every version from 12 on.
                    let symbol = unsafe { library.get::<$type>($name.as_bytes()) };
                    *symbol.map_err(|_| $name)?
                },)* })
            }
        }
    };
}

functions! {
    create = "cublasCreate_v2": unsafe extern "C" fn(*mut Handle) -> Status;
    property = "cublasGetProperty": unsafe extern "C" fn(c_int, *mut c_int) -> Status;
    status_name = "cublasGetStatusName": unsafe extern "C" fn(Status) -> *const c_char;
    set_stream = "cublasSetStream_v2": unsafe extern "C" fn(Handle, *mut c_void) -> Status;
    set_workspace = "cublasSetWorkspace_v2": unsafe extern "C" fn(Handle, *mut c_void, usize) -> Status;
    sgemm = "cublasSgemm_v2_64": OneGemm;
    dgemm = "cublasDgemm_v2_64": OneGemm;
    zgemm = "cublasZgemm_v2_64": OneGemm;
    sgemms = "cublasSgemmStridedBatched_64": ManyGemms;
    dgemms = "cublasDgemmStridedBatched_64": ManyGemms;
    zgemms = "cublasZgemmStridedBatched_64": ManyGemms;
}

/// The loaded library.
struct Libcublas {
    path: PathBuf,
    version: [c_int; 3],
    functions: Functions,
}

/// The cuBLAS of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CublasStatus {
    /// The library's file.
    pub path: PathBuf,
    /// The library's version (`13.1.0`).
    pub version: String,
}

/// Looks for cuBLAS without opening a device. An error states the places searched and how to install it.
pub fn cublas_status() -> Result<CublasStatus> {
    let library = libcublas()?;
    let [major, minor, patch] = library.version;
    Ok(CublasStatus { path: library.path.clone(), version: format!("{major}.{minor}.{patch}") })
}

fn libcublas() -> Result<&'static Libcublas> {
    static FOUND: OnceLock<Result<Libcublas>> = OnceLock::new();
    FOUND.get_or_init(find).as_ref().map_err(Error::clone)
}

fn missing(reason: String) -> Error {
    Error::NoLibrary { library: "cuBLAS", reason, advice: ADVICE.into() }
}

fn find() -> Result<Libcublas> {
    let library = locate()?;
    let path = path_of(&library);
    let functions =
        Functions::of(&library).map_err(|name| missing(format!("{} has no {name}", path.display())))?;
    // The library stays open for the life of the process, because its function pointers are stored.
    std::mem::forget(library);
    let mut version = [0; 3];
    for (number, value) in version.iter_mut().enumerate() {
        // SAFETY: the three properties are the parts of the version; `value` outlives the call.
        let code = unsafe { (functions.property)(number as c_int, value) };
        if code != SUCCESS {
            return Err(missing(format!("cublasGetProperty failed: {}", name_of(&functions, code))));
        }
    }
    Ok(Libcublas { path, version, functions })
}

/// The library's file, according to the loader.
fn path_of(library: &Library) -> PathBuf {
    // SAFETY: the address is not called through this type.
    let symbol = unsafe { library.get::<unsafe extern "C" fn()>(b"cublasCreate_v2") };
    let path = symbol.ok().and_then(|symbol| search::file_of(*symbol as *const c_void));
    path.unwrap_or_else(|| WANTED.library.into())
}

fn locate() -> Result<Library> {
    if let Some(place) = WANTED.named() {
        let refused = |reason: String| missing(format!("{}={}: {reason}", WANTED.variable, place.display()));
        let file = WANTED.preload(&place).map_err(refused)?;
        return open(&file, RTLD_NOW).ok_or_else(|| refused("it can't be loaded".into()));
    }
    // RTLD_NOLOAD finds only libraries that are already loaded.
    let found = [RTLD_LAZY | RTLD_LOCAL | libc::RTLD_NOLOAD, RTLD_NOW | RTLD_LOCAL]
        .into_iter()
        .find_map(|flags| NAMES.iter().find_map(|name| open(name, flags)));
    if let Some(library) = found {
        return Ok(library);
    }
    let places = WANTED.places();
    let mut refusals = Vec::new();
    for place in &places {
        match WANTED.preload(place) {
            Ok(file) => {
                if let Some(library) = open(&file, RTLD_NOW) {
                    return Ok(library);
                }
            }
            // Report only libraries that exist but can't be loaded.
            Err(reason) if reason.starts_with("there is no") => {}
            Err(reason) => refusals.push(reason),
        }
    }
    let mut reason =
        format!("{} is not on the loader's path, nor in {}", NAMES.join(" or "), search::list(&places));
    if !refusals.is_empty() {
        reason = format!("{reason} ({})", refusals.join("; "));
    }
    Err(missing(reason))
}

fn open(file: impl AsRef<OsStr>, flags: c_int) -> Option<Library> {
    // SAFETY: the file is cuBLAS by its name, or the user named it. Loading it runs its initialisers, which are
    // safe to run in any process.
    unsafe { Library::open(Some(file), flags) }.ok()
}

fn name_of(functions: &Functions, code: Status) -> String {
    // SAFETY: cuBLAS returns a constant, NUL-terminated string for every code.
    let name = unsafe { (functions.status_name)(code) };
    if name.is_null() {
        return format!("status {code}");
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

/// Handles that are not in use, with the context of each.
///
/// A handle is never destroyed: cublasDestroy synchronizes the context, which invalidates every capture in it and,
/// in the driver of CUDA 13.0, can crash the capturing thread. The next user of the device takes the handle instead.
static IDLE: Lock<Vec<(Raw, Raw)>> = Lock::new(Vec::new());

impl BlasDriver for Cuda {
    fn acquire_blas(&self) -> Result<Raw> {
        let mut idle = IDLE.lock();
        if let Some(found) = idle.iter().position(|(context, _)| *context == handle(self.context.handle)) {
            return Ok(idle.swap_remove(found).1);
        }
        drop(idle);
        let mut opened: Handle = ptr::null_mut();
        // SAFETY: `opened` outlives the call. The default math mode uses plain FP32 arithmetic.
        self.blas_call("cublasCreate", |cublas| unsafe { (cublas.create)(&mut opened) })?;
        // The handle belongs to the context, so the context has to live as long: for the rest of the process.
        self.context.keep();
        Ok(handle(opened))
    }

    fn release_blas(&self, blas: Raw) {
        IDLE.lock().push((handle(self.context.handle), blas));
    }

    /// # Safety
    ///
    /// See [`Driver::gemm`](crate::drivers::Driver::gemm).
    unsafe fn gemm(
        &self,
        blas: Raw,
        stream: Raw,
        (workspace, bytes): (DevicePtr, usize),
        gemm: &Gemm,
    ) -> Result<()> {
        let blas: Handle = pointer(blas);
        // SAFETY: handle and stream are live.
        self.blas_call("cublasSetStream", |cublas| unsafe { (cublas.set_stream)(blas, pointer(stream)) })?;
        // cublasSetStream resets the workspace, so this call has to come after it.
        // SAFETY: the caller guarantees the workspace until the product is complete.
        self.blas_call("cublasSetWorkspace", |cublas| unsafe {
            (cublas.set_workspace)(blas, pointer(Raw(workspace.0)), bytes)
        })?;
        let [m, n, k] = gemm.sizes.map(|size| size as i64);
        let at = |side: &GemmSide| pointer::<c_void>(Raw(side.at.0)).cast_const();
        let operation = |side: &GemmSide| c_int::from(side.transposed);
        let leading = |side: &GemmSide| side.leading as i64;
        let stride = |side: &GemmSide| side.stride as c_longlong;
        let (a, b, c) = (&gemm.left, &gemm.right, &gemm.out);
        let (alpha, beta): (*const c_void, *const c_void) = match gemm.of {
            BlasType::F32 => (ptr::from_ref(&1.0f32).cast(), ptr::from_ref(&0.0f32).cast()),
            BlasType::F64 => (ptr::from_ref(&1.0f64).cast(), ptr::from_ref(&0.0f64).cast()),
            BlasType::C128 => (ptr::from_ref(&[1.0f64, 0.0]).cast(), ptr::from_ref(&[0.0f64, 0.0]).cast()),
        };
        if gemm.batch == 1 {
            return self.blas_call("cublasGemm", |cublas| {
                let function = match gemm.of {
                    BlasType::F32 => cublas.sgemm,
                    BlasType::F64 => cublas.dgemm,
                    BlasType::C128 => cublas.zgemm,
                };
                // SAFETY: the caller guarantees the matrices; the two factors are constants of the type.
                unsafe {
                    function(
                        blas,
                        operation(a),
                        operation(b),
                        m,
                        n,
                        k,
                        alpha,
                        at(a),
                        leading(a),
                        at(b),
                        leading(b),
                        beta,
                        at(c),
                        leading(c),
                    )
                }
            });
        }
        self.blas_call("cublasGemmStridedBatched", |cublas| {
            let function = match gemm.of {
                BlasType::F32 => cublas.sgemms,
                BlasType::F64 => cublas.dgemms,
                BlasType::C128 => cublas.zgemms,
            };
            // SAFETY: as above.
            unsafe {
                function(
                    blas,
                    operation(a),
                    operation(b),
                    m,
                    n,
                    k,
                    alpha,
                    at(a),
                    leading(a),
                    stride(a),
                    at(b),
                    leading(b),
                    stride(b),
                    beta,
                    at(c),
                    leading(c),
                    stride(c),
                    gemm.batch as i64,
                )
            }
        })
    }
}

impl Cuda {
    /// Makes the cuBLAS call named `operation` in this device's context.
    fn blas_call(&self, operation: &'static str, call: impl FnOnce(&Functions) -> Status) -> Result<()> {
        let functions = &libcublas()?.functions;
        let mut status = SUCCESS;
        self.call(operation, || {
            status = call(functions);
            CUresult::CUDA_SUCCESS
        })?;
        if status == SUCCESS { Ok(()) } else { Err(self.refuse(operation, name_of(functions, status))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_with_the_places() {
        match cublas_status() {
            Ok(status) => assert!(status.version.starts_with("1"), "{status:?}"),
            Err(error) => {
                let words = error.to_string();
                assert!(words.contains("libcublas.so") && words.contains("pip install nvidia-cublas"), "{words}");
            }
        }
    }
}
