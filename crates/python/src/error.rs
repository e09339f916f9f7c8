//! Maps errors to Python exceptions, with the same messages.

use pyo3::create_exception;
use pyo3::exceptions::{
    PyIndexError, PyMemoryError, PyOverflowError, PyRuntimeError, PyTypeError, PyValueError, PyZeroDivisionError,
};
use pyo3::prelude::*;
use rigel_array::Error;

create_exception!(
    rigel,
    DeviceError,
    PyRuntimeError,
    "A device is missing, lost or reported an error, or an operation combines arrays of different devices."
);
create_exception!(
    rigel,
    CompileError,
    PyRuntimeError,
    "A kernel does not compile; the message has the compiler's log."
);

/// The exception for an error of the array library.
#[cold]
pub(crate) fn raise(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Shape(_) | Error::Gpu(rigel_gpu::Error::Shape { .. }) => PyValueError::new_err(text),
        Error::Type(_) => PyTypeError::new_err(text),
        Error::Range(_) => PyOverflowError::new_err(text),
        Error::Index(_) => PyIndexError::new_err(text),
        Error::NotInvertible { .. } => PyZeroDivisionError::new_err(text),
        Error::HostMemory(_)
        | Error::Gpu(rigel_gpu::Error::OutOfMemory { .. } | rigel_gpu::Error::OutOfPinnedMemory { .. }) => {
            PyMemoryError::new_err(text)
        }
        Error::Gpu(rigel_gpu::Error::Compile { .. }) => CompileError::new_err(text),
        _ => DeviceError::new_err(text),
    }
}

/// The exception for an error of `rigel-gpu`.
#[cold]
pub(crate) fn raise_gpu(error: rigel_gpu::Error) -> PyErr {
    raise(Error::Gpu(error))
}

/// The error for an object that can't be converted.
pub(crate) fn refused(given: &Bound<'_, PyAny>, why: &str) -> PyErr {
    let class = given.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("can't convert this {class} to an array: {why}"))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("DeviceError", module.py().get_type::<DeviceError>())?;
    module.add("CompileError", module.py().get_type::<CompileError>())
}
