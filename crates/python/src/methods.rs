//! The methods of `rigel.Array`: its properties, views, and elements as Python numbers.

use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use rigel_array::{Array, NumberKind, Reduction, Type, Unary, name};

use crate::arguments::{device, integers};
use crate::array::PyArray;
use crate::dtype::{self, DType};
use crate::elements;
use crate::work::{on, quick, released, settle};

/// The numbers of `*shape`, given separately or as one tuple.
fn spread(given: &Bound<'_, PyTuple>) -> PyResult<Vec<isize>> {
    match given.len() {
        1 => integers(&given.get_item(0)?),
        _ => integers(given.as_any()),
    }
}

#[pymethods]
impl PyArray {
    /// Higher than that of NumPy arrays, for mixed operations.
    #[classattr]
    fn __array_priority__() -> f64 {
        1000.0
    }

    /// The length of each axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.array.shape())
    }

    /// The distance from one element to the next along each axis, in bytes.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let item = self.array.dtype().bytes() as isize;
        PyTuple::new(py, self.array.strides().iter().map(|stride| stride * item))
    }

    /// The type of the elements.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<DType>> {
        dtype::object(py, self.array.dtype())
    }

    /// The number of axes.
    #[getter]
    fn ndim(&self) -> usize {
        self.array.axes()
    }

    /// The number of elements.
    #[getter]
    fn size(&self) -> usize {
        self.array.len()
    }

    /// The size of an element in bytes.
    #[getter]
    fn itemsize(&self) -> usize {
        self.array.dtype().bytes()
    }

    /// The size of all elements in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.array.bytes()
    }

    /// The device of the array: `cpu`, `cuda:0`, ...
    #[getter]
    fn device(&self) -> String {
        self.array.device().to_string()
    }

    /// The axes in reverse order, over the same memory.
    #[getter(T)]
    fn transposed(&self) -> Self {
        self.array.transpose().into()
    }

    /// The real part.
    #[getter]
    fn real(&self, py: Python<'_>) -> PyResult<Self> {
        self.unary(py, Unary::Real)
    }

    /// The imaginary part.
    #[getter]
    fn imag(&self, py: Python<'_>) -> PyResult<Self> {
        self.unary(py, Unary::Imag)
    }

    // --- views -----------------------------------------------------------------------------------------------

    /// Arranges the elements in another shape, over the same memory if possible. One length may be -1 and is then
    /// inferred.
    ///
    /// >>> import rigel
    /// >>> rigel.arange(6).reshape(2, -1)
    /// array([[0, 1, 2],
    ///        [3, 4, 5]])
    #[pyo3(signature = (*shape))]
    fn reshape(&self, py: Python<'_>, shape: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let shape = spread(shape)?;
        on(py, &self.array, || self.array.reshape(&shape)).map(Self::from)
    }

    /// Permutes the axes, or reverses them by default; over the same memory.
    ///
    /// >>> import rigel
    /// >>> rigel.zeros((2, 3, 4)).transpose(2, 0, 1).shape
    /// (4, 2, 3)
    #[pyo3(signature = (*axes))]
    fn transpose(&self, axes: &Bound<'_, PyTuple>) -> PyResult<Self> {
        if axes.is_empty() || (axes.len() == 1 && axes.get_item(0)?.is_none()) {
            return Ok(self.transposed());
        }
        let axes = spread(axes)?;
        quick(|| self.array.permute(&axes)).map(Self::from)
    }

    /// Swaps two axes; over the same memory.
    fn swapaxes(&self, axis1: isize, axis2: isize) -> PyResult<Self> {
        quick(|| self.array.swap_axes(axis1, axis2)).map(Self::from)
    }

    /// Removes axes of length 1, or only the given ones; over the same memory.
    #[pyo3(signature = (axis=None))]
    fn squeeze(&self, axis: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(axis) = axis.filter(|axis| !axis.is_none()) else { return Ok(self.array.squeeze().into()) };
        let axes = self.array.axes() as isize;
        let mut shape: Vec<Option<isize>> =
            self.array.shape().iter().map(|&length| Some(length as isize)).collect();
        for axis in integers(axis)? {
            let at = if axis < 0 { axis + axes } else { axis };
            match usize::try_from(at).ok().and_then(|at| shape.get_mut(at)) {
                Some(length) if *length == Some(1) => *length = None,
                _ => {
                    return Err(PyValueError::new_err(format!(
                        "axis {axis} of shape {:?} can't be squeezed: its length is not 1",
                        self.array.shape()
                    )));
                }
            }
        }
        let left: Vec<isize> = shape.into_iter().flatten().collect();
        quick(|| self.array.reshape(&left)).map(Self::from)
    }

    /// Inserts an axis of length 1 before the given axis; over the same memory.
    fn expand_dims(&self, axis: isize) -> PyResult<Self> {
        quick(|| self.array.expand(axis)).map(Self::from)
    }

    /// Flattens to one axis, over the same memory if possible.
    fn ravel(&self, py: Python<'_>) -> PyResult<Self> {
        on(py, &self.array, || self.array.reshape(&[-1])).map(Self::from)
    }

    /// A flattened copy.
    fn flatten(&self, py: Python<'_>) -> PyResult<Self> {
        on(py, &self.array, || self.array.copy()?.reshape(&[self.array.len() as isize])).map(Self::from)
    }

    /// Repeats the array along new axes and axes of length 1, over the same memory.
    fn broadcast_to(&self, shape: &Bound<'_, PyAny>) -> PyResult<Self> {
        let shape = crate::arguments::shape(shape)?;
        quick(|| self.array.broadcast_to(&shape)).map(Self::from)
    }

    /// Converts the elements to another type.
    ///
    /// >>> import rigel
    /// >>> rigel.array([-1, 2]).astype("goldilocks")
    /// array([18446744069414584320,                    2], dtype=goldilocks)
    fn astype(&self, py: Python<'_>, dtype: &Bound<'_, PyAny>) -> PyResult<Self> {
        let dtype = dtype::parse(dtype)?;
        on(
            py,
            &self.array,
            || {
                if self.array.dtype() == dtype { self.array.copy() } else { self.array.astype(dtype) }
            },
        )
        .map(Self::from)
    }

    /// A copy in new memory.
    fn copy(&self, py: Python<'_>) -> PyResult<Self> {
        on(py, &self.array, || self.array.copy()).map(Self::from)
    }

    fn __copy__(&self, py: Python<'_>) -> PyResult<Self> {
        self.copy(py)
    }

    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.copy(py)
    }

    /// The array itself if it is contiguous in row-major order, else a contiguous copy.
    fn contiguous(&self, py: Python<'_>) -> PyResult<Self> {
        on(py, &self.array, || self.array.contiguous()).map(Self::from)
    }

    /// Sets every element to a number.
    fn fill(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.assign(py, &self.array, value)
    }

    // --- elements ------------------------------------------------------------------------------------------

    /// The only element, or the element at an index, as a Python number. Waits for the device.
    ///
    /// >>> import rigel
    /// >>> rigel.array([1.5, 2.5]).item(1)
    /// 2.5
    #[pyo3(signature = (*index))]
    fn item<'py>(&self, py: Python<'py>, index: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let picked = match index.len() {
            0 => self.array.clone(),
            1 if self.array.axes() != 1 => {
                let at: isize = index.get_item(0)?.extract()?;
                quick(|| self.array.reshape(&[-1])?.index(&[at.into()]))?
            }
            _ => crate::index::pick(&self.array, index.as_any())?,
        };
        elements::one(py, &picked)
    }

    /// The elements as nested lists of Python numbers. Waits for the device.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        elements::nested(py, &self.array)
    }

    /// The bytes of the elements in row-major order. Waits for the device.
    fn tobytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &elements::bytes(py, &self.array)?))
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        if self.array.len() != 1 {
            return Err(PyValueError::new_err(format!(
                "the truth value of an array of {} elements is ambiguous; use any() or all()",
                self.array.len()
            )));
        }
        elements::one(py, &self.array)?.is_truthy()
    }

    /// Formats one element as a Python number; larger arrays take no format.
    fn __format__<'py>(&self, py: Python<'py>, spec: &str) -> PyResult<Bound<'py, PyAny>> {
        if self.array.len() != 1 || self.array.dtype().degree() > 1 {
            if spec.is_empty() {
                return Ok(pyo3::types::PyString::new(py, &self.__str__(py)?).into_any());
            }
            return Err(PyTypeError::new_err(format!(
                "an array of {} elements can't be formatted with {spec:?}",
                self.array.len()
            )));
        }
        elements::one(py, &self.array)?.call_method1(intern!(py, "__format__"), (spec,))
    }

    /// Whether an element equals a value.
    fn __contains__(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let equal = slf.rich_compare(value, pyo3::pyclass::CompareOp::Eq)?;
        match equal.cast::<Self>() {
            Ok(equal) => equal.get().any(slf.py(), None, false)?.__bool__(slf.py()),
            Err(_) => equal.is_truthy(),
        }
    }

    /// Whether any element along the axes, by default all axes, is not zero.
    ///
    /// >>> import rigel
    /// >>> (rigel.arange(3) > 1).any()
    /// array( True)
    #[pyo3(signature = (axis=None, keepdims=false))]
    fn any(&self, py: Python<'_>, axis: Option<&Bound<'_, PyAny>>, keepdims: bool) -> PyResult<Self> {
        let axes = crate::arguments::axes(axis)?;
        on(py, &self.array, || {
            let count = self.array.lazy().astype(Type::Bool).reduce(Reduction::Sum, axes, keepdims)?;
            count.gt(0)
        })
        .map(Self::from)
    }

    /// Whether all elements along the axes, by default all axes, are not zero.
    ///
    /// >>> import rigel
    /// >>> (rigel.arange(3) > 1).all()
    /// array(False)
    #[pyo3(signature = (axis=None, keepdims=false))]
    fn all(&self, py: Python<'_>, axis: Option<&Bound<'_, PyAny>>, keepdims: bool) -> PyResult<Self> {
        let axes = crate::arguments::axes(axis)?;
        on(py, &self.array, || {
            let zeros = self.array.lazy().astype(Type::Bool).logical_not();
            zeros.reduce(Reduction::Sum, axes, keepdims)?.eq(0)
        })
        .map(Self::from)
    }

    fn __int__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let value = elements::one(py, &self.array)?;
        py.get_type::<pyo3::types::PyInt>().call1((value,))
    }

    fn __index__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if self.array.dtype().kind() != NumberKind::Integer {
            return Err(PyTypeError::new_err(format!(
                "only an array of one integer can be an index, not one of {}",
                name(self.array.dtype())
            )));
        }
        elements::one(py, &self.array)
    }

    fn __float__(&self, py: Python<'_>) -> PyResult<f64> {
        elements::one(py, &self.array)?.extract()
    }

    fn __complex__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let value = elements::one(py, &self.array)?;
        py.get_type::<pyo3::types::PyComplex>().call1((value,))
    }

    fn __len__(&self) -> PyResult<usize> {
        self.array
            .shape()
            .first()
            .copied()
            .ok_or_else(|| PyTypeError::new_err("an array without axes has no length"))
    }

    fn __iter__(&self) -> PyResult<Rows> {
        let length = self.__len__()?;
        Ok(Rows { array: self.array.clone(), length, next: AtomicUsize::new(0) })
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        settle(py, &self.array.device())?;
        on(py, &self.array, || self.array.to_repr())
    }

    fn __str__(&self, py: Python<'_>) -> PyResult<String> {
        settle(py, &self.array.device())?;
        on(py, &self.array, || self.array.to_text())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let (py, array) = (slf.py(), &slf.get().array);
        let restore = py.import("rigel._rigel")?.getattr("_restore")?;
        let bytes = PyBytes::new(py, &elements::bytes(py, array)?);
        let shape = PyTuple::new(py, array.shape())?;
        let arguments = (bytes, shape, name(array.dtype()), array.device().to_string());
        (restore, arguments).into_pyobject(py)
    }
}

/// Iterates over the first axis.
#[pyclass(frozen, module = "rigel")]
pub(crate) struct Rows {
    array: Array,
    length: usize,
    next: AtomicUsize,
}

#[pymethods]
impl Rows {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self) -> PyResult<Option<PyArray>> {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        if at >= self.length {
            return Ok(None);
        }
        quick(|| self.array.index(&[(at as isize).into()])).map(|row| Some(row.into()))
    }
}

/// Restores an array from the result of `Array.__reduce__`.
#[pyfunction]
fn _restore(
    py: Python<'_>,
    bytes: &[u8],
    shape: Vec<usize>,
    dtype: &Bound<'_, PyAny>,
    device: &Bound<'_, PyAny>,
) -> PyResult<PyArray> {
    let (dtype, device) = (dtype::parse(dtype)?, self::device(Some(device))?);
    released(py, || Array::from_bytes(bytes, &shape, dtype, &device)).map(PyArray::from)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_restore, module)?)
}
