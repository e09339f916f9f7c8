//! Operands of operations with arrays, and of assignments to their elements.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use rigel_array::{Array, Device, Lazy, NumberKind, Scalar, Type, name};

use crate::array::PyArray;
use crate::convert::{self, Wish};
use crate::error::raise;
use crate::lazy::PyLazy;
use crate::scalar::scalar;
use crate::work::{is_on_cpu, sized};

/// An operand of an operation.
pub(crate) enum Operand {
    Array(Array),
    Scalar(Scalar),
    Lazy(Lazy),
}

impl From<Operand> for Lazy {
    fn from(operand: Operand) -> Self {
        match operand {
            Operand::Array(array) => Self::from(array),
            Operand::Scalar(scalar) => Self::from(scalar),
            Operand::Lazy(lazy) => lazy,
        }
    }
}

impl Operand {
    /// The number of elements, to estimate the time of an operation.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Array(array) => array.len(),
            Self::Scalar(_) => 1,
            Self::Lazy(lazy) => lazy.shape().map_or(0, |shape| shape.iter().product()),
        }
    }

    /// Parses the other operand of an array of type `of` on a device; `None` if it is neither a number nor an
    /// array.
    pub(crate) fn beside(given: &Bound<'_, PyAny>, of: Option<Type>, device: &Device) -> PyResult<Option<Self>> {
        if let Ok(array) = given.cast::<PyArray>() {
            return Ok(Some(Self::Array(array.get().array.clone())));
        }
        if let Some(scalar) = scalar(given, of)? {
            return Ok(Some(Self::Scalar(scalar)));
        }
        if let Ok(lazy) = given.cast::<PyLazy>() {
            return Ok(Some(Self::Lazy(lazy.get().0.clone())));
        }
        let field = of.filter(|of| of.is_field());
        if given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>() {
            let wish = Wish { dtype: field, device: Some(device.clone()), copy: false };
            return Ok(Some(Self::Array(convert::array(given, &wish)?)));
        }
        if convert::is_array_like(given)? {
            let is_whole = |of: Type| of.kind() == NumberKind::Integer;
            let array = convert::array(given, &Wish { dtype: None, device: None, copy: false })?;
            return Ok(Some(Self::Array(match field {
                Some(field) if is_whole(array.dtype()) => array.astype(field).map_err(raise)?,
                _ => array,
            })));
        }
        Ok(None)
    }
}

impl PyArray {
    /// Writes a value, broadcast and converted, to the elements of `to`, a part of this array.
    pub(crate) fn assign(&self, py: Python<'_>, to: &Array, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let operand = Self::assigned(to, value)?;
        let elements = to.len();
        sized(py, elements, is_on_cpu(to), || to.assign(operand))
    }

    /// A value as the operand of an assignment to elements of `to`.
    pub(crate) fn assigned(to: &Array, value: &Bound<'_, PyAny>) -> PyResult<Operand> {
        let Some(operand) = Operand::beside(value, Some(to.dtype()), &to.device())? else {
            return Err(PyTypeError::new_err(format!(
                "{} can't be assigned to elements of an array",
                value.repr()?
            )));
        };
        if let Operand::Scalar(Scalar::Complex(_)) = &operand
            && to.dtype().kind() != NumberKind::Complex
        {
            return Err(PyTypeError::new_err(format!("a complex number does not fit {}", name(to.dtype()))));
        }
        if let Operand::Scalar(Scalar::Float(value)) = &operand
            && !value.is_finite()
            && to.dtype().kind() == NumberKind::Integer
        {
            return Err(PyValueError::new_err(format!(
                "{value} is no integer; the array's type is {}",
                name(to.dtype())
            )));
        }
        // A number takes the array's type, as in NumPy.
        Ok(match operand {
            Operand::Scalar(Scalar::Float(value)) if to.dtype().kind() == NumberKind::Integer => {
                Operand::Scalar(Scalar::Int(value as i128))
            }
            other => other,
        })
    }
}
