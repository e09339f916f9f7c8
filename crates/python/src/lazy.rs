//! The class `rigel.Lazy`: expressions that are evaluated on demand, in one pass over memory.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rigel_array::{Lazy, Reduction};

use crate::arguments::axes;
use crate::array::PyArray;
use crate::dtype::{self, DType};
use crate::error::raise;
use crate::work::{quick, released};

/// An element-wise expression over arrays that is not evaluated yet.
///
/// Operators and the functions of this module build it, and `eval` computes it in one pass over memory. On a GPU
/// that is one kernel, compiled once per expression for any arrays and numbers.
///
/// >>> import rigel
/// >>> a = rigel.linspace(0.0, 1.0, 3)
/// >>> (rigel.lazy(a) * 2 + rigel.exp(rigel.lazy(a) * 0)).eval()
/// array([1., 2., 3.])
#[pyclass(frozen, module = "rigel", name = "Lazy")]
pub(crate) struct PyLazy(pub(crate) Lazy);

#[pymethods]
impl PyLazy {
    /// Makes NumPy's operators defer to this class.
    #[classattr]
    fn __array_ufunc__() -> Option<bool> {
        None
    }

    /// Evaluates the expression.
    fn eval(&self, py: Python<'_>) -> PyResult<PyArray> {
        released(py, || self.0.eval()).map(PyArray::from)
    }

    /// The shape of the result.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.shape().map_err(raise)?)
    }

    /// The element type of the result.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<DType>> {
        dtype::object(py, self.0.dtype().map_err(raise)?)
    }

    /// Converts the values to another type.
    fn astype(&self, dtype: &Bound<'_, PyAny>) -> PyResult<Self> {
        let dtype = dtype::parse(dtype)?;
        quick(|| Ok(Self(self.0.clone().astype(dtype))))
    }

    /// The sum along axes, computed in the same pass.
    #[pyo3(signature = (axis=None, keepdims=false))]
    fn sum(&self, py: Python<'_>, axis: Option<&Bound<'_, PyAny>>, keepdims: bool) -> PyResult<PyArray> {
        reduced(py, self.0.clone(), Reduction::Sum, axis, keepdims)
    }

    /// The product along axes, computed in the same pass.
    #[pyo3(signature = (axis=None, keepdims=false))]
    fn prod(&self, py: Python<'_>, axis: Option<&Bound<'_, PyAny>>, keepdims: bool) -> PyResult<PyArray> {
        reduced(py, self.0.clone(), Reduction::Product, axis, keepdims)
    }

    /// The minimum along axes, computed in the same pass.
    #[pyo3(signature = (axis=None, keepdims=false))]
    fn min(&self, py: Python<'_>, axis: Option<&Bound<'_, PyAny>>, keepdims: bool) -> PyResult<PyArray> {
        reduced(py, self.0.clone(), Reduction::Min, axis, keepdims)
    }

    /// The maximum along axes, computed in the same pass.
    #[pyo3(signature = (axis=None, keepdims=false))]
    fn max(&self, py: Python<'_>, axis: Option<&Bound<'_, PyAny>>, keepdims: bool) -> PyResult<PyArray> {
        reduced(py, self.0.clone(), Reduction::Max, axis, keepdims)
    }

    /// The mean along axes, computed in the same pass.
    #[pyo3(signature = (axis=None, keepdims=false))]
    fn mean(&self, py: Python<'_>, axis: Option<&Bound<'_, PyAny>>, keepdims: bool) -> PyResult<PyArray> {
        averaged(py, self.0.clone(), axis, keepdims)
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        let array = released(py, || self.0.eval())?;
        crate::elements::one(py, &array)?.is_truthy()
    }

    fn __repr__(&self) -> String {
        match (self.0.shape(), self.0.dtype()) {
            (Ok(shape), Ok(of)) => format!("Lazy(shape={shape:?}, dtype={})", rigel_array::name(of)),
            (Err(error), _) | (_, Err(error)) => format!("Lazy(<{error}>)"),
        }
    }
}

/// A reduction of an expression.
pub(crate) fn reduced(
    py: Python<'_>,
    lazy: Lazy,
    reduction: Reduction,
    axis: Option<&Bound<'_, PyAny>>,
    keep: bool,
) -> PyResult<PyArray> {
    let axes = axes(axis)?;
    released(py, || lazy.reduce(reduction, axes, keep)).map(PyArray::from)
}

/// The mean of an expression.
pub(crate) fn averaged(
    py: Python<'_>,
    lazy: Lazy,
    axis: Option<&Bound<'_, PyAny>>,
    keep: bool,
) -> PyResult<PyArray> {
    let axes = axes(axis)?;
    released(py, || lazy.mean(axes, keep)).map(PyArray::from)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyLazy>()
}
