//! Element-wise functions, and functions that join arrays.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use rigel_array::{Array, Binary, Device, Lazy, Unary};

use crate::array::{PyArray, device_of};
use crate::convert::{self, anything, several};
use crate::lazy::PyLazy;
use crate::operand::Operand;
use crate::work::{guard, on, sized};

/// An operation on every element of an array, an expression, or an object that can be converted to an array.
fn unary<'py>(x: &Bound<'py, PyAny>, operation: Unary) -> PyResult<Bound<'py, PyAny>> {
    let py = x.py();
    if let Ok(array) = x.cast::<PyArray>() {
        return array.get().unary(py, operation)?.into_bound_py_any(py);
    }
    if let Ok(lazy) = x.cast::<PyLazy>() {
        let lazy = lazy.get().0.clone();
        return guard(|| Ok(PyLazy(lazy.unary(operation))))?.into_bound_py_any(py);
    }
    let array = convert::array(x, &anything())?;
    on(py, &array, || array.unary(operation)).map(PyArray::from)?.into_bound_py_any(py)
}

/// Parses the operands of a function. An array among them determines the type and device of the others, except for
/// the type of operand `apart`, an exponent or a condition.
fn operands<const N: usize>(given: [&Bound<'_, PyAny>; N], apart: Option<usize>) -> PyResult<[Operand; N]> {
    let first = given.iter().find_map(|x| {
        let array = x.cast::<PyArray>().ok().map(|array| (array.get().array.dtype(), array.get().array.device()));
        array.or_else(|| {
            let lazy = &x.cast::<PyLazy>().ok()?.get().0;
            Some((lazy.dtype().ok()?, lazy.device().unwrap_or(Device::Cpu)))
        })
    });
    let (of, device) = first.map_or((None, Device::Cpu), |(of, device)| (Some(of), device));
    let mut found = Vec::with_capacity(N);
    for (at, x) in given.into_iter().enumerate() {
        let of = if apart == Some(at) { None } else { of };
        found.push(match Operand::beside(x, of, &device)? {
            Some(operand) => operand,
            None => return Err(PyTypeError::new_err(format!("{} is neither a number nor an array", x.repr()?))),
        });
    }
    found.try_into().map_err(|_| PyTypeError::new_err("too few operands"))
}

/// The result of a function of several operands: an expression if an operand is one, else an array.
fn joined<'py, const N: usize>(
    given: [&Bound<'py, PyAny>; N],
    apart: Option<usize>,
    join: impl FnOnce([Lazy; N]) -> Lazy + Send,
) -> PyResult<Bound<'py, PyAny>> {
    let py = given[0].py();
    let operands = operands(given, apart)?;
    let postponed = operands.iter().any(|operand| matches!(operand, Operand::Lazy(_)));
    let size = operands.iter().map(Operand::len).max().unwrap_or(0);
    let on_cpu =
        !operands.iter().any(|operand| matches!(operand, Operand::Array(array) if !array.device().is_cpu()));
    let lazies = operands.map(Lazy::from);
    if postponed {
        return guard(|| Ok(PyLazy(join(lazies))))?.into_bound_py_any(py);
    }
    sized(py, size, on_cpu, || join(lazies).eval()).map(PyArray::from)?.into_bound_py_any(py)
}

macro_rules! unary_functions {
    ($($(#[$doc:meta])* $name:ident $operation:ident;)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            fn $name<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
                unary(x, Unary::$operation)
            }
        )*

        fn register_unary(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $( module.add_function(wrap_pyfunction!($name, module)?)?; )*
            Ok(())
        }
    };
}
unary_functions! {
    /// `-x`.
    ///
    /// >>> import rigel
    /// >>> rigel.neg([1, -2])
    /// array([-1,  2])
    neg Neg;
    /// The negation of a boolean.
    ///
    /// >>> import rigel
    /// >>> rigel.logical_not([True, False])
    /// array([False,  True])
    logical_not Not;
    /// The absolute value.
    ///
    /// >>> import rigel
    /// >>> rigel.abs([3 + 4j, -1])
    /// array([5., 1.])
    abs Abs;
    /// The exponential function.
    ///
    /// >>> import rigel
    /// >>> rigel.exp([0.0, 1.0])
    /// array([1.        , 2.71828183])
    exp Exp;
    /// The natural logarithm.
    ///
    /// >>> import rigel
    /// >>> rigel.log([1.0, 2.0])
    /// array([0.        , 0.69314718])
    log Log;
    /// The square root.
    ///
    /// >>> import rigel
    /// >>> rigel.sqrt([4, 9])
    /// array([2., 3.])
    sqrt Sqrt;
    /// The sine.
    ///
    /// >>> import rigel
    /// >>> rigel.sin([0.0, 0.5])
    /// array([0.        , 0.47942554])
    sin Sin;
    /// The cosine.
    ///
    /// >>> import rigel
    /// >>> rigel.cos([0.0, 0.5])
    /// array([1.        , 0.87758256])
    cos Cos;
    /// The tangent.
    ///
    /// >>> import rigel
    /// >>> rigel.tan([0.0, 0.5])
    /// array([0.        , 0.54630249])
    tan Tan;
    /// The inverse sine.
    ///
    /// >>> import rigel
    /// >>> rigel.asin([0.0, 1.0])
    /// array([0.        , 1.57079633])
    asin Asin;
    /// The inverse cosine.
    ///
    /// >>> import rigel
    /// >>> rigel.acos([1.0, 0.0])
    /// array([0.        , 1.57079633])
    acos Acos;
    /// The inverse tangent.
    ///
    /// >>> import rigel
    /// >>> rigel.atan([0.0, 1.0])
    /// array([0.        , 0.78539816])
    atan Atan;
    /// The hyperbolic sine.
    ///
    /// >>> import rigel
    /// >>> rigel.sinh([0.0, 1.0])
    /// array([0.        , 1.17520119])
    sinh Sinh;
    /// The hyperbolic cosine.
    ///
    /// >>> import rigel
    /// >>> rigel.cosh([0.0, 1.0])
    /// array([1.        , 1.54308063])
    cosh Cosh;
    /// The hyperbolic tangent.
    ///
    /// >>> import rigel
    /// >>> rigel.tanh([0.0, 1.0])
    /// array([0.        , 0.76159416])
    tanh Tanh;
    /// The largest integer that is at most x.
    ///
    /// >>> import rigel
    /// >>> rigel.floor([1.5, -1.5])
    /// array([ 1., -2.])
    floor Floor;
    /// The smallest integer that is at least x.
    ///
    /// >>> import rigel
    /// >>> rigel.ceil([1.5, -1.5])
    /// array([ 2., -1.])
    ceil Ceil;
    /// The complex conjugate.
    ///
    /// >>> import rigel
    /// >>> rigel.conj([1 + 2j])
    /// array([1.-2.j])
    conj Conj;
    /// The real part.
    ///
    /// >>> import rigel
    /// >>> rigel.real([1 + 2j])
    /// array([1.])
    real Real;
    /// The imaginary part.
    ///
    /// >>> import rigel
    /// >>> rigel.imag([1 + 2j])
    /// array([2.])
    imag Imag;
    /// Whether x is NaN.
    ///
    /// >>> import rigel
    /// >>> rigel.isnan([1.0, float("nan")])
    /// array([False,  True])
    isnan IsNan;
    /// Whether x is finite.
    ///
    /// >>> import rigel
    /// >>> rigel.isfinite([1.0, float("inf")])
    /// array([ True, False])
    isfinite IsFinite;
}

macro_rules! binary_functions {
    ($($(#[$doc:meta])* $name:ident $operation:ident;)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            fn $name<'py>(x: &Bound<'py, PyAny>, y: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
                let apart = matches!(Binary::$operation, Binary::Pow).then_some(1);
                joined([x, y], apart, |[x, y]| x.binary(Binary::$operation, y))
            }
        )*

        fn register_binary(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $( module.add_function(wrap_pyfunction!($name, module)?)?; )*
            Ok(())
        }
    };
}
binary_functions! {
    /// `x + y`.
    ///
    /// >>> import rigel
    /// >>> rigel.add([1, 2], 3)
    /// array([4, 5])
    add Add;
    /// `x - y`.
    ///
    /// >>> import rigel
    /// >>> rigel.sub([1, 2], 3)
    /// array([-2, -1])
    sub Sub;
    /// `x y`, element by element.
    ///
    /// >>> import rigel
    /// >>> rigel.mul([1, 2], 3)
    /// array([3, 6])
    mul Mul;
    /// `x / y`: as float64 for integers; for a field, raises ZeroDivisionError if any y is zero.
    ///
    /// >>> import rigel
    /// >>> rigel.div([1, 2], 4)
    /// array([0.25, 0.5 ])
    div Div;
    /// `x^y`. Exponents of field elements are integers; a negative exponent inverts.
    ///
    /// >>> import rigel
    /// >>> rigel.pow([2, 3], 2)
    /// array([4, 9])
    pow Pow;
    /// The quotient rounded down.
    ///
    /// >>> import rigel
    /// >>> rigel.floor_div([7, -7], 2)
    /// array([ 3, -4])
    floor_div FloorDiv;
    /// The remainder of `floor_div`, with the sign of the divisor.
    ///
    /// >>> import rigel
    /// >>> rigel.remainder([7, -7], 3)
    /// array([1, 2])
    remainder Remainder;
    /// The smaller of two.
    ///
    /// >>> import rigel
    /// >>> rigel.minimum([1, 5], 3)
    /// array([1, 3])
    minimum Min;
    /// The larger of two.
    ///
    /// >>> import rigel
    /// >>> rigel.maximum([1, 5], 3)
    /// array([3, 5])
    maximum Max;
    /// Whether x equals y.
    ///
    /// >>> import rigel
    /// >>> rigel.eq([1, 5], 5)
    /// array([False,  True])
    eq Eq;
    /// Whether x differs from y.
    ///
    /// >>> import rigel
    /// >>> rigel.ne([1, 5], 5)
    /// array([ True, False])
    ne Ne;
    /// Whether x is less than y.
    ///
    /// >>> import rigel
    /// >>> rigel.lt([1, 5], 5)
    /// array([ True, False])
    lt Lt;
    /// Whether x is at most y.
    ///
    /// >>> import rigel
    /// >>> rigel.le([1, 5, 6], 5)
    /// array([ True,  True, False])
    le Le;
    /// Whether x is greater than y.
    ///
    /// >>> import rigel
    /// >>> rigel.gt([1, 5], 1)
    /// array([False,  True])
    gt Gt;
    /// Whether x is at least y.
    ///
    /// >>> import rigel
    /// >>> rigel.ge([0, 1, 5], 1)
    /// array([False,  True,  True])
    ge Ge;
    /// The bits that both integers, or booleans, have: `x & y`.
    ///
    /// >>> import rigel
    /// >>> rigel.bitwise_and([6, 5], 3)
    /// array([2, 1])
    bitwise_and And;
    /// The bits that at least one has: `x | y`.
    ///
    /// >>> import rigel
    /// >>> rigel.bitwise_or([6, 5], 3)
    /// array([7, 7])
    bitwise_or Or;
    /// The bits that exactly one has: `x ^ y`.
    ///
    /// >>> import rigel
    /// >>> rigel.bitwise_xor([6, 5], 3)
    /// array([5, 6])
    bitwise_xor Xor;
    /// `x << y` for integers; 0 if y is negative or at least the number of bits.
    ///
    /// >>> import rigel
    /// >>> rigel.left_shift([1, -3], 2)
    /// array([  4, -12])
    left_shift ShiftLeft;
    /// `x >> y` for integers, rounded down; the sign, 0 or -1, if y is negative or at least the number of bits.
    ///
    /// >>> import rigel
    /// >>> rigel.right_shift([12, -12], 2)
    /// array([ 3, -3])
    right_shift ShiftRight;
}

macro_rules! logical_functions {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            fn $name<'py>(x: &Bound<'py, PyAny>, y: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
                joined([x, y], None, |[x, y]| x.$name(y))
            }
        )*

        fn register_logical(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $( module.add_function(wrap_pyfunction!($name, module)?)?; )*
            Ok(())
        }
    };
}
logical_functions! {
    /// Whether both are true, or not zero.
    ///
    /// >>> import rigel
    /// >>> rigel.logical_and([True, False], True)
    /// array([ True, False])
    logical_and;
    /// Whether at least one is true, or not zero.
    ///
    /// >>> import rigel
    /// >>> rigel.logical_or([True, False], False)
    /// array([ True, False])
    logical_or;
    /// Whether exactly one is true, or not zero.
    ///
    /// >>> import rigel
    /// >>> rigel.logical_xor([True, False], True)
    /// array([False,  True])
    logical_xor;
}

/// NumPy's names of functions that have a shorter one here.
const NUMPY_NAMES: [(&str, &str); 25] = [
    ("absolute", "abs"),
    ("arccos", "acos"),
    ("arcsin", "asin"),
    ("arctan", "atan"),
    ("bitwise_not", "invert"),
    ("conjugate", "conj"),
    ("divide", "div"),
    ("equal", "eq"),
    ("floor_divide", "floor_div"),
    ("greater", "gt"),
    ("greater_equal", "ge"),
    ("less", "lt"),
    ("less_equal", "le"),
    ("amax", "max"),
    ("amin", "min"),
    ("mod", "remainder"),
    ("multiply", "mul"),
    ("negative", "neg"),
    ("not_equal", "ne"),
    ("power", "pow"),
    ("subtract", "sub"),
    ("true_divide", "div"),
    ("bitwise_left_shift", "left_shift"),
    ("bitwise_right_shift", "right_shift"),
    ("concat", "concatenate"),
];

/// Adds NumPy's names, after all functions.
pub(crate) fn register_numpy_names(module: &Bound<'_, PyModule>) -> PyResult<()> {
    NUMPY_NAMES.iter().try_for_each(|(name, own)| module.add(*name, module.getattr(*own)?))
}

/// The bits of integers, or booleans, turned: `~x`.
///
/// >>> import rigel
/// >>> rigel.invert([0, 5])
/// array([-1, -6])
#[pyfunction]
fn invert<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if x.cast::<PyArray>().is_ok() || x.cast::<PyLazy>().is_ok() {
        return x.bitnot();
    }
    Bound::new(x.py(), PyArray::from(convert::array(x, &anything())?))?.into_any().bitnot()
}

/// The elements limited to the range from `min` to `max`; None is no limit.
///
/// >>> import rigel
/// >>> rigel.clip([1, 5, 9], 2, 8)
/// array([2, 5, 8])
#[pyfunction]
#[pyo3(signature = (a, min=None, max=None))]
pub(crate) fn clip<'py>(
    a: &Bound<'py, PyAny>,
    min: Option<&Bound<'py, PyAny>>,
    max: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let given = |limit: Option<&Bound<'py, PyAny>>| limit.filter(|limit| !limit.is_none()).cloned();
    match (given(min), given(max)) {
        (Some(min), Some(max)) => joined([a, &min, &max], None, |[a, min, max]| a.maximum(min).minimum(max)),
        (Some(min), None) => joined([a, &min], None, |[a, min]| a.maximum(min)),
        (None, Some(max)) => joined([a, &max], None, |[a, max]| a.minimum(max)),
        (None, None) => Err(PyTypeError::new_err("clip needs min, max or both")),
    }
}

/// The elements of `x` where `condition` is true, those of `y` elsewhere.
///
/// >>> import rigel
/// >>> a = rigel.arange(4)
/// >>> rigel.where(a > 1, a, -a)
/// array([ 0, -1,  2,  3])
#[pyfunction]
fn r#where<'py>(
    condition: &Bound<'py, PyAny>,
    x: &Bound<'py, PyAny>,
    y: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    // The condition does not determine the type of x and y.
    joined([x, y, condition], Some(2), |[x, y, condition]| x.select(condition, y))
}

/// Joins arrays along an axis.
///
/// >>> import rigel
/// >>> rigel.concatenate([rigel.arange(2), rigel.arange(3)])
/// array([0, 1, 0, 1, 2])
#[pyfunction]
#[pyo3(signature = (arrays, axis=0))]
fn concatenate(py: Python<'_>, arrays: &Bound<'_, PyAny>, axis: isize) -> PyResult<PyArray> {
    let arrays = several(arrays)?;
    let size = arrays.iter().map(Array::len).sum();
    sized(py, size, device_of(&arrays).is_cpu(), || Array::concatenate(&arrays, axis)).map(PyArray::from)
}

/// Joins arrays of one shape along a new axis.
///
/// >>> import rigel
/// >>> rigel.stack([rigel.arange(2), rigel.arange(2)], axis=1)
/// array([[0, 0],
///        [1, 1]])
#[pyfunction]
#[pyo3(signature = (arrays, axis=0))]
fn stack(py: Python<'_>, arrays: &Bound<'_, PyAny>, axis: isize) -> PyResult<PyArray> {
    let arrays = several(arrays)?;
    let size = arrays.iter().map(Array::len).sum();
    sized(py, size, device_of(&arrays).is_cpu(), || Array::stack(&arrays, axis)).map(PyArray::from)
}

/// The unary functions that are methods too.
#[pymethods]
impl PyArray {
    /// The complex conjugate.
    fn conj(&self, py: Python<'_>) -> PyResult<Self> {
        self.unary(py, Unary::Conj)
    }

    /// The absolute value.
    fn abs(&self, py: Python<'_>) -> PyResult<Self> {
        self.unary(py, Unary::Abs)
    }

    /// The exponential function.
    fn exp(&self, py: Python<'_>) -> PyResult<Self> {
        self.unary(py, Unary::Exp)
    }

    /// The natural logarithm.
    fn log(&self, py: Python<'_>) -> PyResult<Self> {
        self.unary(py, Unary::Log)
    }

    /// The square root.
    fn sqrt(&self, py: Python<'_>) -> PyResult<Self> {
        self.unary(py, Unary::Sqrt)
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register_unary(module)?;
    register_binary(module)?;
    register_logical(module)?;
    module.add_function(wrap_pyfunction!(invert, module)?)?;
    module.add_function(wrap_pyfunction!(clip, module)?)?;
    module.add_function(wrap_pyfunction!(r#where, module)?)?;
    module.add_function(wrap_pyfunction!(concatenate, module)?)?;
    module.add_function(wrap_pyfunction!(stack, module)?)
}
