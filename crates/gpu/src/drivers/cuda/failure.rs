//! Maps the driver's result codes to [`Error`]s.

use std::ffi::CStr;
use std::ptr;

use cudarc::driver::sys::{self, CUresult};

use crate::base::Error;

/// The driver's name and description of a code: `CUDA_ERROR_OUT_OF_MEMORY (out of memory)`.
pub(super) fn describe(code: CUresult) -> String {
    let mut words = ptr::null();
    // SAFETY: a code can only come from a loaded driver, and `library` checks that this symbol exists.
    let known = unsafe { sys::cuGetErrorString(code, &mut words) };
    if known != CUresult::CUDA_SUCCESS || words.is_null() {
        return format!("{code:?}");
    }
    // SAFETY: the driver returned a constant, NUL-terminated string.
    let words = unsafe { CStr::from_ptr(words) };
    format!("{code:?} ({})", words.to_string_lossy())
}

/// Whether a code means that the context is unusable: every later call on it returns the same code.
fn is_lost(code: CUresult) -> bool {
    use CUresult::*;
    matches!(
        code,
        CUDA_ERROR_DEINITIALIZED
            | CUDA_ERROR_DEVICE_UNAVAILABLE
            | CUDA_ERROR_ECC_UNCORRECTABLE
            | CUDA_ERROR_NVLINK_UNCORRECTABLE
            | CUDA_ERROR_CONTAINED
            | CUDA_ERROR_ILLEGAL_ADDRESS
            | CUDA_ERROR_LAUNCH_TIMEOUT
            | CUDA_ERROR_CONTEXT_IS_DESTROYED
            | CUDA_ERROR_ASSERT
            | CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUDA_ERROR_MISALIGNED_ADDRESS
            | CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUDA_ERROR_INVALID_PC
            | CUDA_ERROR_LAUNCH_FAILED
            | CUDA_ERROR_TENSOR_MEMORY_LEAK
            | CUDA_ERROR_SYSTEM_NOT_READY
            | CUDA_ERROR_MPS_RPC_FAILURE
            | CUDA_ERROR_MPS_CLIENT_TERMINATED
            | CUDA_ERROR_UNKNOWN
    )
}

/// The generic error of a call that failed with `code`.
pub(super) fn failure(device: String, operation: &'static str, code: CUresult) -> Error {
    let detail = describe(code);
    if is_lost(code) {
        Error::DeviceLost { device, operation, detail }
    } else {
        Error::Driver { device, operation, detail }
    }
}
