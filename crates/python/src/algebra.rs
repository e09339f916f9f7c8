//! Matrices and polynomials over fields.

use pyo3::prelude::*;
use rigel_array::{Array, Type};

use crate::array::PyArray;
use crate::convert::{self, Wish};
use crate::work::{heavy, is_on_cpu, waiting};

/// Converts the other operand to elements of the array's field on its device, unless it is an array itself.
fn beside(array: &Array, other: &Bound<'_, PyAny>) -> PyResult<Array> {
    match other.cast::<PyArray>() {
        Ok(other) => Ok(other.get().array.clone()),
        Err(_) => {
            let dtype = Some(array.dtype()).filter(|of| of.is_field());
            convert::array(other, &Wish { dtype, device: Some(array.device()), copy: false })
        }
    }
}

/// The approximate number of steps of an elimination: a column takes about ten passes over the stack.
fn elimination(array: &Array) -> f64 {
    let width = array.shape().last().copied().unwrap_or(1) as f64;
    10.0 * array.len() as f64 * width
}

#[pymethods]
impl PyArray {
    /// The determinants of square matrices over a field: the last two axes.
    ///
    /// >>> import rigel
    /// >>> rigel.field("goldilocks")([[1, 2], [3, 10]]).det()
    /// array(4, dtype=goldilocks)
    fn det(&self, py: Python<'_>) -> PyResult<Self> {
        let array = self.array.clone();
        waiting(py, elimination(&array), is_on_cpu(&array), move || array.det()).map(Self::from)
    }

    /// The inverses of square matrices over a field: the last two axes. Raises ValueError if one is singular.
    ///
    /// >>> import rigel
    /// >>> a = rigel.field("goldilocks")([[1, 2], [3, 4]])
    /// >>> a @ a.inv()
    /// array([[1, 0],
    ///        [0, 1]], dtype=goldilocks)
    fn inv(&self, py: Python<'_>) -> PyResult<Self> {
        let array = self.array.clone();
        waiting(py, 2.0 * elimination(&array), is_on_cpu(&array), move || array.inv()).map(Self::from)
    }

    /// The solution x of `self @ x == b`, for square matrices over a field. Raises ValueError if one is singular.
    ///
    /// >>> import rigel
    /// >>> a = rigel.field("goldilocks")([[1, 2], [3, 4]])
    /// >>> a.solve([5, 11])
    /// array([1, 2], dtype=goldilocks)
    fn solve(&self, py: Python<'_>, b: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (array, b) = (self.array.clone(), beside(&self.array, b)?);
        waiting(py, 2.0 * elimination(&array), is_on_cpu(&array), move || array.solve(&b)).map(Self::from)
    }

    /// The ranks of matrices over a field: the last two axes.
    ///
    /// >>> import rigel
    /// >>> rigel.field("goldilocks")([[1, 2], [2, 4]]).matrix_rank()
    /// array(1)
    fn matrix_rank(&self, py: Python<'_>) -> PyResult<Self> {
        let array = self.array.clone();
        waiting(py, elimination(&array), is_on_cpu(&array), move || array.matrix_rank()).map(Self::from)
    }

    /// The reduced row echelon form of matrices over a field: the last two axes.
    ///
    /// >>> import rigel
    /// >>> rigel.field("goldilocks")([[2, 4], [1, 2]]).row_reduce()
    /// array([[1, 2],
    ///        [0, 0]], dtype=goldilocks)
    fn row_reduce(&self, py: Python<'_>) -> PyResult<Self> {
        let array = self.array.clone();
        waiting(py, elimination(&array), is_on_cpu(&array), move || array.row_reduce()).map(Self::from)
    }

    /// The values at `points` of the polynomials whose coefficients, lowest first, are the last axis.
    ///
    /// >>> import rigel
    /// >>> rigel.field("goldilocks")([1, 2, 3]).poly_evaluate([0, 1, 2])
    /// array([ 1,  6, 17], dtype=goldilocks)
    fn poly_evaluate(&self, py: Python<'_>, points: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (array, points) = (self.array.clone(), beside(&self.array, points)?);
        let steps = array.len() as f64 * points.len() as f64;
        heavy(py, steps, is_on_cpu(&array), move || array.poly_evaluate(&points)).map(Self::from)
    }

    /// The polynomials with the values `self`, the last axis, at `points`, which must differ; coefficients lowest
    /// first.
    ///
    /// >>> import rigel
    /// >>> rigel.field("goldilocks")([1, 6, 17]).poly_interpolate([0, 1, 2])
    /// array([1, 2, 3], dtype=goldilocks)
    fn poly_interpolate(&self, py: Python<'_>, points: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (array, points) = (self.array.clone(), beside(&self.array, points)?);
        let steps = array.len() as f64 * points.len() as f64;
        waiting(py, steps, is_on_cpu(&array), move || array.poly_interpolate(&points)).map(Self::from)
    }

    /// The products of polynomials whose coefficients, lowest first, are the last axis.
    ///
    /// >>> import rigel
    /// >>> rigel.field("goldilocks")([1, 1]).poly_multiply([1, 2, 1])
    /// array([1, 3, 3, 1], dtype=goldilocks)
    fn poly_multiply(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (array, other) = (self.array.clone(), beside(&self.array, other)?);
        let count = (array.len() + other.len()) as f64;
        // The transforms of one, or the many of a product over Mersenne-31.
        let transforms =
            if array.dtype().base() == Type::Mersenne31 { 3.0 * array.dtype().degree() as f64 } else { 1.0 };
        let steps = 50.0 * transforms * count;
        heavy(py, steps, is_on_cpu(&array), move || array.poly_multiply(&other)).map(Self::from)
    }

    /// The quotients and remainders of polynomials by one polynomial, whose highest coefficient must not be zero.
    ///
    /// >>> import rigel
    /// >>> rigel.field("goldilocks")([2, 3, 3, 1]).poly_divide([1, 1])
    /// (array([1, 2, 1], dtype=goldilocks), array([1], dtype=goldilocks))
    fn poly_divide(&self, py: Python<'_>, divisor: &Bound<'_, PyAny>) -> PyResult<(Self, Self)> {
        let (array, divisor) = (self.array.clone(), beside(&self.array, divisor)?);
        let steps = 300.0 * array.len() as f64;
        let (quotient, rest) = waiting(py, steps, is_on_cpu(&array), move || array.poly_divide(&divisor))?;
        Ok((quotient.into(), rest.into()))
    }
}
