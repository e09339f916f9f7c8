//! Parses shapes, axes and devices from Python arguments.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use rigel_array::{Axes, Device};

use crate::error::DeviceError;
use crate::work::released;

/// A device by name; by default the CPU.
pub(crate) fn device(given: Option<&Bound<'_, PyAny>>) -> PyResult<Device> {
    Ok(device_option(given)?.unwrap_or(Device::Cpu))
}

/// A device by name, if one is given.
pub(crate) fn device_option(given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Device>> {
    let Some(given) = given.filter(|given| !given.is_none()) else { return Ok(None) };
    let Ok(text) = given.cast::<PyString>() else {
        return Err(PyTypeError::new_err(format!(
            "a device must be a string such as 'cpu', 'cuda:0' or 'emulated', not {}",
            given.repr()?
        )));
    };
    let name = text.to_str()?;
    if name == "cpu" {
        return Ok(Some(Device::Cpu));
    }
    open(given.py(), name).map(Some)
}

/// Opens a device by name.
pub(crate) fn open(py: Python<'_>, name: &str) -> PyResult<Device> {
    released(py, || Device::open(name)).map_err(|error| {
        if name.starts_with("cuda") && error.is_instance_of::<DeviceError>(py) {
            DeviceError::new_err(format!("{}. device=\"cpu\" needs no GPU", error.value(py)))
        } else {
            error
        }
    })
}

/// An integer or a sequence of integers.
pub(crate) fn integers(given: &Bound<'_, PyAny>) -> PyResult<Vec<isize>> {
    if let Ok(one) = given.extract::<isize>() {
        return Ok(vec![one]);
    }
    given.extract::<Vec<isize>>().map_err(|_| {
        let text = given.repr().map_or_else(|_| "?".to_owned(), |text| text.to_string());
        PyTypeError::new_err(format!("expected an integer or a tuple of integers, not {text}"))
    })
}

/// The lengths of axes.
pub(crate) fn shape(given: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let negative = |length: isize| PyValueError::new_err(format!("an axis can't have a length of {length}"));
    integers(given)?.into_iter().map(|length| usize::try_from(length).map_err(|_| negative(length))).collect()
}

/// The axes of a reduction; by default all.
pub(crate) fn axes(given: Option<&Bound<'_, PyAny>>) -> PyResult<Axes> {
    match given.filter(|given| !given.is_none()) {
        None => Ok(Axes::All),
        Some(given) => integers(given).map(Axes::These),
    }
}
