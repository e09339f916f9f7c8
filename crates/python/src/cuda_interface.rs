//! Zero-copy exchange with libraries on CUDA devices (CuPy, Numba, PyTorch), by `__cuda_array_interface__`,
//! version 3.

use pyo3::exceptions::PyAttributeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rigel_array::{Array, Device, Result, name};
use rigel_gpu::DeviceKind;

use crate::array::PyArray;
use crate::error::refused;
use crate::numpy::{Description, strides_of, typestr};
use crate::work::{quick, released};

/// CUDA's legacy default stream, which synchronizes with all blocking streams.
pub(crate) const LEGACY_STREAM: u64 = 1;

/// The handle of a stream that has waited for the work enqueued on the device's compute stream so far. It is another
/// one, because launches on a stream that other libraries know are not gathered.
fn shared_stream(device: &rigel_gpu::Device) -> Result<u64> {
    let stream = device.interop_lane()?;
    stream.wait_for(&device.compute()?)?;
    Ok(stream.raw_handle())
}

/// An array over the memory of an object with `__cuda_array_interface__`. The device waits for the object's
/// stream.
pub(crate) fn adopt(given: &Bound<'_, PyAny>, interface: &Bound<'_, PyAny>) -> PyResult<Array> {
    let py = given.py();
    let description = Description::of(given, interface)?;
    let Some(of) = description.dtype() else {
        return Err(refused(
            given,
            &format!("elements of type {} have no counterpart; convert them with its astype", description.typestr),
        ));
    };
    let stream: Option<u64> = match interface.cast::<PyDict>()?.get_item(intern!(py, "stream"))? {
        Some(stream) if !stream.is_none() => Some(stream.extract()?),
        _ => None,
    };
    let ordinal = device_number(given)?;
    if description.shape.contains(&0) {
        let device = released(py, || Device::open(&format!("cuda:{}", ordinal.unwrap_or(0))))?;
        return released(py, || Array::zeros(&description.shape, of, &device));
    }
    let item = of.bytes();
    let strides = description.byte_strides(item);
    let aligned = description.address.is_multiple_of(item)
        && strides.iter().all(|stride| stride.unsigned_abs().is_multiple_of(item));
    if !aligned {
        return Err(refused(given, "its elements are not aligned to their size; copy it first"));
    }
    let in_elements: Vec<isize> = strides.iter().map(|stride| stride / item as isize).collect();
    let (below, bytes) = description.reach(item);
    let address = (description.address - below) as u64;
    let candidates = match ordinal {
        Some(ordinal) => vec![ordinal],
        None => (0..released(py, || Ok(rigel_gpu::cuda_status().devices?))?).collect(),
    };
    let mut failure = refused(given, "there is no CUDA device");
    for ordinal in candidates {
        let owner: Box<Py<PyAny>> = Box::new(given.clone().unbind());
        let adopted = quick(|| {
            let device = Device::open(&format!("cuda:{ordinal}"))?;
            let Device::Gpu(device) = &device else { unreachable!("a CUDA device") };
            if let Some(stream) = stream {
                // SAFETY: the interface guarantees a stream of the device's primary context.
                unsafe { device.compute()?.wait_foreign(stream)? };
            }
            // SAFETY: the interface guarantees memory for every index of its shape while the object lives, and the
            // owner keeps the object; the streams exchanged here and on export order other users.
            let buffer = unsafe { device.adopt(address, bytes, owner)? };
            Array::from_buffer(buffer, &description.shape, &in_elements, below / item, of)
        });
        match adopted {
            Ok(array) if description.read_only => return released(py, || array.copy()),
            Ok(array) => return Ok(array),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// The CUDA device number that an object reports, if it does.
fn device_number(given: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
    let py = given.py();
    if given.hasattr(intern!(py, "__dlpack_device__"))? {
        let (_, ordinal): (i32, u32) = given.call_method0(intern!(py, "__dlpack_device__"))?.extract()?;
        return Ok(Some(ordinal));
    }
    Ok(None)
}

#[pymethods]
impl PyArray {
    /// CUDA's description of the memory, for arrays on a GPU.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let array = &self.array;
        let device = match array.device() {
            // Other libraries do not share the context of a device that is opened once more (`cuda:0#1`).
            Device::Gpu(device) if device.kind() == DeviceKind::Cuda && device.properties().context == 0 => device,
            other => {
                return Err(PyAttributeError::new_err(format!(
                    "the array is on {other}, which is not a CUDA device that other libraries can access"
                )));
            }
        };
        let Some(typestr) = typestr(array.dtype()) else {
            return Err(PyAttributeError::new_err(format!(
                "elements of {} are not stored as plain integers; make such with astype",
                name(array.dtype())
            )));
        };
        let stream = quick(|| {
            array.order_uses()?;
            shared_stream(&device)
        })?;
        self.hand_out();
        let interface = PyDict::new(py);
        interface.set_item(intern!(py, "version"), 3)?;
        interface.set_item(intern!(py, "shape"), PyTuple::new(py, array.shape())?)?;
        interface.set_item(intern!(py, "typestr"), typestr)?;
        interface.set_item(intern!(py, "data"), (array.address(), false))?;
        interface.set_item(intern!(py, "strides"), strides_of(py, array)?)?;
        interface.set_item(intern!(py, "stream"), stream)?;
        Ok(interface)
    }
}
