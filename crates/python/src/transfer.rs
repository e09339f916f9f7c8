//! Copies between devices.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rigel_array::{Array, Device, Pending};

use crate::arguments::device as parse_device;
use crate::array::PyArray;
use crate::work::{interruptible, released, settle};
use rigel_gpu::Lock;

fn moved(py: Python<'_>, array: &Array, to: &Device) -> PyResult<PyArray> {
    if array.device() != *to {
        settle(py, &array.device())?;
    }
    released(py, || array.to(to)).map(PyArray::from)
}

#[pymethods]
impl PyArray {
    /// The array on a device: itself if it is there, or a copy.
    ///
    /// >>> import rigel
    /// >>> rigel.arange(3).to("cpu").device
    /// 'cpu'
    fn to(&self, py: Python<'_>, device: &Bound<'_, PyAny>) -> PyResult<Self> {
        moved(py, &self.array, &parse_device(Some(device))?)
    }

    /// The array on a CUDA device.
    #[pyo3(signature = (index=0))]
    fn cuda(&self, py: Python<'_>, index: u32) -> PyResult<Self> {
        let device = crate::arguments::open(py, &format!("cuda:{index}"))?;
        moved(py, &self.array, &device)
    }

    /// The array on the CPU. Waits for the device.
    fn cpu(&self, py: Python<'_>) -> PyResult<Self> {
        moved(py, &self.array, &Device::Cpu)
    }

    /// Starts an asynchronous copy to another device and returns immediately. `Pending.wait` returns the array.
    ///
    /// >>> import rigel
    /// >>> pending = rigel.arange(3).send("cpu")
    /// >>> pending.wait()
    /// array([0, 1, 2])
    fn send(&self, py: Python<'_>, device: &Bound<'_, PyAny>) -> PyResult<PyPending> {
        let device = parse_device(Some(device))?;
        let pending = released(py, || self.array.send(&device))?;
        Ok(PyPending(Lock::new(State::UnderWay(pending))))
    }
}

enum State {
    UnderWay(Pending),
    Here(Array),
    /// A wait was interrupted, or failed.
    Gone,
}

/// An asynchronous copy to another device. `Array.send` returns it.
#[pyclass(frozen, module = "rigel", name = "Pending")]
pub(crate) struct PyPending(Lock<State>);

#[pymethods]
impl PyPending {
    /// Returns the array. Waits for the host's part of the copy.
    fn wait(&self, py: Python<'_>) -> PyResult<PyArray> {
        let take = || std::mem::replace(&mut *self.0.lock(), State::Gone);
        let array = match take() {
            State::Here(array) => array,
            State::UnderWay(pending) if pending.is_ready() => released(py, || pending.wait())?,
            State::UnderWay(pending) => interruptible(py, || pending.wait())?,
            State::Gone => {
                return Err(PyRuntimeError::new_err("the copy was abandoned, or another thread waits for it"));
            }
        };
        *self.0.lock() = State::Here(array.clone());
        Ok(array.into())
    }

    /// Whether `wait` would return immediately.
    #[getter]
    fn ready(&self) -> bool {
        match &*self.0.lock() {
            State::UnderWay(pending) => pending.is_ready(),
            State::Here(_) => true,
            State::Gone => false,
        }
    }

    fn __repr__(&self) -> &'static str {
        if self.ready() { "Pending(ready)" } else { "Pending(in progress)" }
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyPending>()
}
