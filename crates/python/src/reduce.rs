//! Sums, products, minima, maxima and means of arrays and expressions.

use pyo3::prelude::*;
use rigel_array::Reduction;

use crate::array::PyArray;
use crate::convert::{self, anything};
use crate::lazy::{PyLazy, averaged, reduced};

/// The reductions, as functions and as methods.
macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident $reduction:expr;)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            #[pyo3(signature = (a, axis=None, keepdims=false))]
            fn $name(
                a: &Bound<'_, PyAny>,
                axis: Option<&Bound<'_, PyAny>>,
                keepdims: bool,
            ) -> PyResult<PyArray> {
                reduce(a, $reduction, axis, keepdims)
            }
        )*

        #[pymethods]
        impl PyArray {
            $(
                $(#[$doc])*
                #[pyo3(signature = (axis=None, keepdims=false))]
                fn $name(
                    slf: &Bound<'_, Self>,
                    axis: Option<&Bound<'_, PyAny>>,
                    keepdims: bool,
                ) -> PyResult<Self> {
                    reduce(slf.as_any(), $reduction, axis, keepdims)
                }
            )*
        }

        pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $( module.add_function(wrap_pyfunction!($name, module)?)?; )*
            Ok(())
        }
    };
}
reductions! {
    /// The sum along the axes, by default all axes. Booleans and small integers are summed as 64-bit integers.
    ///
    /// >>> import rigel
    /// >>> rigel.sum([[1, 2], [3, 4]], axis=0)
    /// array([4, 6])
    sum Some(Reduction::Sum);
    /// The product along the axes, by default all axes.
    ///
    /// >>> import rigel
    /// >>> rigel.prod([[1, 2], [3, 4]], axis=1)
    /// array([ 2, 12])
    prod Some(Reduction::Product);
    /// The minimum along the axes, by default all axes.
    ///
    /// >>> import rigel
    /// >>> rigel.min([[1, 2], [3, 4]], axis=1)
    /// array([1, 3])
    min Some(Reduction::Min);
    /// The maximum along the axes, by default all axes.
    ///
    /// >>> import rigel
    /// >>> rigel.max([[1, 2], [3, 4]], axis=1)
    /// array([2, 4])
    max Some(Reduction::Max);
    /// The mean along the axes, by default all axes; as float64 for integers.
    ///
    /// >>> import rigel
    /// >>> rigel.mean([[1, 2], [3, 4]], axis=1)
    /// array([1.5, 3.5])
    mean None;
}

/// A reduction; the mean if `None`.
fn reduce(
    a: &Bound<'_, PyAny>,
    reduction: Option<Reduction>,
    axis: Option<&Bound<'_, PyAny>>,
    keep: bool,
) -> PyResult<PyArray> {
    let py = a.py();
    let lazy = match (a.cast::<PyArray>(), a.cast::<PyLazy>()) {
        (Ok(array), _) => array.get().array.lazy(),
        (_, Ok(lazy)) => lazy.get().0.clone(),
        _ => convert::array(a, &anything())?.lazy(),
    };
    match reduction {
        Some(reduction) => reduced(py, lazy, reduction, axis, keep),
        None => averaged(py, lazy, axis, keep),
    }
}
