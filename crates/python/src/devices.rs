//! Available devices, their memory, and diagnostics.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rigel_array::Device;
use rigel_gpu::{Cache, Properties, Selector, Selectors, cublas_status, cuda_status, host_compiler};

use crate::arguments::device as parse_device;
use crate::error::raise_gpu;
use crate::work::{guard, interruptible, released};

/// A device that arrays can be on.
#[pyclass(frozen, get_all, module = "rigel", name = "DeviceInfo")]
pub(crate) struct DeviceInfo {
    /// The device's name, for `device=`: `cpu`, `cuda:0`, `emulated:0`.
    name: String,
    /// `cpu`, `cuda` or `emulated`.
    kind: String,
    /// The vendor's name.
    title: String,
    /// The size of its memory in bytes.
    memory: usize,
    /// The compute capability of a CUDA device.
    capability: Option<(u32, u32)>,
}

impl From<&Properties> for DeviceInfo {
    fn from(properties: &Properties) -> Self {
        Self {
            name: format!("{}:{}", properties.kind, properties.ordinal),
            kind: properties.kind.to_string(),
            title: properties.name.clone(),
            memory: properties.memory_bytes,
            capability: (properties.capability.0 > 0).then_some(properties.capability),
        }
    }
}

#[pymethods]
impl DeviceInfo {
    fn __repr__(&self) -> String {
        let capability = self.capability.map_or("None".to_owned(), |capability| format!("{capability:?}"));
        format!(
            "DeviceInfo(name={:?}, kind={:?}, title={:?}, memory={}, capability={capability})",
            self.name, self.kind, self.title, self.memory
        )
    }
}

/// The size of the host's memory in bytes.
fn host_memory() -> usize {
    // SAFETY: both calls only read system information.
    let (pages, page) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    usize::try_from(pages).unwrap_or(0) * usize::try_from(page).unwrap_or(0)
}

/// The devices that arrays can be on: the CPU, the GPUs, and the emulated device that runs the same kernels for tests.
///
/// >>> import rigel
/// >>> [device.name for device in rigel.devices()][0]
/// 'cpu'
#[pyfunction]
fn devices(py: Python<'_>) -> PyResult<Vec<DeviceInfo>> {
    released(py, || {
        let cpu = DeviceInfo {
            name: "cpu".into(),
            kind: "cpu".into(),
            title: format!("{} threads", std::thread::available_parallelism().map_or(1, usize::from)),
            memory: host_memory(),
            capability: None,
        };
        let mut all = vec![cpu];
        all.extend(rigel_gpu::Device::list().iter().map(DeviceInfo::from));
        if host_compiler().is_ok() {
            let emulated = rigel_gpu::Device::open(Selector::Emulated(0))?;
            all.push(emulated.properties().into());
        }
        Ok(all)
    })
}

fn gpu(given: Option<&Bound<'_, PyAny>>, what: &str) -> PyResult<rigel_gpu::Device> {
    match parse_device(given)? {
        Device::Gpu(device) => Ok(device),
        Device::Cpu => {
            Err(PyValueError::new_err(format!("{what} refers to a GPU's memory pool; the CPU has none")))
        }
    }
}

/// The memory of a device, in bytes: `free` and `total` of the device, `in_use` by live arrays, its `peak`, the
/// bytes `held` by the pool, and the `limit`.
///
/// >>> import rigel
/// >>> try:
/// ...     rigel.memory("cpu")
/// ... except ValueError as error:
/// ...     print(error)
/// memory refers to a GPU's memory pool; the CPU has none
#[pyfunction]
#[pyo3(signature = (device))]
fn memory<'py>(py: Python<'py>, device: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let device = gpu(Some(device), "memory")?;
    let (info, stats) = released(py, || Ok((device.memory()?, device.memory_stats())))?;
    let entries = PyDict::new(py);
    entries.set_item("free", info.free)?;
    entries.set_item("total", info.total)?;
    entries.set_item("in_use", stats.in_use)?;
    entries.set_item("peak", stats.peak)?;
    entries.set_item("held", stats.held)?;
    entries.set_item("hits", stats.hits)?;
    entries.set_item("misses", stats.misses)?;
    entries.set_item("driver_calls", stats.driver_calls)?;
    entries.set_item("limit", device.memory_limit())?;
    Ok(entries)
}

/// Limits the bytes that arrays may take on a device; `None` removes the limit.
#[pyfunction]
#[pyo3(signature = (bytes, device))]
fn set_memory_limit(bytes: Option<usize>, device: &Bound<'_, PyAny>) -> PyResult<()> {
    let device = gpu(Some(device), "a memory limit")?;
    guard(|| {
        device.set_memory_limit(bytes);
        Ok(())
    })
}

/// Waits for all work enqueued on a device, and raises its errors.
///
/// >>> import rigel
/// >>> rigel.synchronize("cpu")
#[pyfunction]
#[pyo3(signature = (device=None))]
fn synchronize(py: Python<'_>, device: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let device = parse_device(device)?;
    match device {
        Device::Cpu => Ok(()),
        device => interruptible(py, move || device.synchronize()),
    }
}

/// The report of `rigel.doctor`: for each entry its name, whether it was found, and details, or the reason and
/// advice.
#[pyfunction]
fn _doctor<'py>(py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
    let (cuda, cublas, compiler) = released(py, || Ok((cuda_status(), cublas_status(), host_compiler())))?;
    let report = PyDict::new(py);
    report.set_item("version", env!("CARGO_PKG_VERSION"))?;
    let finding = |result: rigel_gpu::Result<String>| -> PyResult<Bound<'py, PyDict>> {
        let entry = PyDict::new(py);
        entry.set_item("ok", result.is_ok())?;
        entry.set_item("detail", result.unwrap_or_else(|error| error.to_string()))?;
        Ok(entry)
    };
    let shown = |path: rigel_gpu::Result<std::path::PathBuf>| path.map(|path| path.display().to_string());
    report.set_item("driver", finding(shown(cuda.driver))?)?;
    report.set_item("cuda", finding(cuda.version)?)?;
    report.set_item("devices", finding(cuda.devices.map(|count| count.to_string()))?)?;
    report.set_item("nvrtc", finding(shown(cuda.nvrtc))?)?;
    report.set_item("nvrtc_version", finding(cuda.nvrtc_version)?)?;
    let cublas = cublas.map(|found| format!("{} ({})", found.version, found.path.display()));
    report.set_item("cublas", finding(cublas)?)?;
    report.set_item("host_compiler", finding(compiler)?)?;
    let cache = Cache::new(Cache::default_folder());
    let (modules, bytes) = cache.size();
    let entry = PyDict::new(py);
    entry.set_item("folder", cache.folder().map(|folder| folder.display().to_string()))?;
    entry.set_item("modules", modules)?;
    entry.set_item("bytes", bytes)?;
    report.set_item("cache", entry)?;
    Ok(report)
}

/// A device for provers, `None` for the CPU: `auto` is the first GPU, or the CPU with the reason if there is none.
pub(crate) fn for_proofs(name: &str) -> PyResult<(Option<rigel_gpu::Device>, Option<String>)> {
    if name == "cpu" {
        return Ok((None, None));
    }
    match Device::open(name) {
        Ok(Device::Gpu(device)) => Ok((Some(device), None)),
        Ok(Device::Cpu) => Ok((None, None)),
        Err(rigel_array::Error::Gpu(error @ rigel_gpu::Error::Unavailable { .. })) if name == "auto" => {
            Ok((None, Some(error.to_string())))
        }
        Err(rigel_array::Error::Gpu(error)) => Err(raise_gpu(error)),
        Err(error) => Err(crate::error::raise(error)),
    }
}

/// Devices for provers: several from a list with commas or from `all`, else as [`for_proofs`].
pub(crate) fn several_for_proofs(names: &str) -> PyResult<(Vec<rigel_gpu::Device>, Option<String>)> {
    if names.contains(',') || names == "all" {
        let selectors: Selectors = names.parse().map_err(raise_gpu)?;
        return Ok((selectors.open().map_err(raise_gpu)?, None));
    }
    let (device, no_device) = for_proofs(names)?;
    Ok((device.into_iter().collect(), no_device))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<DeviceInfo>()?;
    module.add_function(wrap_pyfunction!(devices, module)?)?;
    module.add_function(wrap_pyfunction!(memory, module)?)?;
    module.add_function(wrap_pyfunction!(set_memory_limit, module)?)?;
    module.add_function(wrap_pyfunction!(synchronize, module)?)?;
    module.add_function(wrap_pyfunction!(_doctor, module)?)
}
