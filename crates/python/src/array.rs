//! The class `rigel.Array`. Its methods are in `methods`, `operators` and other files.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use rigel_array::{Array, Device, Unary};

use crate::work::{on, quick};

/// An n-dimensional array of numbers or of finite-field elements, on the CPU or on a GPU.
///
/// As in NumPy, operators work element by element and broadcast, and slices and transposes share memory.
/// `rigel.array` and similar functions create arrays; `to`, `cuda` and `cpu` move them.
///
/// >>> import rigel
/// >>> a = rigel.array([[1.0, 2.0], [3.0, 4.0]])
/// >>> a @ a + 1
/// array([[ 8., 11.],
///        [16., 23.]])
/// >>> a[0].sum().item(), a.T.shape, a.device
/// (3.0, (2, 2), 'cpu')
#[pyclass(frozen, module = "rigel", name = "Array", weakref)]
pub(crate) struct PyArray {
    pub(crate) array: Array,
    /// Whether the device memory was exported to another library, which may still use it when this is dropped.
    handed_out: AtomicBool,
}

impl From<Array> for PyArray {
    fn from(array: Array) -> Self {
        Self { array, handed_out: AtomicBool::new(false) }
    }
}

impl PyArray {
    /// Records that the memory was exported to another library.
    pub(crate) fn hand_out(&self) {
        self.handed_out.store(true, Ordering::Relaxed);
    }

    /// An operation on every element.
    pub(crate) fn unary(&self, py: Python<'_>, operation: Unary) -> PyResult<Self> {
        on(py, &self.array, || self.array.unary(operation)).map(Self::from)
    }
}

impl Drop for PyArray {
    fn drop(&mut self) {
        if *self.handed_out.get_mut() {
            // The consumer held this object while it enqueued work.
            take_back(&self.array);
        }
    }
}

/// Takes the memory of an array back that was exported, and that its consumer does not need any more.
pub(crate) fn take_back(array: &Array) {
    if quick(|| array.reclaim()).is_err() {
        // The consumer's work may still use the memory, and nothing tells when it ends.
        std::mem::forget(array.clone());
    }
}

/// The common device of arrays, by default the CPU.
pub(crate) fn device_of(arrays: &[Array]) -> Device {
    arrays.first().map_or(Device::Cpu, Array::device)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyArray>()
}
