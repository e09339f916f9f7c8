//! Functions that choose, order or accumulate elements, each also a method of arrays.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use rigel_array::{Array, Result};

use crate::arguments::{axes, integers};
use crate::array::PyArray;
use crate::convert::{self, Wish, anything};
use crate::work::on;

type Argument<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// The array of an argument, and an axis of it; without an axis, the flattened array.
fn along(a: &Bound<'_, PyAny>, axis: Option<isize>) -> PyResult<(Array, isize)> {
    let array = convert::array(a, &anything())?;
    match axis {
        Some(axis) => Ok((array, axis)),
        None => on(a.py(), &array, || array.reshape(&[-1])).map(|flat| (flat, 0)),
    }
}

fn each(
    a: &Bound<'_, PyAny>,
    axis: Option<isize>,
    work: impl FnOnce(&Array, isize) -> Result<Array> + Send,
) -> PyResult<PyArray> {
    let (array, axis) = along(a, axis)?;
    on(a.py(), &array, || work(&array, axis)).map(PyArray::from)
}

/// Indices beside an array: an empty list has no type of its own.
pub(crate) fn indices(given: &Bound<'_, PyAny>, array: &Array) -> PyResult<Array> {
    let wish = Wish { dtype: None, device: Some(array.device()), copy: false };
    let found = match given.cast::<PyArray>() {
        Ok(given) => given.get().array.clone(),
        Err(_) => convert::array(given, &wish)?,
    };
    let untyped = found.is_empty() && !convert::is_array_like(given)?;
    if untyped { on(given.py(), &found, || found.astype(rigel_array::Type::I64)) } else { Ok(found) }
}

/// Functions of an array, an axis (None for the flattened array), and keepdims.
macro_rules! extremes {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            #[pyo3(signature = (a, axis=None, keepdims=false))]
            fn $name(a: &Bound<'_, PyAny>, axis: Option<isize>, keepdims: bool) -> PyResult<PyArray> {
                let rank = convert::array(a, &anything())?.axes();
                each(a, axis, |array, along| {
                    let found = array.$name(along, keepdims)?;
                    // Of the flattened array one axis is kept; NumPy keeps them all.
                    if axis.is_none() && keepdims { found.reshape(&vec![1; rank]) } else { Ok(found) }
                })
            }
        )*

        #[pymethods]
        impl PyArray {
            $(
                $(#[$doc])*
                #[pyo3(signature = (axis=None, keepdims=false))]
                fn $name(slf: &Bound<'_, Self>, axis: Option<isize>, keepdims: bool) -> PyResult<Self> {
                    $name(slf.as_any(), axis, keepdims)
                }
            )*
        }

        fn register_extremes(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $( module.add_function(wrap_pyfunction!($name, module)?)?; )*
            Ok(())
        }
    };
}
extremes! {
    /// The index of the first smallest element, or of the first NaN, along an axis; by default in the flattened
    /// array.
    ///
    /// >>> import rigel
    /// >>> rigel.argmin([[3, 1], [2, 5]], axis=1)
    /// array([1, 0])
    argmin;
    /// The index of the first largest element, or of the first NaN, along an axis; by default in the flattened
    /// array.
    ///
    /// >>> import rigel
    /// >>> rigel.argmax([[3, 1], [2, 5]], axis=1)
    /// array([0, 1])
    argmax;
}

/// Functions of an array and an axis, with its default.
macro_rules! along_an_axis {
    ($($(#[$doc:meta])* $name:ident = $default:expr;)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            #[pyo3(signature = (a, axis=$default))]
            fn $name(a: &Bound<'_, PyAny>, axis: Option<isize>) -> PyResult<PyArray> {
                each(a, axis, |array, axis| array.$name(axis))
            }
        )*

        #[pymethods]
        impl PyArray {
            $(
                $(#[$doc])*
                #[pyo3(signature = (axis=$default))]
                fn $name(slf: &Bound<'_, Self>, axis: Option<isize>) -> PyResult<Self> {
                    $name(slf.as_any(), axis)
                }
            )*
        }

        fn register_along(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $( module.add_function(wrap_pyfunction!($name, module)?)?; )*
            Ok(())
        }
    };
}
along_an_axis! {
    /// The sums of the elements up to each index of an axis; by default of the flattened array. Booleans and small
    /// integers are summed as 64-bit integers.
    ///
    /// >>> import rigel
    /// >>> rigel.cumsum([1, 2, 3])
    /// array([1, 3, 6])
    cumsum = None;
    /// The products of the elements up to each index of an axis; by default of the flattened array.
    ///
    /// >>> import rigel
    /// >>> rigel.cumprod([1, 2, 3])
    /// array([1, 2, 6])
    cumprod = None;
    /// A copy with the elements in increasing order along an axis, with NaN last; the flattened array if the axis is
    /// None. Unlike NumPy's, the method does not sort in place.
    ///
    /// >>> import rigel
    /// >>> rigel.sort([3, 1, 2])
    /// array([1, 2, 3])
    sort = Some(-1);
    /// The indices that sort the elements along an axis. Equal elements stay in their order.
    ///
    /// >>> import rigel
    /// >>> rigel.argsort([3, 1, 2])
    /// array([1, 2, 0])
    argsort = Some(-1);
}

/// Variances.
macro_rules! spreads {
    ($($(#[$doc:meta])* $function:ident = $name:literal $method:ident;)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            #[pyo3(name = $name, signature = (a, axis=None, ddof=0.0, keepdims=false))]
            fn $function(
                a: &Bound<'_, PyAny>,
                axis: Argument<'_, '_>,
                ddof: f64,
                keepdims: bool,
            ) -> PyResult<PyArray> {
                let (array, axes) = (convert::array(a, &anything())?, axes(axis)?);
                on(a.py(), &array, || array.$method(axes, ddof, keepdims)).map(PyArray::from)
            }
        )*

        #[pymethods]
        impl PyArray {
            $(
                $(#[$doc])*
                #[pyo3(name = $name, signature = (axis=None, ddof=0.0, keepdims=false))]
                fn $function(
                    slf: &Bound<'_, Self>,
                    axis: Argument<'_, '_>,
                    ddof: f64,
                    keepdims: bool,
                ) -> PyResult<Self> {
                    $function(slf.as_any(), axis, ddof, keepdims)
                }
            )*
        }

        fn register_spreads(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $( module.add_function(wrap_pyfunction!($function, module)?)?; )*
            Ok(())
        }
    };
}
spreads! {
    /// The variance along the axes, by default all axes: the sum of `|x - mean|^2` divided by the number of elements
    /// less `ddof`.
    ///
    /// >>> import rigel
    /// >>> rigel.var([1, 2, 3, 4])
    /// array(1.25)
    variance = "var" var;
    /// The standard deviation along the axes, by default all axes: the square root of `var`.
    ///
    /// >>> import rigel
    /// >>> rigel.std([1.0, 3.0])
    /// array(1.)
    deviation = "std" std;
}

/// The elements at the given indices along an axis; by default of the flattened array.
///
/// >>> import rigel
/// >>> rigel.take([10, 20, 30], [2, 0, -1])
/// array([30, 10, 30])
#[pyfunction]
#[pyo3(signature = (a, indices, axis=None))]
fn take(a: &Bound<'_, PyAny>, indices: &Bound<'_, PyAny>, axis: Option<isize>) -> PyResult<PyArray> {
    let (array, axis) = along(a, axis)?;
    let indices = self::indices(indices, &array)?;
    on(a.py(), &array, || array.take(&indices, axis)).map(PyArray::from)
}

/// The elements at the given indices along an axis, which has its own indices at each index of the other axes, as those
/// of `argsort`.
///
/// >>> import rigel
/// >>> a = rigel.array([[3, 1], [2, 5]])
/// >>> rigel.take_along_axis(a, a.argsort(), axis=-1)
/// array([[1, 3],
///        [2, 5]])
#[pyfunction]
#[pyo3(signature = (a, indices, axis=-1))]
fn take_along_axis(a: &Bound<'_, PyAny>, indices: &Bound<'_, PyAny>, axis: Option<isize>) -> PyResult<PyArray> {
    let (array, axis) = along(a, axis)?;
    let indices = self::indices(indices, &array)?;
    on(a.py(), &array, || array.take_along(&indices, axis)).map(PyArray::from)
}

/// The indices of the elements that are not zero: a tuple with one array for each axis.
///
/// >>> import rigel
/// >>> rigel.nonzero([0, 5, 0, 7])
/// (array([1, 3]),)
#[pyfunction]
fn nonzero<'py>(a: &Bound<'py, PyAny>) -> PyResult<Bound<'py, pyo3::types::PyTuple>> {
    let array = convert::array(a, &anything())?;
    let found = on(a.py(), &array, || array.nonzero())?;
    pyo3::types::PyTuple::new(a.py(), found.into_iter().map(PyArray::from))
}

/// The elements moved by `shift` along the axes; those that pass the end come back at the start. Without an axis, the
/// flattened array is rolled.
///
/// >>> import rigel
/// >>> rigel.roll([1, 2, 3, 4], 1)
/// array([4, 1, 2, 3])
#[pyfunction]
#[pyo3(signature = (a, shift, axis=None))]
fn roll(a: &Bound<'_, PyAny>, shift: &Bound<'_, PyAny>, axis: Argument<'_, '_>) -> PyResult<PyArray> {
    let array = convert::array(a, &anything())?;
    let mut shifts = integers(shift)?;
    let Some(axis) = axis.filter(|axis| !axis.is_none()) else {
        let shape: Vec<isize> = array.shape().iter().map(|&length| length as isize).collect();
        // Each on its own, so that their sum does not overflow.
        let length = (array.len() as i128).max(1);
        let shift = (shifts.iter().map(|&shift| shift as i128 % length).sum::<i128>() % length) as isize;
        return on(a.py(), &array, || array.reshape(&[-1])?.roll(shift, 0)?.reshape(&shape)).map(PyArray::from);
    };
    let axes = integers(axis)?;
    if shifts.len() == 1 {
        shifts.resize(axes.len(), shifts[0]);
    }
    if shifts.len() != axes.len() {
        return Err(PyTypeError::new_err(format!("{} shifts for {} axes", shifts.len(), axes.len())));
    }
    on(a.py(), &array, || {
        let moves = shifts.iter().zip(&axes);
        moves.fold(array.copy(), |rolled, (&shift, &axis)| rolled?.roll(shift, axis))
    })
    .map(PyArray::from)
}

/// The elements in reverse order along the axes, by default all axes; over the same memory.
///
/// >>> import rigel
/// >>> rigel.flip([1, 2, 3])
/// array([3, 2, 1])
#[pyfunction]
#[pyo3(signature = (a, axis=None))]
fn flip(a: &Bound<'_, PyAny>, axis: Argument<'_, '_>) -> PyResult<PyArray> {
    let array = convert::array(a, &anything())?;
    let axes = match axis.filter(|axis| !axis.is_none()) {
        Some(axis) => integers(axis)?,
        None => (0..array.axes() as isize).collect(),
    };
    let places: Vec<isize> = axes.iter().map(|&axis| axis.rem_euclid(array.axes().max(1) as isize)).collect();
    if (1..places.len()).any(|at| places[..at].contains(&places[at])) {
        return Err(PyValueError::new_err("an axis is given twice"));
    }
    let flipped = crate::work::quick(|| axes.iter().try_fold(array, |array, &axis| array.flip(axis)))?;
    Ok(flipped.into())
}

#[pymethods]
impl PyArray {
    /// The elements at the given indices along an axis; by default of the flattened array.
    #[pyo3(signature = (indices, axis=None))]
    fn take(slf: &Bound<'_, Self>, indices: &Bound<'_, PyAny>, axis: Option<isize>) -> PyResult<Self> {
        take(slf.as_any(), indices, axis)
    }

    /// The indices of the elements that are not zero: a tuple with one array for each axis.
    fn nonzero<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, pyo3::types::PyTuple>> {
        nonzero(slf.as_any())
    }

    /// The elements limited to the range from `min` to `max`; None is no limit.
    #[pyo3(signature = (min=None, max=None))]
    fn clip<'py>(
        slf: &Bound<'py, Self>,
        min: Argument<'_, 'py>,
        max: Argument<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        crate::functions::clip(slf.as_any(), min, max)
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register_extremes(module)?;
    register_along(module)?;
    register_spreads(module)?;
    module.add_function(wrap_pyfunction!(take, module)?)?;
    module.add_function(wrap_pyfunction!(take_along_axis, module)?)?;
    module.add_function(wrap_pyfunction!(nonzero, module)?)?;
    module.add_function(wrap_pyfunction!(roll, module)?)?;
    module.add_function(wrap_pyfunction!(flip, module)?)
}
