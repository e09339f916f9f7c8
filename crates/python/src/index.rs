//! `a[...]`: integers, slices, `...` and `None`.

use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PySlice, PyTuple};
use rigel_array::{Array, Index};

use crate::array::PyArray;
use crate::work::quick;

/// The part of an array that an index selects.
pub(crate) fn pick(array: &Array, index: &Bound<'_, PyAny>) -> PyResult<Array> {
    let entries = match index.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().map(|entry| parse(&entry)).collect::<PyResult<Vec<_>>>()?,
        Err(_) => vec![parse(index)?],
    };
    quick(|| array.index(&entries))
}

fn parse(entry: &Bound<'_, PyAny>) -> PyResult<Index> {
    let refused = || {
        let class = entry.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!(
            "an index consists of integers, slices, ... and None, not {class}; rigel.where selects by a condition"
        ))
    };
    if entry.is_exact_instance_of::<PyInt>() {
        let outside = |_| PyIndexError::new_err("an index has more than 63 bits");
        return entry.extract::<isize>().map(Index::At).map_err(outside);
    }
    if let Ok(slice) = entry.cast::<PySlice>() {
        let py = entry.py();
        let step = bound(&slice.getattr(intern!(py, "step"))?)?.unwrap_or(1);
        let start = bound(&slice.getattr(intern!(py, "start"))?)?;
        return Ok(Index::Range { start, stop: bound(&slice.getattr(intern!(py, "stop"))?)?, step });
    }
    if entry.is_none() {
        return Ok(Index::NewAxis);
    }
    if entry.is_instance_of::<PyEllipsis>() {
        return Ok(Index::Ellipsis);
    }
    if entry.is_instance_of::<PyBool>() {
        return Err(refused());
    }
    if let Ok(array) = entry.cast::<PyArray>()
        && array.get().array.axes() > 0
    {
        return Err(refused());
    }
    entry.extract::<isize>().map(Index::At).map_err(|_| refused())
}

/// One bound of a slice, clamped to a range beyond all arrays.
fn bound(given: &Bound<'_, PyAny>) -> PyResult<Option<isize>> {
    if given.is_none() {
        return Ok(None);
    }
    if let Ok(number) = given.extract::<isize>() {
        // Half of the range, so that sums with lengths do not overflow.
        return Ok(Some(number.clamp(isize::MIN / 4, isize::MAX / 4)));
    }
    if given.is_instance_of::<PyInt>() {
        return Ok(Some(if given.lt(0)? { isize::MIN / 4 } else { isize::MAX / 4 }));
    }
    Err(PyTypeError::new_err(format!("a slice consists of integers and None, not {}", given.repr()?)))
}

#[pymethods]
impl PyArray {
    fn __getitem__(&self, index: &Bound<'_, PyAny>) -> PyResult<Self> {
        pick(&self.array, index).map(Self::from)
    }

    fn __setitem__(&self, py: Python<'_>, index: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let part = pick(&self.array, index)?;
        self.assign(py, &part, value)
    }
}
