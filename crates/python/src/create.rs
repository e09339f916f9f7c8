//! Functions that create arrays and expressions.

use std::hash::{BuildHasher, RandomState};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use rigel_array::{Array, Device, Result, Scalar, Type};

use crate::arguments::{device_option, shape as parse_shape};
use crate::array::PyArray;
use crate::convert::{self, Wish, anything};
use crate::dtype::{parse as parse_dtype, parse_option};
use crate::lazy::PyLazy;
use crate::scalar::scalar;
use crate::work::sized;

type Argument<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// The device of a copy of an object: the given one, or else the object's own. Lists and numbers go to the CPU.
pub(crate) fn place_of(obj: &Bound<'_, PyAny>, device: Argument<'_, '_>) -> PyResult<Option<Device>> {
    let named = device_option(device)?;
    Ok(if named.is_none() && convert::is_array_like(obj)? { None } else { Some(named.unwrap_or(Device::Cpu)) })
}

/// A new array with a copy of the elements of a nested list, a number, or any object that exports its memory.
///
/// >>> import rigel
/// >>> rigel.array([[1, 2], [3, 4.5]])
/// array([[1. , 2. ],
///        [3. , 4.5]])
/// >>> rigel.array([1, 2], dtype="float32").dtype
/// rigel.float32
#[pyfunction]
#[pyo3(signature = (obj, dtype=None, device=None))]
fn array(obj: &Bound<'_, PyAny>, dtype: Argument<'_, '_>, device: Argument<'_, '_>) -> PyResult<PyArray> {
    let wish = Wish { dtype: parse_option(dtype)?, device: place_of(obj, device)?, copy: true };
    convert::array(obj, &wish).map(PyArray::from)
}

/// An array of an object's elements, over its memory if possible: NumPy arrays on the CPU, CuPy and PyTorch arrays
/// on their device.
///
/// >>> import rigel, numpy
/// >>> theirs = numpy.zeros(2)
/// >>> ours = rigel.asarray(theirs)
/// >>> ours += 1
/// >>> theirs
/// array([1., 1.])
#[pyfunction]
#[pyo3(signature = (obj, dtype=None, device=None))]
fn asarray<'py>(
    obj: &Bound<'py, PyAny>,
    dtype: Argument<'_, 'py>,
    device: Argument<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let wish = Wish { dtype: parse_option(dtype)?, device: device_option(device)?, copy: false };
    if let Ok(array) = obj.cast::<PyArray>() {
        let array = &array.get().array;
        let same_type = wish.dtype.is_none_or(|dtype| dtype == array.dtype());
        if same_type && wish.device.as_ref().is_none_or(|device| *device == array.device()) {
            return Ok(obj.clone());
        }
    }
    let array = convert::array(obj, &wish)?;
    Ok(Bound::new(obj.py(), PyArray::from(array))?.into_any())
}

/// An array as an expression.
///
/// >>> import rigel
/// >>> a = rigel.lazy(rigel.arange(4))
/// >>> (a * a).sum().item()
/// 14
#[pyfunction]
fn lazy(a: &Bound<'_, PyAny>) -> PyResult<PyLazy> {
    if let Ok(lazy) = a.cast::<PyLazy>() {
        return Ok(PyLazy(lazy.get().0.clone()));
    }
    let array = convert::array(a, &anything())?;
    Ok(PyLazy(array.lazy()))
}

/// A new array of a shape, made by `make`.
fn made(
    shape: &Bound<'_, PyAny>,
    dtype: Argument<'_, '_>,
    device: Argument<'_, '_>,
    make: impl FnOnce(&[usize], Type, &Device) -> Result<Array> + Send,
) -> PyResult<PyArray> {
    let py = shape.py();
    let shape = parse_shape(shape)?;
    let dtype = dtype.map_or(Ok(Type::F64), parse_dtype)?;
    let device = crate::arguments::device(device)?;
    let size = shape.iter().fold(1usize, |product, &length| product.saturating_mul(length));
    sized(py, size, device.is_cpu(), || make(&shape, dtype, &device)).map(PyArray::from)
}

/// A new array of zeros.
///
/// >>> import rigel
/// >>> rigel.zeros((2, 2), dtype="int32")
/// array([[0, 0],
///        [0, 0]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (shape, dtype=None, device=None))]
fn zeros(shape: &Bound<'_, PyAny>, dtype: Argument<'_, '_>, device: Argument<'_, '_>) -> PyResult<PyArray> {
    made(shape, dtype, device, Array::zeros)
}

/// A new array of ones.
///
/// >>> import rigel
/// >>> rigel.ones(3)
/// array([1., 1., 1.])
#[pyfunction]
#[pyo3(signature = (shape, dtype=None, device=None))]
fn ones(shape: &Bound<'_, PyAny>, dtype: Argument<'_, '_>, device: Argument<'_, '_>) -> PyResult<PyArray> {
    made(shape, dtype, device, Array::ones)
}

/// A new, uninitialized array, for a kernel to fill.
///
/// >>> import rigel
/// >>> rigel.empty((2, 3)).shape
/// (2, 3)
#[pyfunction]
#[pyo3(signature = (shape, dtype=None, device=None))]
fn empty(shape: &Bound<'_, PyAny>, dtype: Argument<'_, '_>, device: Argument<'_, '_>) -> PyResult<PyArray> {
    made(shape, dtype, device, Array::empty)
}

/// A new array filled with one number.
///
/// >>> import rigel
/// >>> rigel.full(2, 7)
/// array([7, 7])
#[pyfunction]
#[pyo3(signature = (shape, value, dtype=None, device=None))]
fn full(
    shape: &Bound<'_, PyAny>,
    value: &Bound<'_, PyAny>,
    dtype: Argument<'_, '_>,
    device: Argument<'_, '_>,
) -> PyResult<PyArray> {
    let asked = parse_option(dtype)?;
    let Some(value) = scalar(value, asked)? else {
        return Err(PyTypeError::new_err(format!("{} is not a number", value.repr()?)));
    };
    made(shape, None, device, |shape, _, device| match asked {
        Some(dtype) => Array::filled(shape, value, dtype, device),
        None => Array::full(shape, value, device),
    })
}

/// A new array with the shape, type and device of another, unless others are given.
fn like(
    a: &Bound<'_, PyAny>,
    dtype: Argument<'_, '_>,
    device: Argument<'_, '_>,
    make: impl FnOnce(&[usize], Type, &Device) -> Result<Array> + Send,
) -> PyResult<PyArray> {
    let model = convert::array(a, &anything())?;
    let dtype = parse_option(dtype)?.unwrap_or_else(|| model.dtype());
    let device = device_option(device)?.unwrap_or_else(|| model.device());
    sized(a.py(), model.len(), device.is_cpu(), || make(model.shape(), dtype, &device)).map(PyArray::from)
}

/// Zeros in the shape, type and device of `a`.
///
/// >>> import rigel
/// >>> rigel.zeros_like([1, 2])
/// array([0, 0])
#[pyfunction]
#[pyo3(signature = (a, dtype=None, device=None))]
fn zeros_like(a: &Bound<'_, PyAny>, dtype: Argument<'_, '_>, device: Argument<'_, '_>) -> PyResult<PyArray> {
    like(a, dtype, device, Array::zeros)
}

/// Ones in the shape, type and device of `a`.
///
/// >>> import rigel
/// >>> rigel.ones_like([0.5, 2])
/// array([1., 1.])
#[pyfunction]
#[pyo3(signature = (a, dtype=None, device=None))]
fn ones_like(a: &Bound<'_, PyAny>, dtype: Argument<'_, '_>, device: Argument<'_, '_>) -> PyResult<PyArray> {
    like(a, dtype, device, Array::ones)
}

/// An uninitialized array in the shape, type and device of `a`.
///
/// >>> import rigel
/// >>> rigel.empty_like([[1, 2]]).shape
/// (1, 2)
#[pyfunction]
#[pyo3(signature = (a, dtype=None, device=None))]
fn empty_like(a: &Bound<'_, PyAny>, dtype: Argument<'_, '_>, device: Argument<'_, '_>) -> PyResult<PyArray> {
    like(a, dtype, device, Array::empty)
}

/// An array filled with one number, in the shape, type and device of `a`.
///
/// >>> import rigel
/// >>> rigel.full_like([1, 2], 7)
/// array([7, 7])
#[pyfunction]
#[pyo3(signature = (a, value, dtype=None, device=None))]
fn full_like(
    a: &Bound<'_, PyAny>,
    value: &Bound<'_, PyAny>,
    dtype: Argument<'_, '_>,
    device: Argument<'_, '_>,
) -> PyResult<PyArray> {
    let made = like(a, dtype, device, Array::empty)?;
    made.assign(a.py(), &made.array, value)?;
    Ok(made)
}

/// `start`, `start + step`, ... before `stop`.
///
/// >>> import rigel
/// >>> rigel.arange(5)
/// array([0, 1, 2, 3, 4])
/// >>> rigel.arange(1, 2, 0.25)
/// array([1.  , 1.25, 1.5 , 1.75])
#[pyfunction]
#[pyo3(signature = (start, stop=None, step=None, dtype=None, device=None))]
fn arange(
    start: &Bound<'_, PyAny>,
    stop: Argument<'_, '_>,
    step: Argument<'_, '_>,
    dtype: Argument<'_, '_>,
    device: Argument<'_, '_>,
) -> PyResult<PyArray> {
    let py = start.py();
    let number = |given: &Bound<'_, PyAny>| match scalar(given, None)? {
        // The type of a NumPy number does not matter, only whether it is an integer.
        Some(Scalar::Element(..)) => Ok(scalar(&given.call_method0("item")?, None)?.unwrap_or(Scalar::Int(0))),
        Some(value) => Ok(value),
        None => Err(PyTypeError::new_err(format!("{} is not a number", given.repr()?))),
    };
    let given = |argument: Argument<'_, '_>| argument.filter(|given| !given.is_none()).map(number).transpose();
    let (first, second) = (number(start)?, given(stop)?);
    let (start, stop) = second.map_or((Scalar::Int(0), first), |stop| (first, stop));
    let step = given(step)?.unwrap_or(Scalar::Int(1));
    let dtype = parse_option(dtype)?;
    let device = crate::arguments::device(device)?;
    sized(py, usize::MAX, device.is_cpu(), || {
        let line = Array::arange(start, stop, step, &device)?;
        dtype.map_or(Ok(line.clone()), |dtype| line.astype(dtype))
    })
    .map(PyArray::from)
}

/// `num` evenly spaced numbers from `start` to `stop`, both included.
///
/// >>> import rigel
/// >>> rigel.linspace(0, 1, 5)
/// array([0.  , 0.25, 0.5 , 0.75, 1.  ])
#[pyfunction]
#[pyo3(signature = (start, stop, num=50, dtype=None, device=None))]
fn linspace(
    py: Python<'_>,
    start: f64,
    stop: f64,
    num: usize,
    dtype: Argument<'_, '_>,
    device: Argument<'_, '_>,
) -> PyResult<PyArray> {
    let (dtype, device) = (parse_option(dtype)?, crate::arguments::device(device)?);
    sized(py, num, device.is_cpu(), || {
        let line = Array::linspace(start, stop, num, &device)?;
        dtype.map_or(Ok(line.clone()), |dtype| line.astype(dtype))
    })
    .map(PyArray::from)
}

/// The identity matrix of `n` rows.
///
/// >>> import rigel
/// >>> rigel.eye(2)
/// array([[1., 0.],
///        [0., 1.]])
#[pyfunction]
#[pyo3(signature = (n, dtype=None, device=None))]
fn eye(n: &Bound<'_, PyAny>, dtype: Argument<'_, '_>, device: Argument<'_, '_>) -> PyResult<PyArray> {
    made(n, dtype, device, |shape, dtype, device| match shape {
        [rows] => Array::eye(*rows, dtype, device),
        _ => Err(rigel_array::Error::Shape("eye takes one number of rows".into())),
    })
}

/// Random elements that depend only on the seed and are the same on every device: floats in `[0, 1)`, field
/// elements and integers over their whole range, booleans. Without a seed, each call uses a new one.
///
/// They are not for secrets: the generator, SplitMix64, can be predicted from a few of its elements. Take keys and
/// masks from the module `secrets`.
///
/// >>> import rigel
/// >>> a = rigel.random(1000, seed=1)
/// >>> bool(a.min() >= 0), bool(a.max() < 1), bool((a == rigel.random(1000, seed=1)).min())
/// (True, True, True)
#[pyfunction]
#[pyo3(signature = (shape, dtype=None, seed=None, device=None))]
pub(crate) fn random(
    shape: &Bound<'_, PyAny>,
    dtype: Argument<'_, '_>,
    seed: Option<i128>,
    device: Argument<'_, '_>,
) -> PyResult<PyArray> {
    let seed = match seed {
        Some(seed) => u64::try_from(seed)
            .map_err(|_| PyValueError::new_err(format!("the seed {seed} does not fit in 64 bits")))?,
        None => RandomState::new().hash_one(0),
    };
    made(shape, dtype, device, |shape, dtype, device| Array::random(shape, dtype, seed, device))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(lazy, module)?)?;
    module.add_function(wrap_pyfunction!(array, module)?)?;
    module.add_function(wrap_pyfunction!(asarray, module)?)?;
    module.add_function(wrap_pyfunction!(zeros, module)?)?;
    module.add_function(wrap_pyfunction!(ones, module)?)?;
    module.add_function(wrap_pyfunction!(empty, module)?)?;
    module.add_function(wrap_pyfunction!(full, module)?)?;
    module.add_function(wrap_pyfunction!(zeros_like, module)?)?;
    module.add_function(wrap_pyfunction!(ones_like, module)?)?;
    module.add_function(wrap_pyfunction!(empty_like, module)?)?;
    module.add_function(wrap_pyfunction!(full_like, module)?)?;
    module.add_function(wrap_pyfunction!(arange, module)?)?;
    module.add_function(wrap_pyfunction!(linspace, module)?)?;
    module.add_function(wrap_pyfunction!(eye, module)?)?;
    module.add_function(wrap_pyfunction!(random, module)?)
}
