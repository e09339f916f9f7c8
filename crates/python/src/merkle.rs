//! Merkle trees over the rows of arrays, and openings of them.

use std::str::FromStr;
use std::sync::Arc;

use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyList, PyTuple};
use rigel_array::{Array, Digest32, Hash, MerkleTree, Opening};

use crate::array::PyArray;
use crate::convert::{self, anything};
use crate::dtype::{self, DType};
use crate::error::raise;
use crate::work::{interruptible, is_on_cpu, quick, released, settle};

/// The number of elements above which a commitment on the CPU runs on another thread, so that Ctrl-C is heard.
const LONG: usize = 1 << 16;

/// Runs work that hashes an array.
pub(crate) fn hashed<T: Send + 'static>(
    py: Python<'_>,
    array: Array,
    work: impl FnOnce(&Array) -> rigel_array::Result<T> + Send + 'static,
) -> PyResult<T> {
    if is_on_cpu(&array) && array.len() > LONG {
        return interruptible(py, move || work(&array));
    }
    settle(py, &array.device())?;
    released(py, || work(&array))
}

/// A Merkle tree over the rows of an array of field elements: leaf i is the hash of all elements with first index i, in
/// row-major order. The number of rows must be a power of two.
///
/// The layout is that of Plonky3's `MerkleTreeMmcs` over one matrix, and digests have upstream's bytes. The hash is
/// `keccak` or `keccak256` (any field), `poseidon2` (babybear, koalabear, goldilocks and their extensions), or
/// `blake2s`, with the leaves and nodes of Stwo's trees (fields of 31 bits). The tree is computed on the array's device
/// and stays there, with a copy of the rows.
///
/// >>> import rigel
/// >>> matrix = rigel.field("koalabear").arange(32).reshape(8, 4)
/// >>> tree = rigel.merkle.MerkleTree(matrix, hash="poseidon2")
/// >>> row, path = tree.open(5)
/// >>> row, len(path)
/// (array([20, 21, 22, 23], dtype=koalabear), 3)
/// >>> rigel.merkle.verify(tree.root, 5, row, path, shape=(8, 4), dtype="koalabear", hash="poseidon2")
/// True
#[pyclass(frozen, module = "rigel.merkle", name = "MerkleTree")]
pub(crate) struct PyMerkleTree(Arc<MerkleTree>);

#[pymethods]
impl PyMerkleTree {
    #[new]
    #[pyo3(signature = (matrix, hash="keccak", cap_height=0))]
    fn new(py: Python<'_>, matrix: &Bound<'_, PyAny>, hash: &str, cap_height: u32) -> PyResult<Self> {
        let hash = Hash::from_str(hash).map_err(raise)?;
        let array = convert::array(matrix, &anything())?;
        hashed(py, array, move |array| MerkleTree::new(array, hash, cap_height)).map(|tree| Self(Arc::new(tree)))
    }

    /// The root, 32 bytes.
    #[getter]
    fn root<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let root = released(py, || self.0.root())?;
        Ok(PyBytes::new(py, &root))
    }

    /// The commitment: the `2**cap_height` digests of the layer `cap_height` below the root; by default only the root.
    #[getter]
    fn cap<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.0.cap().iter().map(|digest| PyBytes::new(py, digest)))
    }

    /// The number of rows.
    #[getter]
    fn height(&self) -> usize {
        self.0.height()
    }

    /// The shape of the array, whose first length is the number of rows.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.shape())
    }

    /// The type of the array.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<DType>> {
        dtype::object(py, self.0.dtype())
    }

    /// The name of the hash.
    #[getter]
    fn hash(&self) -> &'static str {
        self.0.hash().name()
    }

    /// The device that holds the tree.
    #[getter]
    fn device(&self) -> String {
        self.0.device().to_string()
    }

    /// The row at an index, on the CPU, and its path: the siblings from the leaf up to, but not including, the cap. For
    /// a sequence of indices, a list of such pairs, with one copy from the device for all rows and one for all paths.
    ///
    /// >>> import rigel
    /// >>> tree = rigel.merkle.MerkleTree(rigel.field("goldilocks").arange(4), cap_height=1)
    /// >>> [(row.item(), len(path)) for row, path in tree.open([3, 0])]
    /// [(3, 1), (0, 1)]
    fn open<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let opened = |indices: Vec<usize>| -> PyResult<Vec<Opened<'py>>> {
            let openings = released(py, || self.0.open(&indices))?;
            openings.into_iter().map(|opening| pair(py, opening)).collect()
        };
        let place = |index: isize| {
            let refused = || PyIndexError::new_err(format!("row {index} of a tree of {} rows", self.0.height()));
            usize::try_from(index).map_err(|_| refused())
        };
        if let Ok(one) = index.extract::<isize>() {
            let one = opened(vec![place(one)?])?.into_iter().next();
            return one.ok_or_else(|| PyIndexError::new_err("no row"))?.into_pyobject(py).map(Bound::into_any);
        }
        let Ok(several) = index.extract::<Vec<isize>>() else {
            let given = index.repr()?;
            return Err(PyTypeError::new_err(format!("open takes an index or a list of indices, not {given}")));
        };
        let several = several.into_iter().map(place).collect::<PyResult<Vec<_>>>()?;
        Ok(PyList::new(py, opened(several)?)?.into_any())
    }

    fn __len__(&self) -> usize {
        self.0.height()
    }

    fn __repr__(&self) -> String {
        format!("MerkleTree({} rows, hash={:?}, device={:?})", self.0.height(), self.hash(), self.device())
    }
}

/// A row and its path.
type Opened<'py> = (PyArray, Bound<'py, PyList>);

fn pair(py: Python<'_>, opening: Opening) -> PyResult<Opened<'_>> {
    let path = PyList::new(py, opening.path.iter().map(|digest| PyBytes::new(py, digest)))?;
    Ok((opening.row.into(), path))
}

/// Digests: a sequence of them, or one.
fn digests(what: &str, given: &Bound<'_, PyAny>) -> PyResult<Vec<Digest32>> {
    if given.is_instance_of::<PyBytes>() {
        return Ok(vec![digest(what, given)?]);
    }
    given.try_iter()?.map(|entry| digest(what, &entry?)).collect()
}

fn digest(what: &str, given: &Bound<'_, PyAny>) -> PyResult<Digest32> {
    let Ok(bytes) = given.cast::<PyBytes>() else {
        return Err(PyTypeError::new_err(format!("{what}: a digest is 32 bytes, not {}", given.repr()?)));
    };
    let bytes = bytes.as_bytes();
    bytes
        .try_into()
        .map_err(|_| PyValueError::new_err(format!("{what}: a digest of {} bytes; there must be 32", bytes.len())))
}

/// Whether a row and its path belong to the tree with this root, or cap. `rigel.merkle.verify` documents it.
#[pyfunction]
fn _merkle_verify(
    root: &Bound<'_, PyAny>,
    index: &Bound<'_, PyAny>,
    row: &Bound<'_, PyArray>,
    path: &Bound<'_, PyAny>,
    shape: Vec<usize>,
    dtype: &Bound<'_, PyAny>,
    hash: &str,
) -> PyResult<bool> {
    let (hash, dtype) = (Hash::from_str(hash).map_err(raise)?, dtype::parse(dtype)?);
    let (cap, path) = (digests("root", root)?, digests("path", path)?);
    if !index.is_instance_of::<PyInt>() {
        return Err(PyTypeError::new_err(format!("an index is an integer, not {}", index.repr()?)));
    }
    // A number that is no index belongs to no row.
    let index = index.extract::<usize>().unwrap_or(usize::MAX);
    let row = row.get().array.clone();
    settle(root.py(), &row.device())?;
    quick(|| hash.verify(&cap, dtype, &shape, &Opening { index, row, path }))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyMerkleTree>()?;
    module.add_function(wrap_pyfunction!(_merkle_verify, module)?)
}
