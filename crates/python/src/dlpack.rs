//! Zero-copy exchange with other libraries by DLPack: versioned and unversioned capsules, on the CPU and on CUDA.
//!
//! The structs are those of DLPack 1.0 (`dlpack.h`).

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use rigel_array::{Array, Device, NumberKind, Type, name};
use rigel_gpu::DeviceKind;

use crate::array::{PyArray, take_back};
use crate::cuda_interface::LEGACY_STREAM;
use crate::error::{raise_gpu, refused};
use crate::work::{quick, released, settle};

const CPU: i32 = 1;
const CUDA: i32 = 2;
const READ_ONLY: u64 = 1;
const COPIED: u64 = 2;

const NAME: &CStr = c"dltensor";
const USED: &CStr = c"used_dltensor";
const VERSIONED_NAME: &CStr = c"dltensor_versioned";
const VERSIONED_USED: &CStr = c"used_dltensor_versioned";

#[repr(C)]
#[derive(Clone, Copy)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: [i32; 2],
    axes: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct Versioned {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: Tensor,
}

fn code(of: Type) -> Option<DataType> {
    let code = match of.kind() {
        NumberKind::Integer => u8::from(of.is_unsigned()),
        NumberKind::Float => 2,
        NumberKind::Complex => 5,
        NumberKind::Bool => 6,
        NumberKind::Field => return None,
    };
    Some(DataType { code, bits: 8 * of.bytes() as u8, lanes: 1 })
}

fn type_of(wanted: DataType) -> Option<Type> {
    let same = |a: DataType| (a.code, a.bits, a.lanes) == (wanted.code, wanted.bits, wanted.lanes);
    Type::ALL.into_iter().find(|&of| code(of).is_some_and(same))
}

// --- import -----------------------------------------------------------------------------------------------

/// An imported tensor. Its deleter runs when this is dropped.
enum Theirs {
    Plain(NonNull<Managed>),
    Versioned(NonNull<Versioned>),
}

// SAFETY: DLPack's deleters may run on any thread, and the pointer is not used otherwise.
unsafe impl Send for Theirs {}
// SAFETY: as above.
unsafe impl Sync for Theirs {}

impl Drop for Theirs {
    fn drop(&mut self) {
        // SAFETY: the tensor was taken from a capsule that was then marked as used, so it is deleted here, once.
        unsafe {
            match self {
                Self::Plain(managed) => {
                    if let Some(deleter) = managed.as_ref().deleter {
                        deleter(managed.as_ptr());
                    }
                }
                Self::Versioned(managed) => {
                    if let Some(deleter) = managed.as_ref().deleter {
                        deleter(managed.as_ptr());
                    }
                }
            }
        }
    }
}

/// An array over the memory of an object with `__dlpack__`.
pub(crate) fn adopt(given: &Bound<'_, PyAny>) -> PyResult<Array> {
    let py = given.py();
    let (kind, ordinal): (i32, i32) = given.call_method0(intern!(py, "__dlpack_device__"))?.extract()?;
    let device = match kind {
        CPU => Device::Cpu,
        CUDA => released(py, || Device::open(&format!("cuda:{ordinal}")))?,
        _ => {
            return Err(refused(
                given,
                &format!("it is on a device of DLPack type {kind}, which is neither CPU nor CUDA"),
            ));
        }
    };
    let options = PyDict::new(py);
    if let Device::Gpu(device) = &device {
        // The producer makes this stream wait for its stream, and the compute stream waits for this one below.
        let stream = device.interop_lane().map_err(raise_gpu)?.raw_handle();
        options.set_item(intern!(py, "stream"), stream)?;
    }
    let plain_options = options.copy()?;
    options.set_item(intern!(py, "max_version"), (1, 0))?;
    let method = given.getattr(intern!(py, "__dlpack__"))?;
    let capsule = match method.call((), Some(&options)) {
        // Older producers do not know `max_version`.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => method.call((), Some(&plain_options))?,
        other => other?,
    };
    let capsule =
        capsule.cast_into::<PyCapsule>().map_err(|_| refused(given, "its __dlpack__ returns no capsule"))?;
    // SAFETY: the capsule is alive.
    let theirs = unsafe { take(&capsule)? };
    let (tensor, read_only) = match &theirs {
        // SAFETY: alive until `theirs` is dropped.
        Theirs::Plain(managed) => (unsafe { &managed.as_ref().tensor }, false),
        Theirs::Versioned(managed) => {
            // SAFETY: as above.
            let managed = unsafe { managed.as_ref() };
            if managed.version[0] > 1 {
                return Err(refused(given, &format!("its DLPack version {} is unknown", managed.version[0])));
            }
            (&managed.tensor, managed.flags & READ_ONLY != 0)
        }
    };
    let DataType { code, bits, lanes } = tensor.dtype;
    let Some(of) = type_of(tensor.dtype) else {
        return Err(refused(
            given,
            &format!(
                "DLPack type {code} with {bits} bits and {lanes} lanes has no counterpart; convert the array first"
            ),
        ));
    };
    // SAFETY: DLPack guarantees `axes` lengths, and as many strides if there are any.
    let (shape, strides) = unsafe { layout(tensor) };
    if shape.contains(&0) {
        return released(py, || Array::zeros(&shape, of, &device));
    }
    let first = tensor.data as usize + tensor.byte_offset as usize;
    let item = of.bytes();
    if !first.is_multiple_of(item.min(8)) {
        return Err(refused(given, "its elements are not aligned to their size; copy it first"));
    }
    let (mut below, mut above) = (0isize, 0isize);
    for (&length, &stride) in shape.iter().zip(&strides) {
        let span = (length as isize - 1) * stride;
        if span < 0 { below -= span } else { above += span }
    }
    let (start, bytes) = (first - below as usize * item, ((below + above) as usize + 1) * item);
    let array = quick(|| match &device {
        Device::Cpu => {
            let Some(at) = NonNull::new(start as *mut u8) else {
                return Err(rigel_array::Error::Shape("the DLPack tensor has no address".into()));
            };
            // SAFETY: DLPack guarantees memory for every index of the shape until the deleter runs.
            unsafe { Array::from_host_memory(at, bytes, &shape, &strides, below as usize, of, Box::new(theirs)) }
        }
        Device::Gpu(device) => {
            device.compute()?.wait_for(&device.interop_lane()?)?;
            // SAFETY: as above; the compute stream waits for a stream that the producer made wait for its own.
            let buffer = unsafe { device.adopt(start as u64, bytes, Box::new(theirs))? };
            Array::from_buffer(buffer, &shape, &strides, below as usize, of)
        }
    })?;
    if read_only { released(py, || array.copy()) } else { Ok(array) }
}

/// Takes the tensor out of a capsule and marks the capsule as used.
///
/// # Safety
/// The capsule must follow DLPack's rules.
unsafe fn take(capsule: &Bound<'_, PyCapsule>) -> PyResult<Theirs> {
    let at = capsule.as_ptr();
    // SAFETY: the capsule is alive, and the names are static.
    unsafe {
        if ffi::PyCapsule_IsValid(at, VERSIONED_NAME.as_ptr()) == 1 {
            let tensor = ffi::PyCapsule_GetPointer(at, VERSIONED_NAME.as_ptr());
            ffi::PyCapsule_SetName(at, VERSIONED_USED.as_ptr());
            if let Some(tensor) = NonNull::new(tensor.cast()) {
                return Ok(Theirs::Versioned(tensor));
            }
        } else if ffi::PyCapsule_IsValid(at, NAME.as_ptr()) == 1 {
            let tensor = ffi::PyCapsule_GetPointer(at, NAME.as_ptr());
            ffi::PyCapsule_SetName(at, USED.as_ptr());
            if let Some(tensor) = NonNull::new(tensor.cast()) {
                return Ok(Theirs::Plain(tensor));
            }
        }
    }
    Err(PyValueError::new_err("the capsule holds no DLPack tensor, or was used before"))
}

/// # Safety
/// The tensor must follow DLPack's rules.
unsafe fn layout(tensor: &Tensor) -> (Vec<usize>, Vec<isize>) {
    let axes = tensor.axes.max(0) as usize;
    if axes == 0 {
        return (Vec::new(), Vec::new());
    }
    // SAFETY: as many lengths as axes.
    let shape: Vec<usize> =
        unsafe { std::slice::from_raw_parts(tensor.shape, axes) }.iter().map(|&length| length as usize).collect();
    let mut strides = vec![0isize; axes];
    if tensor.strides.is_null() {
        let mut stride = 1;
        for (to, &length) in strides.iter_mut().zip(&shape).rev() {
            *to = stride;
            stride *= length.max(1) as isize;
        }
    } else {
        // SAFETY: as many strides as axes.
        let given = unsafe { std::slice::from_raw_parts(tensor.strides, axes) };
        strides.iter_mut().zip(given).for_each(|(to, &stride)| *to = stride as isize);
    }
    (shape, strides)
}

// --- export -----------------------------------------------------------------------------------------------

/// The data of an exported tensor, alive until its deleter runs.
struct Ours {
    array: Array,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

impl Drop for Ours {
    fn drop(&mut self) {
        // Work of the consumer may still read. Its stream need not exist any more.
        take_back(&self.array);
    }
}

unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: made by `Box::into_raw` in `__dlpack__`, deleted once.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Ours>()));
    }
}

unsafe extern "C" fn delete_versioned(managed: *mut Versioned) {
    // SAFETY: as in `delete`.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Ours>()));
    }
}

/// A capsule that is dropped unused still owns its tensor.
unsafe extern "C" fn unused(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with our capsule, whose name determines its content.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) == 1 {
            delete(ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast());
        } else if ffi::PyCapsule_IsValid(capsule, VERSIONED_NAME.as_ptr()) == 1 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED_NAME.as_ptr()).cast());
        }
    }
}

/// The DLPack device of an array.
fn place(array: &Array) -> PyResult<(i32, i32)> {
    match array.device() {
        Device::Cpu => Ok((CPU, 0)),
        // Other libraries do not share the context of a device that is opened once more (`cuda:0#1`).
        Device::Gpu(device) if device.kind() == DeviceKind::Cuda && device.properties().context == 0 => {
            Ok((CUDA, device.properties().ordinal as i32))
        }
        other => Err(PyBufferError::new_err(format!(
            "the array is on {other}, which other libraries can't access; copy it with .cpu()"
        ))),
    }
}

#[pymethods]
impl PyArray {
    /// The DLPack type and number of the device.
    fn __dlpack_device__(&self) -> PyResult<(i32, i32)> {
        place(&self.array)
    }

    /// The memory as a DLPack capsule, for `torch.from_dlpack`, `cupy.from_dlpack`, `numpy.from_dlpack`.
    ///
    /// `stream` is the consumer's stream. It waits for the work enqueued on this array's device so far. The memory
    /// is reused only after all work that was given to the device before the consumer released the tensor.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let mut array = self.array.clone();
        let Some(dtype) = code(array.dtype()) else {
            return Err(PyTypeError::new_err(format!(
                "elements of {} are not stored as plain integers; convert them with astype",
                name(array.dtype())
            )));
        };
        let mut flags = if array.is_writable() { 0 } else { READ_ONLY };
        let here = place(&array);
        match dl_device {
            Some((CPU, 0)) if !array.device().is_cpu() => {
                if copy == Some(false) {
                    return Err(PyBufferError::new_err("the CPU can't access device memory without a copy"));
                }
                settle(py, &array.device())?;
                array = released(py, || array.to(&Device::Cpu))?;
                flags |= COPIED;
            }
            Some(wanted) if wanted != here? => {
                return Err(PyBufferError::new_err(format!(
                    "a tensor on {} can't be exported to DLPack device {wanted:?}",
                    array.device()
                )));
            }
            _ => {}
        }
        if copy == Some(true) && flags & COPIED == 0 {
            array = released(py, || array.copy())?;
            flags |= COPIED;
        }
        let device = place(&array)?;
        let consumer = match (device.0, stream) {
            (CPU, None | Some(-1)) | (CUDA, Some(-1)) => None,
            (CPU, Some(_)) => return Err(PyValueError::new_err("an array on the CPU has no stream")),
            (_, None) => Some(LEGACY_STREAM),
            (_, Some(0)) => {
                return Err(PyValueError::new_err("stream 0 is ambiguous; write 1 or 2 for the default streams"));
            }
            (_, Some(handle)) => Some(
                u64::try_from(handle)
                    .map_err(|_| PyValueError::new_err(format!("{handle} is not a stream handle")))?,
            ),
        };
        if let Device::Gpu(gpu) = array.device() {
            quick(|| {
                array.order_uses()?;
                if let Some(handle) = consumer {
                    // SAFETY: the caller passes a live stream of the device, as DLPack requires.
                    unsafe { gpu.compute()?.release_to(handle)? };
                }
                Ok(())
            })?;
        }
        let shape = array.shape().iter().map(|&length| length as i64).collect();
        let strides = array.strides().iter().map(|&stride| stride as i64).collect();
        let mut ours = Box::new(Ours { array, shape, strides });
        let tensor = Tensor {
            data: ours.array.address() as *mut c_void,
            device: [device.0, device.1],
            axes: ours.shape.len() as i32,
            dtype,
            shape: ours.shape.as_mut_ptr(),
            strides: ours.strides.as_mut_ptr(),
            byte_offset: 0,
        };
        let context = Box::into_raw(ours).cast();
        let (pointer, name) = if max_version.is_some_and(|(major, _)| major >= 1) {
            let deleter = Some(delete_versioned as unsafe extern "C" fn(*mut Versioned));
            let managed = Versioned { version: [1, 0], context, deleter, flags, tensor };
            (NonNull::from(Box::leak(Box::new(managed))).cast(), VERSIONED_NAME)
        } else {
            let deleter = Some(delete as unsafe extern "C" fn(*mut Managed));
            (NonNull::from(Box::leak(Box::new(Managed { tensor, context, deleter }))).cast(), NAME)
        };
        // SAFETY: the pointer has the type that the name says, and `unused` frees it unless a consumer took it.
        unsafe { PyCapsule::new_with_pointer_and_destructor(py, pointer, name, Some(unused)) }
    }
}

/// An array over the memory of another library's tensor.
///
/// >>> import rigel, numpy
/// >>> rigel.from_dlpack(numpy.arange(3))
/// array([0, 1, 2])
#[pyfunction]
pub(crate) fn from_dlpack(x: &Bound<'_, PyAny>) -> PyResult<PyArray> {
    adopt(x).map(PyArray::from)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(from_dlpack, module)?)
}
