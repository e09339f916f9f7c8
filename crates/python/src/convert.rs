//! Converts any object to an array: by its memory if it exports it, by its numbers otherwise.

use pyo3::intern;
use pyo3::prelude::*;
use rigel_array::{Array, Device, Type};

use crate::array::PyArray;
use crate::lazy::PyLazy;
use crate::work::{guard, released};
use crate::{cuda_interface, dlpack, numpy, parse};

/// The requested properties.
pub(crate) struct Wish {
    /// The element type; `None` keeps the object's.
    pub(crate) dtype: Option<Type>,
    /// The device; `None` keeps the object's.
    pub(crate) device: Option<Device>,
    /// Whether to copy in any case.
    pub(crate) copy: bool,
}

/// Keeps the object's own type and device.
pub(crate) fn anything() -> Wish {
    Wish { dtype: None, device: None, copy: false }
}

/// Converts an object to an array.
pub(crate) fn array(given: &Bound<'_, PyAny>, wish: &Wish) -> PyResult<Array> {
    guard(|| of_object(given, wish))
}

fn of_object(given: &Bound<'_, PyAny>, wish: &Wish) -> PyResult<Array> {
    let py = given.py();
    if let Ok(array) = given.cast::<PyArray>() {
        return placed(py, array.get().array.clone(), wish, false);
    }
    if let Ok(lazy) = given.cast::<PyLazy>() {
        let lazy = lazy.get().0.clone();
        return placed(py, released(py, || lazy.eval())?, wish, true);
    }
    if let Some(interface) = given.getattr_opt(intern!(py, "__array_interface__"))? {
        let found = numpy::adopt(given, &interface)?;
        return placed(py, with_coefficients(found.array, wish)?, wish, found.copied);
    }
    if let Some(interface) = given.getattr_opt(intern!(py, "__cuda_array_interface__"))? {
        return placed(py, cuda_interface::adopt(given, &interface)?, wish, false);
    }
    if given.hasattr(intern!(py, "__dlpack__"))? {
        return placed(py, dlpack::adopt(given)?, wish, false);
    }
    if given.hasattr(intern!(py, "__array__"))? {
        let plain = given.call_method0(intern!(py, "__array__"))?;
        let interface = plain.getattr(intern!(py, "__array_interface__"))?;
        let found = numpy::adopt(&plain, &interface)?;
        return placed(py, found.array, wish, found.copied);
    }
    let device = wish.device.clone().unwrap_or(Device::Cpu);
    parse::nested(given, wish.dtype, &device)
}

/// The arrays of a sequence.
pub(crate) fn several(given: &Bound<'_, PyAny>) -> PyResult<Vec<Array>> {
    let mut arrays = Vec::new();
    for entry in given.try_iter()? {
        let entry = entry?;
        match entry.cast::<PyArray>() {
            Ok(known) => arrays.push(known.get().array.clone()),
            Err(_) => arrays.push(array(
                &entry,
                &Wish { dtype: None, device: arrays.first().map(Array::device), copy: false },
            )?),
        }
    }
    Ok(arrays)
}

/// Whether an object exports its memory by a supported protocol.
pub(crate) fn is_array_like(given: &Bound<'_, PyAny>) -> PyResult<bool> {
    for name in ["__array_interface__", "__cuda_array_interface__", "__dlpack__", "__array__"] {
        if given.getattr_opt(name)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// NumPy integers for an extension field are coefficients, as in nested lists.
fn with_coefficients(array: Array, wish: &Wish) -> PyResult<Array> {
    match wish.dtype {
        Some(of) if of.degree() > 1 && !array.dtype().is_field() && array.axes() > 0 => {
            let made = array.astype(of.base()).and_then(|array| array.from_coefficients(of));
            made.map_err(crate::error::raise)
        }
        _ => Ok(array),
    }
}

/// Converts the array to the requested type and device.
fn placed(py: Python<'_>, array: Array, wish: &Wish, is_own: bool) -> PyResult<Array> {
    released(py, || {
        let memory = array.address();
        let mut result = array;
        if let Some(dtype) = wish.dtype {
            result = result.astype(dtype)?;
        }
        if let Some(device) = &wish.device {
            result = result.to(device)?;
        }
        if wish.copy && !is_own && result.address() == memory { result.copy() } else { Ok(result) }
    })
}
