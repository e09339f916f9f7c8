//! Elements of arrays as Python numbers.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyList};
use rigel_array::{Array, Half, Type};

use crate::work::{guard, on, settle};

/// The bytes of the elements, in row-major order. Waits for the device.
pub(crate) fn bytes(py: Python<'_>, array: &Array) -> PyResult<Vec<u8>> {
    settle(py, &array.device())?;
    on(py, array, || {
        let mut bytes = vec![0; array.bytes()];
        array.read_into(&mut bytes)?;
        Ok(bytes)
    })
}

/// Field elements as integers in `0..p`; the coefficients of an extension are one more axis.
pub(crate) fn canonical(array: &Array) -> rigel_array::Result<Array> {
    let of = array.dtype();
    let apart = if of.degree() > 1 { array.coefficients()? } else { array.clone() };
    apart.astype(if of.base().bytes() == 4 { Type::U32 } else { Type::U64 })
}

/// Converts field elements to integers; other elements are unchanged.
fn plain(py: Python<'_>, array: &Array) -> PyResult<Array> {
    if array.dtype().is_field() { on(py, array, || canonical(array)) } else { Ok(array.clone()) }
}

/// The only element; an extension element as the list of its coefficients.
pub(crate) fn one<'py>(py: Python<'py>, array: &Array) -> PyResult<Bound<'py, PyAny>> {
    if array.len() != 1 {
        return Err(PyValueError::new_err(format!(
            "an array of shape {:?} is not one element; select one with an index",
            array.shape()
        )));
    }
    let plain = plain(py, array)?;
    let bytes = bytes(py, &plain)?;
    let mut numbers = bytes.chunks(plain.dtype().bytes()).map(|bytes| number(py, plain.dtype(), bytes));
    match array.dtype().degree() {
        1 => numbers.next().unwrap_or_else(|| Err(PyValueError::new_err("an element of no bytes"))),
        _ => Ok(PyList::new(py, numbers.collect::<PyResult<Vec<_>>>()?)?.into_any()),
    }
}

/// All elements as nested lists.
pub(crate) fn nested<'py>(py: Python<'py>, array: &Array) -> PyResult<Bound<'py, PyAny>> {
    let plain = plain(py, array)?;
    let bytes = bytes(py, &plain)?;
    guard(|| lists(py, plain.dtype(), plain.shape(), &bytes))
}

fn lists<'py>(py: Python<'py>, of: Type, shape: &[usize], bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let Some((&length, inner)) = shape.split_first() else { return number(py, of, bytes) };
    let each = of.bytes() * inner.iter().product::<usize>();
    let entry = |at: usize| lists(py, of, inner, &bytes[at * each..][..each]);
    Ok(PyList::new(py, (0..length).map(entry).collect::<PyResult<Vec<_>>>()?)?.into_any())
}

fn number<'py>(py: Python<'py>, of: Type, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let two = || <[u8; 2]>::try_from(bytes).unwrap_or_default();
    let four = || <[u8; 4]>::try_from(bytes).unwrap_or_default();
    let eight = |at: usize| bytes.get(at..at + 8).and_then(|part| part.try_into().ok()).unwrap_or_default();
    Ok(match of {
        Type::Bool => PyBool::new(py, bytes[0] != 0).to_owned().into_any(),
        Type::I8 => (bytes[0] as i8).into_pyobject(py)?.into_any(),
        Type::U8 => bytes[0].into_pyobject(py)?.into_any(),
        Type::I16 => i16::from_le_bytes(two()).into_pyobject(py)?.into_any(),
        Type::U16 => u16::from_le_bytes(two()).into_pyobject(py)?.into_any(),
        Type::F16 => f64::from(f32::from(Half(u16::from_le_bytes(two())))).into_pyobject(py)?.into_any(),
        Type::I32 => i32::from_le_bytes(four()).into_pyobject(py)?.into_any(),
        Type::U32 => u32::from_le_bytes(four()).into_pyobject(py)?.into_any(),
        Type::F32 => f64::from(f32::from_le_bytes(four())).into_pyobject(py)?.into_any(),
        Type::I64 => i64::from_le_bytes(eight(0)).into_pyobject(py)?.into_any(),
        Type::F64 => f64::from_le_bytes(eight(0)).into_pyobject(py)?.into_any(),
        Type::C64 => {
            let part = |at: usize| bytes.get(at..at + 4).and_then(|part| part.try_into().ok()).unwrap_or_default();
            let [re, im] = [0, 4].map(|at| f64::from(f32::from_le_bytes(part(at))));
            PyComplex::from_doubles(py, re, im).into_any()
        }
        Type::C128 => {
            PyComplex::from_doubles(py, f64::from_le_bytes(eight(0)), f64::from_le_bytes(eight(8))).into_any()
        }
        _ => u64::from_le_bytes(eight(0)).into_pyobject(py)?.into_any(),
    })
}
