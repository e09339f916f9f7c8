//! The methods of `rigel.Field`, and the operations on arrays of field elements.

use std::str::FromStr;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyInt, PyString, PyType};
use rigel_array::{Array, Hash, Type, name, type_named};
use rigel_kernels::field::{BabyBear, Field as PrimeField, Goldilocks, KoalaBear, Mersenne31};

use crate::arguments::{device as parse_device, shape as parse_shape};
use crate::array::PyArray;
use crate::convert::{self, Wish};
use crate::create::place_of;
use crate::dtype::{self, DType, Field};
use crate::error::raise;
use crate::work::{heavy, is_on_cpu, released, sized};

type Argument<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// One object for each field, indexed by type.
fn object(py: Python<'_>, of: Type) -> PyResult<Py<Field>> {
    static ALL: PyOnceLock<Vec<Py<Field>>> = PyOnceLock::new();
    let all = ALL.get_or_try_init(py, || {
        Type::ALL.into_iter().map(|of| Py::new(py, Field { of })).collect::<PyResult<Vec<_>>>()
    })?;
    Ok(all[of as usize].clone_ref(py))
}

/// The field with this name: `mersenne31`, `babybear`, `koalabear`, `goldilocks`, or one of the extensions `cm31`,
/// `qm31`, `babybear4`, `koalabear4`, `goldilocks2`, `goldilocks3`. It can also be given by its number of elements, as
/// in galois.
///
/// >>> import rigel
/// >>> rigel.field("koalabear4")
/// rigel.field('koalabear4')
/// >>> rigel.field("KoalaBear") is rigel.field("koala-bear")
/// True
#[pyfunction]
fn field(py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<Py<Field>> {
    if name.is_exact_instance_of::<PyInt>() {
        for of in Type::ALL.into_iter().filter(|of| of.is_field()) {
            let field = object(py, of)?;
            if field.get().order(py)?.eq(name)? {
                return Ok(field);
            }
        }
        return Err(unsupported(&format!("of {name} elements")));
    }
    let of = match name.cast::<PyString>() {
        Ok(text) => type_named(text.to_str()?).map_err(|_| unsupported(&name.to_string()))?,
        Err(_) => dtype::parse(name)?,
    };
    if of.is_field() { object(py, of) } else { Err(unsupported(rigel_array::name(of))) }
}

/// The error for a field that there is not, with those that there are.
fn unsupported(field: &str) -> PyErr {
    let all: Vec<String> = Type::ALL
        .into_iter()
        .filter(|of| of.is_field())
        .map(|of| match (of.degree(), of.modulus()) {
            (1, Some(order)) => format!("{} ({order} elements)", name(of)),
            _ => name(of).to_owned(),
        })
        .collect();
    PyValueError::new_err(format!("unsupported field {field}; supported: {}", all.join(", ")))
}

/// A constant of the prime field of a type.
fn of_prime(of: Type, number: impl Numbered) -> Option<u64> {
    match of.base() {
        Type::Mersenne31 => number.of::<Mersenne31>(),
        Type::BabyBear => number.of::<BabyBear>(),
        Type::KoalaBear => number.of::<KoalaBear>(),
        _ => number.of::<Goldilocks>(),
    }
}

/// A constant that each prime field has.
trait Numbered {
    fn of<F: PrimeField>(self) -> Option<u64>;
}

/// The generator of the multiplicative group.
struct Generator;

impl Numbered for Generator {
    fn of<F: PrimeField>(self) -> Option<u64> {
        Some(F::GENERATOR.to_u64())
    }
}

/// The root of unity of order `2^bits`, if there is one.
struct Root(u32);

impl Numbered for Root {
    fn of<F: PrimeField>(self) -> Option<u64> {
        (self.0 <= F::TWO_ADICITY).then(|| F::two_adic_generator(self.0).to_u64())
    }
}

impl Field {
    fn made(
        &self,
        shape: &Bound<'_, PyAny>,
        device: Argument<'_, '_>,
        make: fn(&[usize], Type, &rigel_array::Device) -> rigel_array::Result<Array>,
    ) -> PyResult<PyArray> {
        let (py, of) = (shape.py(), self.of);
        let (shape, device) = (parse_shape(shape)?, parse_device(device)?);
        sized(py, usize::MAX, device.is_cpu(), || make(&shape, of, &device)).map(PyArray::from)
    }
}

#[pymethods]
impl Field {
    /// An array of field elements from integers of any size and sign, reduced modulo p. Elements of an extension
    /// are lists of coefficients, lowest power first, or one more axis.
    ///
    /// >>> import rigel
    /// >>> rigel.field("babybear")([[1, -1], [2**100, 0]])
    /// array([[         1, 2013265920],
    ///        [1172168163,          0]], dtype=babybear)
    #[pyo3(signature = (values, device=None))]
    fn __call__(&self, values: &Bound<'_, PyAny>, device: Argument<'_, '_>) -> PyResult<PyArray> {
        let wish = Wish { dtype: Some(self.of), device: place_of(values, device)?, copy: true };
        convert::array(values, &wish).map(PyArray::from)
    }

    /// An array of zeros.
    #[pyo3(signature = (shape, device=None))]
    fn zeros(&self, shape: &Bound<'_, PyAny>, device: Argument<'_, '_>) -> PyResult<PyArray> {
        self.made(shape, device, Array::zeros)
    }

    /// An array of ones.
    #[pyo3(signature = (shape, device=None))]
    fn ones(&self, shape: &Bound<'_, PyAny>, device: Argument<'_, '_>) -> PyResult<PyArray> {
        self.made(shape, device, Array::ones)
    }

    /// An array of random elements that depend only on the seed and are the same on every device.
    /// They are not for secrets: see `rigel.random`.
    #[pyo3(signature = (shape, seed=None, device=None))]
    fn random(
        slf: &Bound<'_, Self>,
        shape: &Bound<'_, PyAny>,
        seed: Option<i128>,
        device: Argument<'_, '_>,
    ) -> PyResult<PyArray> {
        crate::create::random(shape, Some(slf.as_any()), seed, device)
    }

    /// The elements `start`, `start + step`, ... before `stop`, as integers modulo p.
    #[pyo3(signature = (start, stop=None, step=1, device=None))]
    fn arange(
        &self,
        py: Python<'_>,
        start: i64,
        stop: Option<i64>,
        step: i64,
        device: Argument<'_, '_>,
    ) -> PyResult<PyArray> {
        let (device, of) = (parse_device(device)?, self.of);
        let (start, stop) = stop.map_or((0, start), |stop| (start, stop));
        sized(py, usize::MAX, device.is_cpu(), || Array::arange(start, stop, step, &device)?.astype(of))
            .map(PyArray::from)
    }

    /// The identity matrix of `size` rows.
    ///
    /// >>> import rigel
    /// >>> rigel.field("koalabear").eye(2)
    /// array([[1, 0],
    ///        [0, 1]], dtype=koalabear)
    #[pyo3(signature = (size, device=None))]
    fn eye(&self, py: Python<'_>, size: usize, device: Argument<'_, '_>) -> PyResult<PyArray> {
        let (device, of) = (parse_device(device)?, self.of);
        sized(py, usize::MAX, device.is_cpu(), || Array::eye(size, of, &device)).map(PyArray::from)
    }

    /// galois' name of `zeros`.
    #[pyo3(name = "Zeros", signature = (shape, device=None))]
    fn galois_zeros(&self, shape: &Bound<'_, PyAny>, device: Argument<'_, '_>) -> PyResult<PyArray> {
        self.zeros(shape, device)
    }

    /// galois' name of `ones`.
    #[pyo3(name = "Ones", signature = (shape, device=None))]
    fn galois_ones(&self, shape: &Bound<'_, PyAny>, device: Argument<'_, '_>) -> PyResult<PyArray> {
        self.ones(shape, device)
    }

    /// galois' name of `eye`.
    #[pyo3(name = "Identity", signature = (size, device=None))]
    fn galois_identity(&self, py: Python<'_>, size: usize, device: Argument<'_, '_>) -> PyResult<PyArray> {
        self.eye(py, size, device)
    }

    /// galois' name of `arange`, with a stop.
    #[pyo3(name = "Range", signature = (start, stop, step=1, device=None))]
    fn galois_range(
        &self,
        py: Python<'_>,
        start: i64,
        stop: i64,
        step: i64,
        device: Argument<'_, '_>,
    ) -> PyResult<PyArray> {
        self.arange(py, start, Some(stop), step, device)
    }

    /// galois' name of `random`. A seed gives other elements than in galois. They are not for secrets.
    #[pyo3(name = "Random", signature = (shape, seed=None, device=None))]
    fn galois_random(
        slf: &Bound<'_, Self>,
        shape: &Bound<'_, PyAny>,
        seed: Option<i128>,
        device: Argument<'_, '_>,
    ) -> PyResult<PyArray> {
        Self::random(slf, shape, seed, device)
    }

    /// The field's name.
    #[getter]
    fn name(&self) -> &'static str {
        name(self.of)
    }

    /// The number of elements.
    #[getter]
    fn order<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.characteristic().into_pyobject(py)?.into_any().pow(self.of.degree(), py.None())
    }

    /// The prime p.
    #[getter]
    fn characteristic(&self) -> u64 {
        self.of.modulus().unwrap_or(0)
    }

    /// The field's properties as text, as in galois.
    #[getter]
    fn properties(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!(
            "Galois Field:\n  name: {}\n  characteristic: {}\n  degree: {}\n  order: {}\n  two-adicity: {}",
            self.name(),
            self.characteristic(),
            self.degree(),
            self.order(py)?,
            self.two_adicity()
        ))
    }

    /// The degree over the prime field: the number of coefficients of an element.
    #[getter]
    fn degree(&self) -> usize {
        self.of.degree()
    }

    /// The largest k for which the prime field has a root of unity of order 2^k.
    #[getter]
    fn two_adicity(&self) -> u32 {
        self.of.two_adicity()
    }

    /// The generator of the prime field's multiplicative group that Plonky3 uses.
    #[getter]
    fn generator(&self) -> Option<u64> {
        of_prime(self.of, Generator)
    }

    /// The element type of its arrays.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<DType>> {
        dtype::object(py, self.of)
    }

    /// The root of unity of order `n`, a power of two, that transforms of length `n` use.
    ///
    /// >>> import rigel
    /// >>> rigel.field("goldilocks").root_of_unity(4)
    /// 281474976710656
    fn root_of_unity(&self, n: u64) -> PyResult<u64> {
        let refused = || {
            PyValueError::new_err(format!(
                "{} has roots of unity of order 2^0 to 2^{}, but none of order {n}",
                name(self.of.base()),
                self.of.two_adicity()
            ))
        };
        if !n.is_power_of_two() {
            return Err(refused());
        }
        of_prime(self.of, Root(n.ilog2())).ok_or_else(refused)
    }

    fn __instancecheck__(&self, instance: &Bound<'_, PyAny>) -> bool {
        instance.cast::<PyArray>().is_ok_and(|array| array.get().array.dtype() == self.of)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().of == self.of)
    }

    fn __hash__(&self) -> u64 {
        dtype::hash_of(("rigel.Field", self.of))
    }

    fn __repr__(&self) -> String {
        format!("rigel.field('{}')", name(self.of))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (&'static str,))> {
        Ok((py.import("rigel._rigel")?.getattr("field")?, (name(self.of),)))
    }

    /// `Field[...]` in annotations.
    #[classmethod]
    fn __class_getitem__<'py>(cls: &Bound<'py, PyType>, _item: &Bound<'py, PyAny>) -> Bound<'py, PyType> {
        cls.clone()
    }
}

/// An estimate of the work of a transform.
fn transform_steps(array: &Array, blowup: f64) -> f64 {
    let length = array.shape().last().copied().unwrap_or(1) as f64 * blowup;
    array.len() as f64 * array.dtype().degree() as f64 * blowup * length.max(2.0).log2()
}

#[pymethods]
impl PyArray {
    /// `1 / x` for every field element, by batch inversion. Raises ZeroDivisionError if an element is zero.
    ///
    /// >>> import rigel
    /// >>> a = rigel.field("koalabear")([1, 2, 3])
    /// >>> a * a.inverse()
    /// array([1, 1, 1], dtype=koalabear)
    fn inverse(&self, py: Python<'_>) -> PyResult<Self> {
        let array = self.array.clone();
        let steps = 100.0 * array.len() as f64;
        heavy(py, steps, is_on_cpu(&array), move || array.inverse()).map(Self::from)
    }

    /// Evaluates the polynomials whose coefficients, lowest first, are an axis, by default the last, at
    /// `1, w, w^2, ...`, where w is `Field.root_of_unity(n)` for the length n of that axis.
    ///
    /// >>> import rigel
    /// >>> a = rigel.field("goldilocks")([1, 1, 0, 0])
    /// >>> bool((a.ntt().intt() == a).min()), a.ntt()[0].item()
    /// (True, 2)
    #[pyo3(signature = (axis=-1))]
    fn ntt(&self, py: Python<'_>, axis: isize) -> PyResult<Self> {
        self.transformed(py, axis, Array::ntt)
    }

    /// The inverse of `ntt`.
    #[pyo3(signature = (axis=-1))]
    fn intt(&self, py: Python<'_>, axis: isize) -> PyResult<Self> {
        self.transformed(py, axis, Array::intt)
    }

    /// The low-degree extension: takes the polynomials whose values at `1, w, ...` are the last axis, and
    /// evaluates them at `blowup` times as many points `shift v^i`. The default shift is the field's generator.
    ///
    /// >>> import rigel
    /// >>> a = rigel.field("goldilocks").arange(8)
    /// >>> code = a.lde(blowup=4, shift=1)
    /// >>> code.shape, bool((code[::4] == a).min())
    /// ((32,), True)
    #[pyo3(signature = (blowup=2, shift=None))]
    fn lde(&self, py: Python<'_>, blowup: u64, shift: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        if !blowup.is_power_of_two() {
            return Err(PyValueError::new_err(format!("the blowup {blowup} is not a power of two")));
        }
        let array = self.array.clone();
        let shift = match shift.filter(|shift| !shift.is_none()) {
            None => None,
            Some(shift) => {
                let modulus = array.dtype().modulus().unwrap_or(u64::MAX);
                let shift: u64 = shift.rem(modulus)?.extract()?;
                if shift == 0 {
                    return Err(PyValueError::new_err(
                        "a shift of 0 maps every point to 0; use a nonzero shift or none",
                    ));
                }
                Some(shift)
            }
        };
        let steps = transform_steps(&array, blowup as f64);
        heavy(py, steps, is_on_cpu(&array), move || array.lde(blowup.ilog2(), shift)).map(Self::from)
    }

    /// The root, 32 bytes, of the Merkle tree whose leaf i is the hash of row i. The hash is `keccak`, `keccak256`,
    /// `poseidon2` or `blake2s`. `rigel.merkle.MerkleTree` keeps the tree and opens rows.
    ///
    /// >>> import rigel
    /// >>> len(rigel.field("babybear").arange(8).reshape(4, 2).merkle_root())
    /// 32
    #[pyo3(signature = (hash="keccak"))]
    fn merkle_root<'py>(&self, py: Python<'py>, hash: &str) -> PyResult<Bound<'py, PyBytes>> {
        let hash = Hash::from_str(hash).map_err(raise)?;
        let root = crate::merkle::hashed(py, self.array.clone(), move |array| array.merkle_root(hash))?;
        Ok(PyBytes::new(py, &root))
    }

    /// Evaluates the polynomials whose coefficients are an axis, by default the last, at the points of
    /// `rigel.circle_points(n)` for the length n of that axis, in their order. For mersenne31, cm31 and qm31: Stwo's
    /// circle transform, in its basis: with j = j0 + 2 j1 + 4 j2 + ... in bits, coefficient j belongs to
    /// `y^j0 x^j1 p(x)^j2 p(p(x))^j3 ...`, where `p(x) = 2 x^2 - 1`.
    ///
    /// >>> import rigel
    /// >>> x, y = rigel.circle_points(4)
    /// >>> c = rigel.field("mersenne31")([1, 2, 3, 4])
    /// >>> bool((c.circle_ntt() == 1 + 2 * y + 3 * x + 4 * x * y).all())
    /// True
    #[pyo3(signature = (axis=-1))]
    fn circle_ntt(&self, py: Python<'_>, axis: isize) -> PyResult<Self> {
        self.transformed(py, axis, Array::circle_ntt)
    }

    /// The inverse of `circle_ntt`.
    #[pyo3(signature = (axis=-1))]
    fn circle_intt(&self, py: Python<'_>, axis: isize) -> PyResult<Self> {
        self.transformed(py, axis, Array::circle_intt)
    }

    /// The low-degree extension over the circle: takes the polynomials whose values at `rigel.circle_points(n)` are the
    /// last axis, and evaluates them at the points of the domain `blowup` times as large.
    ///
    /// >>> import rigel
    /// >>> c = rigel.field("mersenne31")([1, 2, 0, 0])
    /// >>> longer = c.circle_ntt().circle_lde(blowup=2)
    /// >>> longer.circle_intt()
    /// array([1, 2, 0, 0, 0, 0, 0, 0], dtype=mersenne31)
    #[pyo3(signature = (blowup=2))]
    fn circle_lde(&self, py: Python<'_>, blowup: u64) -> PyResult<Self> {
        if !blowup.is_power_of_two() {
            return Err(PyValueError::new_err(format!("the blowup {blowup} is not a power of two")));
        }
        let array = self.array.clone();
        let steps = transform_steps(&array, blowup as f64);
        heavy(py, steps, is_on_cpu(&array), move || array.circle_lde(blowup.ilog2())).map(Self::from)
    }

    /// The coefficients of field elements as a new last axis, over the same memory.
    ///
    /// >>> import rigel
    /// >>> rigel.field("koalabear4")([[1, 2, 3, 4]]).coefficients()
    /// array([[1, 2, 3, 4]], dtype=koalabear)
    fn coefficients(&self) -> PyResult<Self> {
        crate::work::quick(|| self.array.coefficients()).map(Self::from)
    }

    /// The field of the elements; `None` for other types.
    #[getter]
    fn field(&self, py: Python<'_>) -> PyResult<Option<Py<Field>>> {
        let of = self.array.dtype();
        if of.is_field() { object(py, of).map(Some) } else { Ok(None) }
    }
}

impl PyArray {
    /// A transform of an axis.
    fn transformed(
        &self,
        py: Python<'_>,
        axis: isize,
        transform: fn(&Array) -> rigel_array::Result<Array>,
    ) -> PyResult<Self> {
        let array = if self.array.axes() == 0 {
            self.array.clone()
        } else {
            crate::work::quick(|| self.array.swap_axes(axis, -1))?
        };
        let steps = transform_steps(&array, 1.0);
        heavy(py, steps, is_on_cpu(&array), move || transform(&array)?.swap_axes(axis, -1)).map(Self::from)
    }
}

/// The points of the circle domain of n points, a power of two from 2, over mersenne31: x and y coordinates, of shape
/// `(2, n)`. It is the domain of Stwo's canonic coset, in bit-reversed order.
///
/// >>> import rigel
/// >>> x, y = rigel.circle_points(8)
/// >>> bool((x * x + y * y == 1).all())
/// True
#[pyfunction]
#[pyo3(signature = (n, device=None))]
fn circle_points(py: Python<'_>, n: usize, device: Argument<'_, '_>) -> PyResult<PyArray> {
    let device = parse_device(device)?;
    released(py, || Array::circle_points(n, &device)).map(PyArray::from)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Field>()?;
    module.add_function(wrap_pyfunction!(circle_points, module)?)?;
    module.add_function(wrap_pyfunction!(field, module)?)
}
