//! Matrix products.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rigel_array::{Array, matmul_engine as engine};

use crate::array::{PyArray, device_of};
use crate::convert::several;
use crate::operand::Operand;
use crate::work::{heavy, is_on_cpu, released};

/// `array @ other`, or `other @ array` if reflected.
pub(crate) fn operator<'py>(
    array: &Array,
    other: &Bound<'py, PyAny>,
    reflected: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = other.py();
    let other = match Operand::beside(other, Some(array.dtype()), &array.device())? {
        Some(Operand::Array(other)) => other,
        Some(Operand::Lazy(lazy)) => released(py, || lazy.eval())?,
        Some(Operand::Scalar(_)) => return Err(PyTypeError::new_err("@ multiplies arrays; use * for a number")),
        None => return Ok(py.NotImplemented().into_bound(py)),
    };
    let (a, b) = if reflected { (other, array.clone()) } else { (array.clone(), other) };
    multiplied(py, a, b, Array::matmul)?.into_bound_py_any(py)
}

fn multiplied(
    py: Python<'_>,
    a: Array,
    b: Array,
    product: fn(&Array, &Array) -> rigel_array::Result<Array>,
) -> PyResult<PyArray> {
    let columns = b.shape().last().copied().unwrap_or(1);
    let steps = a.len() as f64 * columns as f64;
    let on_cpu = is_on_cpu(&a);
    heavy(py, steps, on_cpu, move || product(&a, &b)).map(PyArray::from)
}

fn both(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<(Array, Array)> {
    let wish = |device| crate::convert::Wish { dtype: None, device, copy: false };
    let beside = |given: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>| {
        let device = other.cast::<PyArray>().ok().map(|other| other.get().array.device());
        let device = if given.is_instance_of::<pyo3::types::PyList>() { device } else { None };
        crate::convert::array(given, &wish(device))
    };
    Ok((beside(a, b)?, beside(b, a)?))
}

/// The matrix product, over stacks of matrices with broadcasting, as `a @ b`.
///
/// >>> import rigel
/// >>> rigel.matmul(rigel.eye(2), [[1.0, 2.0], [3.0, 4.0]])
/// array([[1., 2.],
///        [3., 4.]])
#[pyfunction]
fn matmul(py: Python<'_>, a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<PyArray> {
    let (a, b) = both(a, b)?;
    multiplied(py, a, b, Array::matmul)
}

/// The sum of products along the last axis of `a` and the last but one (or only) axis of `b`.
///
/// >>> import rigel
/// >>> rigel.dot([1, 2, 3], [4, 5, 6]).item()
/// 32
#[pyfunction]
fn dot(py: Python<'_>, a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<PyArray> {
    let (a, b) = both(a, b)?;
    multiplied(py, a, b, Array::dot)
}

/// Sums of products over named axes, as NumPy's `einsum`: a letter for each axis of each operand, operands separated by
/// commas, then `->` and the axes of the result; `...` stands for axes that are broadcast. Operands are contracted from
/// left to right, by matrix products where there are any.
///
/// >>> import rigel
/// >>> a = rigel.arange(6).reshape(2, 3)
/// >>> rigel.einsum("ij,kj->ik", a, a)
/// array([[ 5, 14],
///        [14, 50]])
/// >>> rigel.einsum("ij->j", a)
/// array([3, 5, 7])
#[pyfunction]
#[pyo3(signature = (subscripts, *operands))]
fn einsum(py: Python<'_>, subscripts: String, operands: &Bound<'_, PyTuple>) -> PyResult<PyArray> {
    let operands = several(operands.as_any())?;
    // An upper bound: every index of one operand with every index of the others.
    let steps = operands.iter().map(|operand| operand.len() as f64).product();
    heavy(py, steps, device_of(&operands).is_cpu(), move || Array::einsum(&subscripts, &operands))
        .map(PyArray::from)
}

/// The engine that multiplies matrices of floats and complex numbers on a device, as text.
///
/// >>> import rigel
/// >>> rigel.matmul_engine("cpu")
/// 'the CPU'
#[pyfunction]
#[pyo3(signature = (device="cpu"))]
fn matmul_engine(py: Python<'_>, device: &str) -> PyResult<String> {
    let device = crate::arguments::device(Some(pyo3::types::PyString::new(py, device).as_any()))?;
    released(py, || Ok(engine(&device).to_string()))
}

#[pymethods]
impl PyArray {
    /// The sum of products along the last axis of this array and the last but one (or only) axis of the other.
    fn dot(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        let wish = crate::convert::Wish { dtype: None, device: None, copy: false };
        multiplied(py, self.array.clone(), crate::convert::array(other, &wish)?, Array::dot)
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(matmul, module)?)?;
    module.add_function(wrap_pyfunction!(dot, module)?)?;
    module.add_function(wrap_pyfunction!(einsum, module)?)?;
    module.add_function(wrap_pyfunction!(matmul_engine, module)?)
}
