//! Element types in Python: the class `rigel.DType`, and `rigel.Field`, whose methods are in `field`.

use std::hash::{DefaultHasher, Hash, Hasher};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyString, PyType};
use rigel_array::{NumberKind, Type, name, type_named};

use crate::error::raise;

/// The element type of an array. It compares equal to its name and to NumPy's dtype of that name.
///
/// >>> import rigel
/// >>> rigel.float64
/// rigel.float64
/// >>> rigel.float64 == "float64", rigel.float64.itemsize, rigel.float64.kind
/// (True, 8, 'f')
/// >>> rigel.zeros(3, dtype=rigel.goldilocks).dtype.kind
/// 'field'
#[pyclass(frozen, module = "rigel", name = "DType")]
pub(crate) struct DType(pub(crate) Type);

/// A finite field, which creates arrays of its elements. `rigel.field(name)` returns it.
///
/// >>> import rigel
/// >>> GF = rigel.field("goldilocks")
/// >>> a = GF([1, 2, -1])
/// >>> a * a
/// array([1, 4, 1], dtype=goldilocks)
/// >>> isinstance(a, GF), GF.order == 2**64 - 2**32 + 1
/// (True, True)
#[pyclass(frozen, module = "rigel", name = "Field")]
pub(crate) struct Field {
    pub(crate) of: Type,
}

/// Each type is one object, so that `a.dtype is rigel.float64`.
pub(crate) fn object(py: Python<'_>, of: Type) -> PyResult<Py<DType>> {
    static ALL: PyOnceLock<Vec<Py<DType>>> = PyOnceLock::new();
    let all = ALL.get_or_try_init(py, || {
        Type::ALL.into_iter().map(|of| Py::new(py, DType(of))).collect::<PyResult<Vec<_>>>()
    })?;
    Ok(all[of as usize].clone_ref(py))
}

/// Parses an argument `dtype`: a `DType`, a `Field`, a name, or a type of Python or NumPy.
pub(crate) fn parse(given: &Bound<'_, PyAny>) -> PyResult<Type> {
    if let Ok(known) = given.cast::<DType>() {
        return Ok(known.get().0);
    }
    if let Ok(field) = given.cast::<Field>() {
        return Ok(field.get().of);
    }
    if let Ok(text) = given.cast::<PyString>() {
        return type_named(text.to_str()?).map_err(raise);
    }
    if let Ok(class) = given.cast::<PyType>() {
        let py = given.py();
        let known = [
            (py.get_type::<PyBool>(), Type::Bool),
            (py.get_type::<PyInt>(), Type::I64),
            (py.get_type::<PyFloat>(), Type::F64),
            (py.get_type::<PyComplex>(), Type::C128),
        ];
        if let Some((_, of)) = known.into_iter().find(|(known, _)| known.is(class)) {
            return Ok(of);
        }
        return named(&class.name()?);
    }
    match given.getattr_opt("name")? {
        Some(text) if text.is_instance_of::<PyString>() => named(text.cast::<PyString>()?),
        _ => named(&given.repr()?),
    }
}

fn named(text: &Bound<'_, PyString>) -> PyResult<Type> {
    let text = text.to_str()?;
    type_named(text.strip_suffix('_').unwrap_or(text)).map_err(raise)
}

/// [`parse`] for an optional argument.
pub(crate) fn parse_option(given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Type>> {
    given.map(parse).transpose()
}

#[pymethods]
impl DType {
    /// The type of this name.
    #[new]
    fn new(py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<Py<Self>> {
        object(py, parse(name)?)
    }

    /// The type's name.
    #[getter]
    fn name(&self) -> &'static str {
        name(self.0)
    }

    /// The size of an element in bytes.
    #[getter]
    fn itemsize(&self) -> usize {
        self.0.bytes()
    }

    /// NumPy's letter for its kind (`b`, `i`, `u`, `f`, `c`), or `field`.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.0.kind() {
            NumberKind::Bool => "b",
            NumberKind::Integer if self.0.is_unsigned() => "u",
            NumberKind::Integer => "i",
            NumberKind::Float => "f",
            NumberKind::Complex => "c",
            NumberKind::Field => "field",
        }
    }

    fn __repr__(&self) -> String {
        let name = name(self.0);
        if self.0 == Type::Bool { "rigel.bool_".to_owned() } else { format!("rigel.{name}") }
    }

    fn __str__(&self) -> &'static str {
        name(self.0)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        parse(other).is_ok_and(|other| other == self.0)
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        PyString::new(py, name(self.0)).hash()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, (&'static str,)) {
        (slf.get_type(), (name(slf.get().0),))
    }
}

/// The hash for Python's dictionaries.
pub(crate) fn hash_of(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<DType>()?;
    for of in Type::ALL {
        let known = object(module.py(), of)?;
        module.add(if of == Type::Bool { "bool_" } else { name(of) }, known)?;
    }
    Ok(())
}
