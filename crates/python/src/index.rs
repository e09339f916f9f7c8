//! `a[...]`: integers, slices, `...`, `None`, arrays of integers and masks.

use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PyList, PySlice, PyTuple};
use rigel_array::{Array, Index, Pick, Type};

use crate::arrange::indices;
use crate::array::PyArray;
use crate::convert::is_array_like;
use crate::work::{is_on_cpu, on, quick, sized};

/// An index: of a part over the same memory, or of selected elements.
enum Selected {
    Part(Array),
    Elements(Vec<Pick>),
}

fn select(array: &Array, index: &Bound<'_, PyAny>) -> PyResult<Selected> {
    let entries: Vec<Bound<'_, PyAny>> = match index.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().collect(),
        Err(_) => vec![index.clone()],
    };
    if !entries.iter().map(is_array).collect::<PyResult<Vec<_>>>()?.contains(&true) {
        return pick(array, index).map(Selected::Part);
    }
    let entry = |entry: &Bound<'_, PyAny>| -> PyResult<Pick> {
        if !is_array(entry)? {
            return parse(entry).map(Pick::Plain);
        }
        let found = indices(entry, array)?;
        Ok(if found.dtype() == Type::Bool { Pick::Mask(found) } else { Pick::Places(found) })
    };
    entries.iter().map(entry).collect::<PyResult<_>>().map(Selected::Elements)
}

/// Whether an entry is an array or a list, rather than a number.
fn is_array(entry: &Bound<'_, PyAny>) -> PyResult<bool> {
    if entry.is_exact_instance_of::<PyInt>() || entry.is_instance_of::<PySlice>() {
        return Ok(false);
    }
    if let Ok(array) = entry.cast::<PyArray>() {
        return Ok(array.get().array.axes() > 0);
    }
    if entry.is_instance_of::<PyList>() {
        return Ok(true);
    }
    Ok(is_array_like(entry)? && entry.getattr(intern!(entry.py(), "ndim")).is_ok_and(|n| n.gt(0).unwrap_or(false)))
}

/// The part of an array that an index of integers and slices selects.
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
            "an index consists of integers, slices, ..., None, arrays of integers and masks, not {class}"
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
        match select(&self.array, index)? {
            Selected::Part(part) => Ok(part.into()),
            Selected::Elements(picks) => on(index.py(), &self.array, || self.array.pick(&picks)).map(Self::from),
        }
    }

    fn __setitem__(&self, py: Python<'_>, index: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let index = match select(&self.array, index)? {
            Selected::Part(part) => return self.assign(py, &part, value),
            Selected::Elements(index) => index,
        };
        let operand = Self::assigned(&self.array, value)?;
        sized(py, self.array.len(), is_on_cpu(&self.array), || self.array.pick_assign(&index, operand))
    }
}
