//! The array type: memory, layout and element type; construction, and reading elements.

use std::any::Any;
use std::ptr::NonNull;

use rigel_codegen::map::{Number, Type};
use rigel_gpu::{Buffer, bytes_of, bytes_of_mut};

use crate::cpu;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::layout::{Layout, elements, text};
use crate::memory::{HostMemory, Memory};
use crate::scalar::{Scalar, name, words};

/// An n-dimensional array of numbers or field elements, on the CPU or on a GPU.
///
/// As in NumPy, cloning, slicing, transposing and broadcasting give arrays over the same memory: a write by
/// [`assign`](Self::assign) or a kernel is visible through all of them. Every other operation makes a new array.
#[derive(Clone)]
pub struct Array {
    pub(crate) memory: Memory,
    pub(crate) layout: Layout,
    pub(crate) dtype: Type,
}

impl Array {
    pub(crate) fn new(memory: Memory, layout: Layout, dtype: Type) -> Self {
        Self { memory, layout, dtype }
    }

    /// An uninitialized array.
    pub(crate) fn alloc(shape: &[usize], dtype: Type, device: &Device) -> Result<Self> {
        let bytes = elements(shape, dtype.bytes())? * dtype.bytes();
        Ok(Self::new(Memory::alloc(device, bytes)?, Layout::contiguous(shape), dtype))
    }

    /// An array of these elements, in row-major order.
    ///
    /// ```
    /// use rigel_array::{Array, Device};
    ///
    /// let a = Array::from_slice(&[1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3], &Device::Cpu)?;
    /// assert_eq!(a.sum(0)?.to_vec::<f64>()?, [5.0, 7.0, 9.0]);
    /// # Ok::<(), rigel_array::Error>(())
    /// ```
    pub fn from_slice<T: Number>(values: &[T], shape: &[usize], device: &Device) -> Result<Self> {
        if elements(shape, size_of::<T>())? != values.len() {
            return Err(Error::shape(format!(
                "{} values do not fill an array of shape {}",
                values.len(),
                text(shape)
            )));
        }
        Self::from_bytes(bytes_of(values), shape, T::TYPE, device)
    }

    /// An array of booleans, in row-major order.
    pub fn from_bools(values: &[bool], shape: &[usize], device: &Device) -> Result<Self> {
        if elements(shape, 1)? != values.len() {
            return Err(Error::shape(format!(
                "{} values do not fill an array of shape {}",
                values.len(),
                text(shape)
            )));
        }
        let bytes: Vec<u8> = values.iter().map(|&value| value.into()).collect();
        Self::from_bytes(&bytes, shape, Type::Bool, device)
    }

    /// An array of elements given by their bytes in memory, in row-major order. Booleans are 0 or 1.
    pub fn from_bytes(bytes: &[u8], shape: &[usize], dtype: Type, device: &Device) -> Result<Self> {
        if elements(shape, dtype.bytes())? * dtype.bytes() != bytes.len() {
            return Err(Error::shape(format!(
                "{} bytes do not fill an array of {} of shape {}",
                bytes.len(),
                name(dtype),
                text(shape)
            )));
        }
        let array = Self::alloc(shape, dtype, device)?;
        match (&array.memory, device) {
            (Memory::Device(memory), Device::Gpu(device)) => {
                device.compute()?.write(&mut *memory.writable(), bytes)?;
            }
            (Memory::Host(memory), _) => memory.write(|to| cpu::copy(to, bytes)),
            _ => unreachable!("memory of the requested device"),
        }
        Ok(array)
    }

    /// An array over foreign host memory, which is not copied.
    ///
    /// # Safety
    /// Every element of the layout must lie in the `bytes` bytes from `at`, which must be readable, writable and
    /// aligned for the type while `owner` lives.
    ///
    /// # Errors
    /// If the layout reaches outside the memory.
    pub unsafe fn from_host_memory(
        at: NonNull<u8>,
        bytes: usize,
        shape: &[usize],
        strides: &[isize],
        offset: usize,
        dtype: Type,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Result<Self> {
        let layout = Layout { shape: shape.into(), strides: strides.into(), offset };
        // SAFETY: guaranteed by the caller.
        let memory = Memory::Host(unsafe { HostMemory::foreign(at, bytes, owner) }.into());
        Self::over(memory, layout, dtype)
    }

    /// An array over a device buffer, allocated by `rigel-gpu` or adopted.
    ///
    /// # Errors
    /// If the layout reaches outside the buffer.
    pub fn from_buffer(
        buffer: Buffer<u8>,
        shape: &[usize],
        strides: &[isize],
        offset: usize,
        dtype: Type,
    ) -> Result<Self> {
        let layout = Layout { shape: shape.into(), strides: strides.into(), offset };
        Self::over(Memory::from_buffer(buffer), layout, dtype)
    }

    fn over(memory: Memory, layout: Layout, dtype: Type) -> Result<Self> {
        let outside =
            || Error::shape(format!("an array of shape {} reaches outside its memory", text(&layout.shape)));
        if layout.shape.len() != layout.strides.len() {
            return Err(Error::shape("an array needs a stride for each axis"));
        }
        elements(&layout.shape, dtype.bytes())?;
        if layout.len() > 0 {
            let reach = |wanted: fn(isize) -> bool| {
                let spans = layout.shape.iter().zip(&layout.strides).filter(|&(_, &stride)| wanted(stride));
                spans.fold(layout.offset as i128, |at, (&length, &stride)| {
                    at + (length as i128 - 1) * stride as i128
                })
            };
            let (low, high) = (reach(|stride| stride < 0), reach(|stride| stride > 0));
            if low < 0 || (high + 1) * dtype.bytes() as i128 > memory.bytes() as i128 {
                return Err(outside());
            }
        }
        if let Memory::Device(memory) = &memory {
            // Kernels load an element as its C++ type.
            let alignment = if dtype == Type::C128 { 16 } else { dtype.base().bytes().min(8) };
            if !memory.view().address().is_multiple_of(alignment as u64) {
                return Err(Error::shape(format!(
                    "elements of {} on a device must be aligned to {alignment} bytes; copy them first",
                    name(dtype)
                )));
            }
        }
        Ok(Self::new(memory, layout, dtype))
    }

    // --- properties ---------------------------------------------------------------------------------------

    /// The length of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.layout.shape
    }

    /// The distance from one element to the next along each axis, in elements.
    pub fn strides(&self) -> &[isize] {
        &self.layout.strides
    }

    /// The number of axes.
    pub fn axes(&self) -> usize {
        self.layout.shape.len()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    /// Whether the array has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The size of all elements in bytes.
    pub fn bytes(&self) -> usize {
        self.len() * self.dtype.bytes()
    }

    /// The type of the elements.
    pub fn dtype(&self) -> Type {
        self.dtype
    }

    /// The device that holds it.
    pub fn device(&self) -> Device {
        self.memory.device()
    }

    /// Whether the elements are contiguous in row-major order.
    pub fn is_contiguous(&self) -> bool {
        self.layout.is_contiguous()
    }

    /// Whether all indices refer to different elements, so that it can be written to. Broadcasts can't.
    pub fn is_writable(&self) -> bool {
        self.is_empty() || self.layout.is_injective()
    }

    /// The host or device address of its first element, to share the memory with other libraries.
    pub fn address(&self) -> u64 {
        let start = match &self.memory {
            Memory::Host(memory) => memory.address().as_ptr() as u64,
            Memory::Device(memory) => memory.writable().address(),
        };
        start + (self.layout.offset * self.dtype.bytes()) as u64
    }

    /// Makes later work of the device's [compute stream](rigel_gpu::Device::compute) start after all work that uses the
    /// array's memory so far. Fails if work failed that was to write it. Call it before that stream's work is ordered
    /// before another library's, which gets the [address](Self::address).
    pub fn order_uses(&self) -> Result<()> {
        match (&self.memory, self.device()) {
            (Memory::Device(memory), Device::Gpu(device)) => Ok(device.compute()?.wait_for_uses(memory.view())?),
            _ => Ok(()),
        }
    }

    /// Counts what other libraries have given the device to do so far as a use of the array's memory, so that it is
    /// reused only after that ([`rigel_gpu::Device::reclaim`]). Call it when another library that had the
    /// [address](Self::address) does not need the memory any more. If it fails, keep a copy of this handle: the memory
    /// may still be in use.
    pub fn reclaim(&self) -> Result<()> {
        match (&self.memory, self.device()) {
            (Memory::Device(memory), Device::Gpu(device)) => Ok(device.reclaim(memory.view())?),
            _ => Ok(()),
        }
    }

    /// The byte range of the elements in the memory. They must be contiguous.
    pub(crate) fn byte_range(&self) -> std::ops::Range<usize> {
        if self.is_empty() {
            return 0..0;
        }
        let start = self.layout.offset * self.dtype.bytes();
        start..start + self.bytes()
    }

    // --- reading elements ---------------------------------------------------------------------------------

    /// The elements in row-major order. Waits for the device.
    pub fn to_vec<T: Number>(&self) -> Result<Vec<T>> {
        if T::TYPE != self.dtype {
            return Err(Error::of_type(format!(
                "the elements are {}, not {}; convert them with astype",
                name(self.dtype),
                name(T::TYPE)
            )));
        }
        let mut values = vec![T::default(); self.len()];
        self.read_into(bytes_of_mut(&mut values))?;
        Ok(values)
    }

    /// Booleans in row-major order. Waits for the device.
    pub fn to_bools(&self) -> Result<Vec<bool>> {
        if self.dtype != Type::Bool {
            return Err(Error::of_type(format!("the elements are {}, not bool", name(self.dtype))));
        }
        let mut bytes = vec![0; self.len()];
        self.read_into(&mut bytes)?;
        Ok(bytes.into_iter().map(|byte| byte != 0).collect())
    }

    /// Writes the bytes of the elements, in row-major order, to `to`. Waits for the device.
    pub fn read_into(&self, to: &mut [u8]) -> Result<()> {
        if to.len() != self.bytes() {
            return Err(Error::shape(format!("{} bytes of elements for a slice of {}", self.bytes(), to.len())));
        }
        if !self.is_contiguous() {
            return self.contiguous()?.read_into(to);
        }
        let range = self.byte_range();
        match (&self.memory, self.device()) {
            (Memory::Device(memory), Device::Gpu(device)) => {
                device.compute()?.read(memory.view().range(range)?, to)?;
            }
            (Memory::Host(memory), _) => memory.read(|from| cpu::copy(to, &from[range])),
            _ => unreachable!("memory of its own device"),
        }
        Ok(())
    }

    /// The element of an array with exactly one. Waits for the device.
    pub fn item(&self) -> Result<Scalar> {
        if self.len() != 1 {
            return Err(Error::shape(format!("an array of shape {} is not one element", text(self.shape()))));
        }
        let mut bytes = vec![0; self.dtype.bytes()];
        self.read_into(&mut bytes)?;
        Ok(Scalar::of_words(self.dtype, words(&bytes)))
    }

    /// Runs `work` with the elements of a contiguous array on the CPU. `work` must not use the array otherwise,
    /// because its lock is held.
    pub fn with_slice<T: Number, R>(&self, work: impl FnOnce(&[T]) -> R) -> Result<R> {
        let memory = self.host_slice::<T>()?;
        let range = self.byte_range();
        // SAFETY: plain data of this type; our own memory is aligned, and `from_host_memory` requires alignment.
        Ok(memory.read(|bytes| work(unsafe { as_elements(&bytes[range]) })))
    }

    /// Runs `work` with the mutable elements of a contiguous array on the CPU.
    pub fn with_slice_mut<T: Number, R>(&self, work: impl FnOnce(&mut [T]) -> R) -> Result<R> {
        let memory = self.host_slice::<T>()?;
        let range = self.byte_range();
        Ok(memory.write(|bytes| {
            let part = &mut bytes[range];
            // SAFETY: as in `with_slice`; any bytes are a valid value of plain data.
            work(unsafe { std::slice::from_raw_parts_mut(part.as_mut_ptr().cast(), part.len() / size_of::<T>()) })
        }))
    }

    fn host_slice<T: Number>(&self) -> Result<&HostMemory> {
        if T::TYPE != self.dtype {
            return Err(Error::of_type(format!("the elements are {}, not {}", name(self.dtype), name(T::TYPE))));
        }
        if !self.is_contiguous() {
            return Err(Error::shape("the elements are not contiguous; call contiguous() first"));
        }
        match &self.memory {
            Memory::Host(memory) => Ok(memory),
            Memory::Device(_) => Err(Error::Devices {
                operation: "with_slice",
                first: self.device().to_string(),
                second: Device::Cpu.to_string(),
            }),
        }
    }
}

/// # Safety
/// The bytes must be aligned for `T`.
unsafe fn as_elements<T: Number>(bytes: &[u8]) -> &[T] {
    // SAFETY: plain data; the caller guarantees the alignment.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) }
}

/// 0, 1, .. along one of `axes` axes.
pub(crate) fn along(length: usize, axis: usize, axes: usize, device: &Device) -> Result<Array> {
    let mut shape = vec![1; axes];
    shape[axis] = length as isize;
    Array::arange(0, length as i64, 1, device)?.reshape(&shape)
}
