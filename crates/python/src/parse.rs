//! Arrays from nested lists of numbers.

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use rigel_array::{Array, Complex, Device, NumberKind, Result, Scalar, Type, name};

use crate::array::PyArray;
use crate::error::raise;
use crate::scalar::scalar;

/// The numbers read so far, all of the widest kind among them.
enum Numbers {
    Bools(Vec<bool>),
    Ints(Vec<i128>),
    Floats(Vec<f64>),
    Complexes(Vec<Complex>),
}

impl Numbers {
    fn push(&mut self, value: Scalar) {
        match (&mut *self, value) {
            (Self::Bools(all), Scalar::Bool(value)) => all.push(value),
            (Self::Ints(all), Scalar::Int(value)) => all.push(value),
            (Self::Ints(all), Scalar::Bool(value)) => all.push(value.into()),
            (Self::Floats(all), Scalar::Float(value)) => all.push(value),
            (Self::Floats(all), Scalar::Int(value)) => all.push(value as f64),
            (Self::Floats(all), Scalar::Bool(value)) => all.push(u8::from(value).into()),
            (Self::Complexes(all), Scalar::Complex(value)) => all.push(value),
            (Self::Complexes(all), Scalar::Float(re)) => all.push(Complex { re, im: 0.0 }),
            (Self::Complexes(all), Scalar::Int(value)) => all.push(Complex { re: value as f64, im: 0.0 }),
            (Self::Complexes(all), Scalar::Bool(value)) => {
                all.push(Complex { re: u8::from(value).into(), im: 0.0 })
            }
            _ => {
                self.widen();
                self.push(value);
            }
        }
    }

    /// Converts the numbers to the next wider kind.
    fn widen(&mut self) {
        *self = match std::mem::replace(self, Self::Bools(Vec::new())) {
            Self::Bools(all) => Self::Ints(all.into_iter().map(i128::from).collect()),
            Self::Ints(all) => Self::Floats(all.into_iter().map(|value| value as f64).collect()),
            Self::Floats(all) => Self::Complexes(all.into_iter().map(|re| Complex { re, im: 0.0 }).collect()),
            Self::Complexes(all) => Self::Complexes(all),
        };
    }
}

/// NumPy's limit on the nesting depth. It also catches lists that contain themselves.
const MOST_AXES: usize = 64;

struct Parser {
    shape: Vec<usize>,
    numbers: Numbers,
    dtype: Option<Type>,
    /// The current position, for messages.
    place: Vec<usize>,
}

/// Converts a nested list or a number to an array, of type `dtype` or by default NumPy's choice for these numbers.
/// Elements of an extension are lists of coefficients, lowest power first.
pub(crate) fn nested(given: &Bound<'_, PyAny>, dtype: Option<Type>, device: &Device) -> PyResult<Array> {
    let mut shape = Vec::new();
    let mut at = given.clone();
    while let Some(length) = length(&at) {
        shape.push(length);
        if length == 0 {
            break;
        }
        if shape.len() > MOST_AXES {
            return Err(PyValueError::new_err(format!("the list is nested more than {MOST_AXES} deep")));
        }
        at = at.get_item(0)?;
    }
    let mut parser = Parser { shape, numbers: Numbers::Bools(Vec::new()), dtype, place: Vec::new() };
    parser.read(given, 0)?;
    let Parser { shape, numbers, .. } = parser;
    let empty = shape.contains(&0);
    match dtype {
        Some(of) if of.degree() > 1 && !shape.is_empty() => {
            let coefficients = field(numbers, &shape, of.base(), empty)?;
            coefficients.from_coefficients(of).and_then(|array| array.to(device)).map_err(raise)
        }
        Some(of) if of.is_field() => {
            let base = field(numbers, &shape, of.base(), empty)?;
            base.astype(of).and_then(|array| array.to(device)).map_err(raise)
        }
        _ => plain(numbers, &shape, dtype, empty)?.to(device).map_err(raise),
    }
}

fn length(given: &Bound<'_, PyAny>) -> Option<usize> {
    match given.cast::<PyList>() {
        Ok(list) => Some(list.len()),
        Err(_) => given.cast::<PyTuple>().ok().map(|tuple| tuple.len()),
    }
}

impl Parser {
    fn read(&mut self, given: &Bound<'_, PyAny>, axis: usize) -> PyResult<()> {
        let length = length(given);
        if length != self.shape.get(axis).copied() {
            return Err(self.ragged(length, axis));
        }
        let Some(length) = length else { return self.number(given) };
        self.place.push(0);
        let entry = |parser: &mut Self, at: usize, entry: Bound<'_, PyAny>| {
            parser.place[axis] = at;
            parser.read(&entry, axis + 1)
        };
        if let Ok(list) = given.cast::<PyList>() {
            for at in 0..length {
                entry(self, at, list.get_item(at)?)?;
            }
        } else {
            for (at, item) in given.cast::<PyTuple>()?.iter().enumerate() {
                entry(self, at, item)?;
            }
        }
        self.place.pop();
        Ok(())
    }

    fn number(&mut self, given: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = match given.cast::<PyArray>() {
            Ok(array) if array.get().array.axes() == 0 => Some(array.get().array.item().map_err(raise)?),
            _ => scalar(given, self.dtype)?,
        };
        let value = match value {
            // In a list, only the kind of a NumPy number matters, not its type.
            Some(Scalar::Element(..)) => scalar(&given.call_method0("item")?, self.dtype)?,
            other => other,
        };
        match value {
            Some(value) => {
                self.numbers.push(value);
                Ok(())
            }
            None => Err(PyTypeError::new_err(format!(
                "{}: {} is not a number; use nested lists of numbers, or join arrays with rigel.stack",
                self.here(),
                given.get_type().name()?
            ))),
        }
    }

    fn here(&self) -> String {
        if self.place.is_empty() {
            return "the object".to_owned();
        }
        format!("at {}", self.place.iter().map(|at| format!("[{at}]")).collect::<String>())
    }

    fn ragged(&self, found: Option<usize>, axis: usize) -> PyErr {
        let words = |length: Option<usize>| match length {
            Some(length) => format!("a list of {length}"),
            None => "a number".to_owned(),
        };
        let expected = self.shape.get(axis).copied();
        PyValueError::new_err(format!("ragged list: {} is {}, not {}", self.here(), words(found), words(expected)))
    }
}

/// Elements of a prime field.
fn field(numbers: Numbers, shape: &[usize], of: Type, empty: bool) -> PyResult<Array> {
    let modulus = i128::from(of.modulus().unwrap_or(1));
    let values: Vec<u64> = match numbers {
        Numbers::Ints(all) => all.into_iter().map(|value| value.rem_euclid(modulus) as u64).collect(),
        Numbers::Bools(_) if empty => Vec::new(),
        _ => {
            return Err(PyTypeError::new_err(format!("elements of {} must be given as integers", name(of))));
        }
    };
    Array::from_slice(&values, shape, &Device::Cpu).and_then(|array| array.astype(of)).map_err(raise)
}

/// Numbers of a type that is not a field.
fn plain(numbers: Numbers, shape: &[usize], dtype: Option<Type>, empty: bool) -> PyResult<Array> {
    let cpu = &Device::Cpu;
    let made: Result<Array> = match numbers {
        Numbers::Bools(_) if empty => return Array::zeros(shape, dtype.unwrap_or(Type::F64), cpu).map_err(raise),
        Numbers::Bools(all) => Array::from_bools(&all, shape, cpu),
        Numbers::Ints(all) => return integers(&all, shape, dtype),
        Numbers::Floats(all) => Array::from_slice(&all, shape, cpu),
        Numbers::Complexes(all) => Array::from_slice(&all, shape, cpu),
    };
    made.and_then(|array| dtype.map_or(Ok(array.clone()), |dtype| array.astype(dtype))).map_err(raise)
}

fn integers(all: &[i128], shape: &[usize], dtype: Option<Type>) -> PyResult<Array> {
    fn fill<T: rigel_array::Number + TryFrom<i128>>(all: &[i128], shape: &[usize], of: Type) -> PyResult<Array> {
        let outside =
            |value: i128| PyOverflowError::new_err(format!("{value} is outside the range of {}", name(of)));
        let values: Vec<T> =
            all.iter().map(|&value| T::try_from(value).map_err(|_| outside(value))).collect::<PyResult<_>>()?;
        Array::from_slice(&values, shape, &Device::Cpu).map_err(raise)
    }
    let natural = if all.iter().any(|&value| value > i64::MAX.into()) { Type::U64 } else { Type::I64 };
    let of = dtype.unwrap_or(natural);
    match (of, of.kind()) {
        (Type::I8, _) => fill::<i8>(all, shape, of),
        (Type::I16, _) => fill::<i16>(all, shape, of),
        (Type::U8, _) => fill::<u8>(all, shape, of),
        (Type::U16, _) => fill::<u16>(all, shape, of),
        (Type::I32, _) => fill::<i32>(all, shape, of),
        (Type::U32, _) => fill::<u32>(all, shape, of),
        (Type::I64, _) => fill::<i64>(all, shape, of),
        (Type::U64, _) => fill::<u64>(all, shape, of),
        (_, NumberKind::Bool) => {
            let values: Vec<bool> = all.iter().map(|&value| value != 0).collect();
            Array::from_bools(&values, shape, &Device::Cpu).map_err(raise)
        }
        _ => {
            let values: Vec<f64> = all.iter().map(|&value| value as f64).collect();
            Array::from_slice(&values, shape, &Device::Cpu).and_then(|array| array.astype(of)).map_err(raise)
        }
    }
}
