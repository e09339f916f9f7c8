//! `+ - * / // % ** @ & | ^ ~ << >>` and comparisons of arrays and of expressions: plain, reflected and in place.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use rigel_array::{Array, Binary, Lazy, NumberKind, Type, Unary, name};

use crate::array::PyArray;
use crate::lazy::PyLazy;
use crate::matmul;
use crate::operand::Operand;
use crate::work::{guard, is_on_cpu, on, sized};

/// The type that determines how a number or list is parsed as the other operand of an array of type `of`.
/// Exponents have their own type.
fn type_beside(operation: Binary, reflected: bool, of: Type) -> Option<Type> {
    (operation != Binary::Pow || reflected).then_some(of)
}

/// `array op other`, or `other op array` if reflected. Other objects' own operators are tried next.
fn eager<'py>(
    array: &Array,
    operation: Binary,
    other: &Bound<'py, PyAny>,
    reflected: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = other.py();
    if let Ok(other) = other.cast::<PyArray>() {
        let other = &other.get().array;
        let on_cpu = is_on_cpu(array);
        let result = sized(py, array.len().max(other.len()), on_cpu, || {
            if reflected { other.binary(operation, array) } else { array.binary(operation, other) }
        })?;
        return PyArray::from(result).into_bound_py_any(py);
    }
    let device = array.device();
    let beside = type_beside(operation, reflected, array.dtype());
    let Some(operand) = Operand::beside(other, beside, &device)? else {
        return Ok(py.NotImplemented().into_bound(py));
    };
    if let Operand::Lazy(other) = operand {
        let mine = Lazy::from(array);
        let joined = if reflected { other.binary(operation, mine) } else { mine.binary(operation, other) };
        return PyLazy(joined).into_bound_py_any(py);
    }
    let size = array.len().max(operand.len());
    let result = sized(py, size, device.is_cpu(), || {
        if reflected {
            Lazy::from(operand).binary(operation, array).eval()
        } else {
            array.binary(operation, operand)
        }
    })?;
    PyArray::from(result).into_bound_py_any(py)
}

/// An operation on an expression, whose result is an expression.
fn postponed<'py>(
    lazy: &Lazy,
    operation: Binary,
    other: &Bound<'py, PyAny>,
    reflected: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = other.py();
    let device = lazy.device().unwrap_or(rigel_array::Device::Cpu);
    let beside = lazy.dtype().ok().and_then(|of| type_beside(operation, reflected, of));
    let Some(operand) = Operand::beside(other, beside, &device)? else {
        return Ok(py.NotImplemented().into_bound(py));
    };
    let (mine, operand) = (lazy.clone(), Lazy::from(operand));
    let joined =
        guard(|| Ok(if reflected { operand.binary(operation, mine) } else { mine.binary(operation, operand) }))?;
    PyLazy(joined).into_bound_py_any(py)
}

/// `array op= other`: the result goes to the same memory.
fn in_place(array: &Array, operation: Binary, other: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = other.py();
    let beside = type_beside(operation, false, array.dtype());
    let Some(operand) = Operand::beside(other, beside, &array.device())? else {
        return Err(PyTypeError::new_err(format!("{} is neither a number nor an array", other.repr()?)));
    };
    let size = array.len().max(operand.len());
    let joined = guard(|| Ok(Lazy::from(array).binary(operation, operand)))?;
    let result = joined.dtype().map_err(crate::error::raise)?;
    if rank(result) > rank(array.dtype()) {
        return Err(PyTypeError::new_err(format!(
            "the result has type {} and can't be written to elements of {}",
            name(result),
            name(array.dtype())
        )));
    }
    sized(py, size, is_on_cpu(array), || array.assign(joined))
}

/// The rank of a kind: each kind can hold the values of lower ones.
fn rank(of: Type) -> usize {
    match of.kind() {
        NumberKind::Bool => 0,
        NumberKind::Integer => 1,
        NumberKind::Float => 2,
        NumberKind::Complex => 3,
        NumberKind::Field => 4,
    }
}

fn comparison(operation: CompareOp) -> Binary {
    match operation {
        CompareOp::Lt => Binary::Lt,
        CompareOp::Le => Binary::Le,
        CompareOp::Eq => Binary::Eq,
        CompareOp::Ne => Binary::Ne,
        CompareOp::Gt => Binary::Gt,
        CompareOp::Ge => Binary::Ge,
    }
}

/// The slots of a class, each in terms of `operate(self, operation, other, reflected)`.
macro_rules! slots {
    ($class:ty, $of:expr, $operate:ident: $($slot:ident $reflected:ident $operation:ident;)*) => {
        #[pymethods]
        impl $class {
            $(
                fn $slot<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
                    $operate($of(self), Binary::$operation, other, false)
                }

                fn $reflected<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
                    $operate($of(self), Binary::$operation, other, true)
                }
            )*

            fn __pow__<'py>(
                &self,
                other: &Bound<'py, PyAny>,
                modulo: &Bound<'py, PyAny>,
            ) -> PyResult<Bound<'py, PyAny>> {
                no_modulo(modulo)?;
                $operate($of(self), Binary::Pow, other, false)
            }

            fn __rpow__<'py>(
                &self,
                other: &Bound<'py, PyAny>,
                modulo: &Bound<'py, PyAny>,
            ) -> PyResult<Bound<'py, PyAny>> {
                no_modulo(modulo)?;
                $operate($of(self), Binary::Pow, other, true)
            }

            fn __richcmp__<'py>(
                &self,
                other: &Bound<'py, PyAny>,
                operation: CompareOp,
            ) -> PyResult<Bound<'py, PyAny>> {
                $operate($of(self), comparison(operation), other, false)
            }
        }
    };
    (both $class:ty, $of:expr, $operate:ident) => {
        slots! { $class, $of, $operate:
            __add__ __radd__ Add;
            __sub__ __rsub__ Sub;
            __mul__ __rmul__ Mul;
            __truediv__ __rtruediv__ Div;
            __floordiv__ __rfloordiv__ FloorDiv;
            __mod__ __rmod__ Remainder;
            __and__ __rand__ And;
            __or__ __ror__ Or;
            __xor__ __rxor__ Xor;
            __lshift__ __rlshift__ ShiftLeft;
            __rshift__ __rrshift__ ShiftRight;
        }
    };
}

fn array_of(class: &PyArray) -> &Array {
    &class.array
}

fn lazy_of(class: &PyLazy) -> &Lazy {
    &class.0
}

slots!(both PyArray, array_of, eager);
slots!(both PyLazy, lazy_of, postponed);

fn no_modulo(modulo: &Bound<'_, PyAny>) -> PyResult<()> {
    if modulo.is_none() {
        Ok(())
    } else {
        Err(PyTypeError::new_err("pow of an array takes no modulus; apply % to the result"))
    }
}

macro_rules! in_place_slots {
    ($($slot:ident $operation:ident;)*) => {
        #[pymethods]
        impl PyArray {
            $(
                fn $slot(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
                    in_place(&self.array, Binary::$operation, other)
                }
            )*

            fn __ipow__(&self, other: &Bound<'_, PyAny>, modulo: &Bound<'_, PyAny>) -> PyResult<()> {
                no_modulo(modulo)?;
                in_place(&self.array, Binary::Pow, other)
            }
        }
    };
}
in_place_slots! {
    __iadd__ Add;
    __isub__ Sub;
    __imul__ Mul;
    __itruediv__ Div;
    __ifloordiv__ FloorDiv;
    __imod__ Remainder;
    __iand__ And;
    __ior__ Or;
    __ixor__ Xor;
    __ilshift__ ShiftLeft;
    __irshift__ ShiftRight;
}

#[pymethods]
impl PyArray {
    fn __neg__(&self, py: Python<'_>) -> PyResult<Self> {
        self.unary(py, Unary::Neg)
    }

    fn __pos__(&self, py: Python<'_>) -> PyResult<Self> {
        on(py, &self.array, || self.array.copy()).map(Self::from)
    }

    fn __abs__(&self, py: Python<'_>) -> PyResult<Self> {
        self.unary(py, Unary::Abs)
    }

    fn __invert__(&self, py: Python<'_>) -> PyResult<Self> {
        on(py, &self.array, || inverted(self.array.lazy(), self.array.dtype()).eval()).map(Self::from)
    }

    fn __matmul__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        matmul::operator(&self.array, other, false)
    }

    fn __rmatmul__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        matmul::operator(&self.array, other, true)
    }
}

#[pymethods]
impl PyLazy {
    fn __neg__(&self) -> PyResult<Self> {
        guard(|| Ok(Self(self.0.clone().unary(Unary::Neg))))
    }

    fn __pos__(&self) -> Self {
        Self(self.0.clone())
    }

    fn __abs__(&self) -> PyResult<Self> {
        guard(|| Ok(Self(self.0.clone().unary(Unary::Abs))))
    }

    fn __invert__(&self) -> PyResult<Self> {
        let of = self.0.dtype().map_err(crate::error::raise)?;
        guard(|| Ok(Self(inverted(self.0.clone(), of))))
    }
}

/// Bitwise not: for an integer in two's complement, `-x - 1`.
fn inverted(lazy: Lazy, of: Type) -> Lazy {
    match of.kind() {
        NumberKind::Integer => lazy.unary(Unary::Neg).binary(Binary::Sub, 1),
        _ => lazy.unary(Unary::Not),
    }
}
