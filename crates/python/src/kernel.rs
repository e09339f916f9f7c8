//! The class `rigel.Kernel`: user kernels in CUDA C++, on arrays.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rigel_array::{Argument, Array, Grid, Kernel, Scalar};

use crate::arguments::{device as parse_device, integers};
use crate::array::PyArray;
use crate::scalar::scalar;
use crate::work::{is_on_cpu, released};

/// A kernel from CUDA C++ text, compiled for a device when it is first launched there. It is called like CuPy's
/// `RawKernel`: `kernel(grid, block, args)`.
///
/// Arguments are arrays (their elements must lie side by side; the kernel gets the address of the first), integers
/// and floats (as wide as the kernel's parameter, and as the bits of their kind: write 2.0 for a float parameter),
/// and NumPy's numbers (just their width). For arrays on the CPU, `on_cpu(grid, block, args)` is called instead.
/// Where arrays overlap in memory, the kernel may change only the last of them.
///
/// The text is trusted: it runs as native code, on the emulated device as code of this very process. A kernel that
/// accesses memory beyond the arrays it is given can do whatever native code can, so never build one from text you
/// have not read.
///
/// The text may include Rigel's headers for fields, such as `field/koala_bear.cuh`.
///
/// >>> import rigel
/// >>> def on_cpu(grid, block, args):
/// ...     x, by, n = args
/// ...     x *= by
/// >>> scale = rigel.Kernel('''
/// ... extern "C" __global__ void scale(double *x, double by, unsigned n) {
/// ...     unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
/// ...     if (i < n) x[i] *= by;
/// ... }''', "scale", on_cpu=on_cpu)
/// >>> x = rigel.ones(3)
/// >>> scale(1, 256, (x, 2.5, 3))
/// >>> x
/// array([2.5, 2.5, 2.5])
#[pyclass(frozen, module = "rigel", name = "Kernel")]
pub(crate) struct PyKernel {
    kernel: Kernel,
    on_cpu: Option<Py<PyAny>>,
}

/// Numbers of blocks or threads along x, y and z.
fn three(given: &Bound<'_, PyAny>, what: &str) -> PyResult<[u32; 3]> {
    let numbers = integers(given)?;
    if numbers.is_empty() || numbers.len() > 3 {
        return Err(PyValueError::new_err(format!("{what} has 1 to 3 numbers, not {}", numbers.len())));
    }
    let mut all = [1; 3];
    for (to, &number) in all.iter_mut().zip(&numbers) {
        *to = u32::try_from(number).ok().filter(|&number| number > 0).ok_or_else(|| {
            PyValueError::new_err(format!("{what} consists of positive 32-bit integers; {number} is out of range"))
        })?;
    }
    Ok(all)
}

/// An argument that is not an array.
fn value(given: &Bound<'_, PyAny>, at: usize) -> PyResult<Argument<'static>> {
    Ok(match scalar(given, None)? {
        Some(Scalar::Bool(value)) => Argument::Int(value.into()),
        Some(Scalar::Int(value)) => Argument::Int(value),
        Some(Scalar::Float(value)) => Argument::Float(value),
        Some(Scalar::Complex(value)) => Argument::value(value),
        Some(Scalar::Element(of, words)) => Argument::Value(words[..of.bytes().div_ceil(8)].to_vec(), of.bytes()),
        None => {
            return Err(PyTypeError::new_err(format!(
                "argument {at} of a kernel must be a rigel array or a number, not {}; use rigel.asarray",
                given.get_type().name()?
            )));
        }
    })
}

#[pymethods]
impl PyKernel {
    #[new]
    #[pyo3(signature = (source, name, on_cpu=None))]
    fn new(source: &str, name: &str, on_cpu: Option<Bound<'_, PyAny>>) -> PyResult<Self> {
        // SAFETY: Python has no `unsafe`; the class's documentation says what whoever writes the text answers for.
        let kernel = unsafe { Kernel::new(source, name) };
        let on_cpu = on_cpu.filter(|work| !work.is_none());
        let Some(work) = on_cpu else { return Ok(Self { kernel, on_cpu: None }) };
        if !work.is_callable() {
            return Err(PyTypeError::new_err("on_cpu must be a function of grid, block and arguments"));
        }
        // The launch only checks its arguments; the Python function runs below.
        Ok(Self { kernel: kernel.on_cpu(|_, _| Ok(())), on_cpu: Some(work.unbind()) })
    }

    /// The kernel's name.
    #[getter]
    fn name(&self) -> &str {
        self.kernel.name()
    }

    /// Compiles it for a device now, to see compile errors before the first launch.
    #[pyo3(signature = (device=None))]
    fn compile(&self, py: Python<'_>, device: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let device = parse_device(device)?;
        released(py, || self.kernel.compile(&device))
    }

    /// Launches it on the device of its arrays, with `grid` blocks of `block` threads, each one to three numbers.
    #[pyo3(signature = (grid, block, args, *, shared_mem=0))]
    fn __call__(
        &self,
        py: Python<'_>,
        grid: &Bound<'_, PyAny>,
        block: &Bound<'_, PyAny>,
        args: &Bound<'_, PyAny>,
        shared_mem: u32,
    ) -> PyResult<()> {
        let shape = Grid { blocks: three(grid, "grid")?, threads: three(block, "block")?, shared: shared_mem };
        let given: Vec<Bound<'_, PyAny>> = args.try_iter()?.collect::<PyResult<_>>()?;
        let array_of =
            |given: &Bound<'_, PyAny>| given.cast::<PyArray>().ok().map(|array| array.get().array.clone());
        let arrays: Vec<Option<Array>> = given.iter().map(array_of).collect();
        let arguments = arrays
            .iter()
            .zip(&given)
            .enumerate()
            .map(|(at, (array, given))| match array {
                Some(array) => Ok(Argument::Array(array)),
                None => value(given, at),
            })
            .collect::<PyResult<Vec<_>>>()?;
        released(py, || self.kernel.launch(shape, &arguments))?;
        let on_cpu = arrays.iter().flatten().next().is_some_and(is_on_cpu);
        if let (true, Some(work)) = (on_cpu, &self.on_cpu) {
            let three = |numbers: [u32; 3]| PyTuple::new(py, numbers);
            work.call1(py, (three(shape.blocks)?, three(shape.threads)?, PyTuple::new(py, given)?))?;
        }
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("rigel.Kernel({:?})", self.kernel.name())
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyKernel>()
}
