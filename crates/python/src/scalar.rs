//! Python's and NumPy's numbers as scalars.

use pyo3::exceptions::PyOverflowError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyTuple};
use rigel_array::{Complex, Complex64, Half, NumberKind, Scalar, Type, promote};

use crate::array::PyArray;
use crate::dtype;
use crate::error::raise;
use crate::lazy::PyLazy;

/// A Python or NumPy number; `None` for other objects. NumPy numbers keep their type, except with a field.
pub(crate) fn scalar(given: &Bound<'_, PyAny>, beside: Option<Type>) -> PyResult<Option<Scalar>> {
    if given.is_exact_instance_of::<PyFloat>() {
        return Ok(Some(Scalar::Float(given.extract()?)));
    }
    if given.is_exact_instance_of::<PyInt>() {
        return integer(given, beside).map(Some);
    }
    if let Ok(truth) = given.cast::<PyBool>() {
        return Ok(Some(Scalar::Bool(truth.is_true())));
    }
    if given.is_exact_instance_of::<PyComplex>() {
        return complex(given).map(Some);
    }
    if given.is_instance_of::<PyArray>() || given.is_instance_of::<PyLazy>() {
        return Ok(None);
    }
    let py = given.py();
    if let Some(shape) = given.getattr_opt(intern!(py, "shape"))? {
        // NumPy scalars are hashable; arrays without axes are not, and stay arrays.
        let is_scalar = shape.cast::<PyTuple>().is_ok_and(|shape| shape.is_empty()) && given.hash().is_ok();
        if !is_scalar || given.getattr_opt(intern!(py, "__array_interface__"))?.is_none() {
            return Ok(None);
        }
        let plain = given.call_method0(intern!(py, "item"))?;
        let Some(value) = scalar(&plain, beside)? else { return Ok(None) };
        let exact = dtype::parse(&given.getattr(intern!(py, "dtype"))?).ok();
        return Ok(Some(match (exact, beside) {
            (Some(of), None) => typed(value, of),
            // Convert to the common type.
            (Some(of), Some(beside)) if !beside.is_field() => typed(value, promote(of, beside).map_err(raise)?),
            _ => value,
        }));
    }
    if given.is_instance_of::<PyInt>() {
        return integer(given, beside).map(Some);
    }
    if given.is_instance_of::<PyFloat>() {
        return Ok(Some(Scalar::Float(given.extract()?)));
    }
    if given.is_instance_of::<PyComplex>() {
        return complex(given).map(Some);
    }
    Ok(None)
}

fn complex(given: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    use pyo3::types::PyComplexMethods;
    let value = given.cast::<PyComplex>()?;
    Ok(Scalar::Complex(Complex { re: value.real(), im: value.imag() }))
}

/// An integer, of any size beside elements of a type: modulo p for a field, a float for floats. Beside integers, what
/// exceeds `i128` is compared as its ends are, and is outside the range of every other operation.
fn integer(given: &Bound<'_, PyAny>, beside: Option<Type>) -> PyResult<Scalar> {
    if let Ok(value) = given.extract::<i64>() {
        return Ok(Scalar::Int(value.into()));
    }
    if let Ok(value) = given.extract::<i128>() {
        return Ok(Scalar::Int(value));
    }
    Ok(match (beside.and_then(Type::modulus), beside.map(Type::kind)) {
        (Some(modulus), _) => Scalar::Int(given.rem(modulus)?.extract::<u64>()?.into()),
        (None, Some(NumberKind::Float | NumberKind::Complex)) => Scalar::Float(given.extract()?),
        (None, Some(_)) => Scalar::Int(if given.lt(0)? { i128::MIN } else { i128::MAX }),
        (None, None) => {
            return Err(PyOverflowError::new_err(
                "the integer has more than 127 bits; only fields accept such integers",
            ));
        }
    })
}

fn complex64(value: Complex) -> [u64; 3] {
    let Complex64 { re, im } = value.into();
    [u64::from(im.to_bits()) << 32 | u64::from(re.to_bits()), 0, 0]
}

/// A number as an element of exactly this type; unchanged if the type can't hold it.
fn typed(value: Scalar, of: Type) -> Scalar {
    let real = match value {
        Scalar::Bool(value) => Some(f64::from(u8::from(value))),
        Scalar::Int(value) => Some(value as f64),
        Scalar::Float(value) => Some(value),
        _ => None,
    };
    let whole = match value {
        Scalar::Bool(value) => Some(i128::from(value)),
        Scalar::Int(value) => Some(value),
        _ => None,
    };
    let words = match (of, value, whole, real) {
        (Type::Bool, Scalar::Bool(value), ..) => [value.into(), 0, 0],
        (Type::I8 | Type::U8, _, Some(value), _) => [(value as u8).into(), 0, 0],
        (Type::I16 | Type::U16, _, Some(value), _) => [(value as u16).into(), 0, 0],
        (Type::I32 | Type::U32, _, Some(value), _) => [(value as u32).into(), 0, 0],
        (Type::I64 | Type::U64, _, Some(value), _) => [value as u64, 0, 0],
        (Type::F16, _, _, Some(value)) => [Half::from(value).0.into(), 0, 0],
        (Type::F32, _, _, Some(value)) => [(value as f32).to_bits().into(), 0, 0],
        (Type::F64, _, _, Some(value)) => [value.to_bits(), 0, 0],
        (Type::C64, Scalar::Complex(value), ..) => complex64(value),
        (Type::C64, _, _, Some(re)) => complex64(Complex { re, im: 0.0 }),
        (Type::C128, Scalar::Complex(value), ..) => [value.re.to_bits(), value.im.to_bits(), 0],
        (Type::C128, _, _, Some(value)) => [value.to_bits(), 0, 0],
        _ => return value,
    };
    Scalar::Element(of, words)
}
