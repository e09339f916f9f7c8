//! NumPy's arrays and ours over the same memory, by `__array_interface__`. NumPy itself is not needed.

use std::ptr::NonNull;

use pyo3::exceptions::{PyAttributeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rigel_array::{Array, Device, NumberKind, Type, name};

use crate::array::PyArray;
use crate::elements::canonical;
use crate::error::{raise, refused};
use crate::work::{is_on_cpu, on, released, settle};

/// An array over an object's memory, or over a copy of it.
pub(crate) struct Found {
    pub(crate) array: Array,
    /// Whether the memory is a copy.
    pub(crate) copied: bool,
}

/// A description of memory from NumPy's or CUDA's array interface.
pub(crate) struct Description {
    pub(crate) typestr: String,
    pub(crate) shape: Vec<usize>,
    /// The strides in bytes; `None` for contiguous memory.
    pub(crate) strides: Option<Vec<isize>>,
    pub(crate) address: usize,
    pub(crate) read_only: bool,
}

impl Description {
    pub(crate) fn of(given: &Bound<'_, PyAny>, interface: &Bound<'_, PyAny>) -> PyResult<Self> {
        let entry = |name: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
            let found = interface.cast::<PyDict>()?.get_item(name)?;
            Ok(found.filter(|found| !found.is_none()))
        };
        let needed =
            |name: &str| entry(name)?.ok_or_else(|| refused(given, &format!("its interface has no {name}")));
        if entry("mask")?.is_some() {
            return Err(refused(given, "masks are not supported"));
        }
        let Some(data) = entry("data")? else { return Err(refused(given, "its interface has no address")) };
        let (address, read_only): (usize, bool) = data
            .extract()
            .map_err(|_| refused(given, "its interface gives memory as a buffer, not by its address"))?;
        Ok(Self {
            typestr: needed("typestr")?.extract()?,
            shape: needed("shape")?.extract()?,
            strides: entry("strides")?.map(|strides| strides.extract()).transpose()?,
            address,
            read_only,
        })
    }

    /// The element type, if it is supported and in native byte order.
    pub(crate) fn dtype(&self) -> Option<Type> {
        let native = self.typestr.strip_prefix(['<', '|', '=']).unwrap_or("");
        Type::ALL.into_iter().find(|&of| letters(of).is_some_and(|known| known == native))
    }

    /// Strides in bytes.
    pub(crate) fn byte_strides(&self, item: usize) -> Vec<isize> {
        self.strides.clone().unwrap_or_else(|| {
            let mut stride = item as isize;
            let mut strides = vec![0; self.shape.len()];
            for (to, &length) in strides.iter_mut().zip(&self.shape).rev() {
                *to = stride;
                stride *= length.max(1) as isize;
            }
            strides
        })
    }

    /// The distance in bytes from the lowest element to the first, and from the lowest to the end of the highest.
    pub(crate) fn reach(&self, item: usize) -> (usize, usize) {
        let (mut below, mut above) = (0isize, 0isize);
        for (&length, &stride) in self.shape.iter().zip(&self.byte_strides(item)) {
            let span = (length as isize - 1) * stride;
            if span < 0 { below -= span } else { above += span }
        }
        (below as usize, (below + above) as usize + item)
    }
}

/// NumPy's type code; `None` for fields.
pub(crate) fn letters(of: Type) -> Option<&'static str> {
    Some(match of {
        Type::Bool => "b1",
        Type::I8 => "i1",
        Type::I16 => "i2",
        Type::I32 => "i4",
        Type::I64 => "i8",
        Type::U8 => "u1",
        Type::U16 => "u2",
        Type::U32 => "u4",
        Type::U64 => "u8",
        Type::F16 => "f2",
        Type::F32 => "f4",
        Type::F64 => "f8",
        Type::C64 => "c8",
        Type::C128 => "c16",
        _ => return None,
    })
}

/// NumPy's type string for an element type.
pub(crate) fn typestr(of: Type) -> Option<String> {
    letters(of).map(|letters| format!("{}{letters}", if of.bytes() == 1 { '|' } else { '<' }))
}

/// The name of a type whose elements are stored in the other byte order.
fn swapped(typestr: &str) -> Option<&'static str> {
    let letters_of = typestr.strip_prefix('>')?;
    Type::ALL.into_iter().find(|&of| letters(of) == Some(letters_of)).map(name)
}

/// An array over the memory of an object with `__array_interface__` if that memory is writable and aligned, else
/// over a copy.
pub(crate) fn adopt(given: &Bound<'_, PyAny>, interface: &Bound<'_, PyAny>) -> PyResult<Found> {
    let py = given.py();
    let description = Description::of(given, interface)?;
    let Some(of) = description.dtype() else {
        let Some(name) = swapped(&description.typestr) else {
            return Err(refused(given, &format!("elements of type {} have no counterpart", description.typestr)));
        };
        let converted = given.call_method1(intern!(py, "astype"), (name,))?;
        let interface = converted.getattr(intern!(py, "__array_interface__"))?;
        if Description::of(&converted, &interface)?.dtype().is_none() {
            return Err(refused(given, "its astype returned another type than requested"));
        }
        return adopt(&converted, &interface).map(|found| Found { copied: true, ..found });
    };
    if description.shape.contains(&0) {
        let array = Array::zeros(&description.shape, of, &Device::Cpu).map_err(raise)?;
        return Ok(Found { array, copied: true });
    }
    let item = of.bytes();
    let strides = description.byte_strides(item);
    // Complex numbers have the alignment of their parts.
    let alignment = if of.kind() == NumberKind::Complex { item / 2 } else { item };
    let aligned = description.address.is_multiple_of(alignment)
        && strides.iter().all(|stride| stride.unsigned_abs().is_multiple_of(item));
    if description.read_only || !aligned {
        let bytes = py.detach(|| {
            let mut bytes = Vec::with_capacity(description.shape.iter().product::<usize>() * item);
            // SAFETY: the interface guarantees readable memory for every index of its shape, and `given` is held.
            unsafe { gather(description.address as *const u8, &description.shape, &strides, item, &mut bytes) };
            bytes
        });
        let array = released(py, || Array::from_bytes(&bytes, &description.shape, of, &Device::Cpu))?;
        return Ok(Found { array, copied: true });
    }
    let (below, bytes) = description.reach(item);
    let at = NonNull::new((description.address - below) as *mut u8)
        .ok_or_else(|| refused(given, "its interface gives no address"))?;
    let in_elements: Vec<isize> = strides.iter().map(|stride| stride / item as isize).collect();
    let owner: Box<Py<PyAny>> = Box::new(given.clone().unbind());
    // SAFETY: the interface guarantees readable and writable memory for every index of its shape while the object
    // lives, and the owner keeps the object; alignment was checked.
    let array =
        unsafe { Array::from_host_memory(at, bytes, &description.shape, &in_elements, below / item, of, owner) };
    Ok(Found { array: array.map_err(raise)?, copied: false })
}

/// Copies strided elements.
///
/// # Safety
/// The element at every index of the shape must be readable.
unsafe fn gather(at: *const u8, shape: &[usize], strides: &[isize], item: usize, to: &mut Vec<u8>) {
    let (Some((&length, shape)), Some((&stride, strides))) = (shape.split_first(), strides.split_first()) else {
        // SAFETY: the caller guarantees one readable element.
        to.extend_from_slice(unsafe { std::slice::from_raw_parts(at, item) });
        return;
    };
    if shape.is_empty() && stride == item as isize {
        // SAFETY: the caller guarantees readable elements, and they are contiguous.
        to.extend_from_slice(unsafe { std::slice::from_raw_parts(at, item * length) });
        return;
    }
    for place in 0..length as isize {
        // SAFETY: an index of the shape.
        unsafe { gather(at.offset(place * stride), shape, strides, item, to) };
    }
}

/// An array's strides in bytes, or `None` if it is contiguous in row-major order.
pub(crate) fn strides_of<'py>(py: Python<'py>, array: &Array) -> PyResult<Option<Bound<'py, PyTuple>>> {
    if array.is_contiguous() {
        return Ok(None);
    }
    let item = array.dtype().bytes() as isize;
    PyTuple::new(py, array.strides().iter().map(|stride| stride * item)).map(Some)
}

#[pymethods]
impl PyArray {
    /// NumPy's description of the memory, for arrays on the CPU.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let array = &self.array;
        if !is_on_cpu(array) {
            return Err(PyAttributeError::new_err(format!(
                "the array is on {}; copy it with .cpu()",
                array.device()
            )));
        }
        let Some(typestr) = typestr(array.dtype()) else {
            return Err(PyAttributeError::new_err(format!(
                "elements of {} are not stored as plain integers; numpy.asarray and .numpy() convert them",
                name(array.dtype())
            )));
        };
        let interface = PyDict::new(py);
        interface.set_item(intern!(py, "version"), 3)?;
        interface.set_item(intern!(py, "shape"), PyTuple::new(py, array.shape())?)?;
        interface.set_item(intern!(py, "typestr"), typestr)?;
        interface.set_item(intern!(py, "data"), (array.address(), !array.is_writable()))?;
        interface.set_item(intern!(py, "strides"), strides_of(py, array)?)?;
        Ok(interface)
    }

    /// The array as a NumPy array, for `numpy.asarray`. Field elements are copied as integers in `0..p`.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, array) = (slf.py(), &slf.get().array);
        if !is_on_cpu(array) {
            return Err(PyTypeError::new_err(format!(
                "the array is on {}, and NumPy arrays are on the CPU; copy it with .cpu() or .numpy()",
                array.device()
            )));
        }
        let is_field = array.dtype().kind() == NumberKind::Field;
        if is_field && copy == Some(false) {
            return Err(PyValueError::new_err(format!(
                "elements of {} are not stored as plain integers, so a NumPy array needs a copy",
                name(array.dtype())
            )));
        }
        let plain = if is_field {
            Bound::new(py, Self::from(on(py, array, || canonical(array))?))?.into_any()
        } else {
            slf.clone().into_any()
        };
        let numpy = py.import("numpy")?;
        let result = numpy.call_method1("asarray", (&plain,))?;
        let result = match dtype {
            Some(dtype) if !result.getattr("dtype")?.eq(dtype)? => {
                if copy == Some(false) {
                    return Err(PyValueError::new_err("another element type needs a copy"));
                }
                return result.call_method1("astype", (dtype,));
            }
            _ => result,
        };
        if copy == Some(true) && !is_field { result.call_method0("copy") } else { Ok(result) }
    }

    /// NumPy's functions compute with the result of `numpy.asarray`. For field elements that would be integer
    /// arithmetic, so they are Rigel's functions there, or an error.
    fn __array_function__<'py>(
        slf: &Bound<'py, Self>,
        func: &Bound<'py, PyAny>,
        _types: &Bound<'py, PyAny>,
        args: &Bound<'py, PyAny>,
        kwargs: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("rigel._numpy")?.call_method1("call", (func, args, kwargs))
    }

    /// NumPy's functions of elements, and with them its operators, are Rigel's where there is one of that name.
    #[pyo3(signature = (ufunc, method, *inputs, **options))]
    fn __array_ufunc__<'py>(
        slf: &Bound<'py, Self>,
        ufunc: &Bound<'py, PyAny>,
        method: &Bound<'py, PyAny>,
        inputs: &Bound<'py, PyTuple>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let options = options.cloned().unwrap_or_else(|| PyDict::new(py));
        py.import("rigel._numpy")?.call_method1("call_ufunc", (ufunc, method, inputs, options))
    }

    /// The array as a NumPy array: over the same memory on the CPU, else a copy. Field elements become integers in
    /// `0..p`; the coefficients of an extension are one more axis.
    ///
    /// >>> import rigel
    /// >>> rigel.arange(3).numpy()
    /// array([0, 1, 2])
    fn numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, array) = (slf.py(), &slf.get().array);
        if is_on_cpu(array) {
            return Self::__array__(slf, None, None);
        }
        settle(py, &array.device())?;
        let here = released(py, || {
            let plain = if array.dtype().is_field() { canonical(array)? } else { array.clone() };
            plain.to(&Device::Cpu)
        })?;
        Self::__array__(&Bound::new(py, Self::from(here))?, None, None)
    }
}
