//! User kernels on arrays.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, MutexGuard};

use rigel_gpu::{
    ArgumentList, Arguments, Buffer, Lock, Parameter, Passing, Plain, Shape, View, ViewMut, bytes_of,
};
use rigel_kernels::code::source;

use crate::array::Array;
use crate::device::{Device, same_device};
use crate::error::{Error, Result};
use crate::evaluate::device_memory;
use crate::memory::DeviceMemory;

/// The launch shape of a kernel: blocks, and threads per block, along x, y and z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Blocks.
    pub blocks: [u32; 3],
    /// Threads per block.
    pub threads: [u32; 3],
    /// Dynamic shared memory per block, in bytes.
    pub shared: u32,
}

impl Grid {
    /// One thread for each of `items`, in blocks of `threads`.
    pub fn cover(items: usize, threads: u32) -> Result<Self> {
        let shape = Shape::cover(items, threads)?;
        Ok(Self { blocks: shape.blocks, threads: shape.threads, shared: 0 })
    }
}

/// A kernel argument.
#[derive(Clone, Debug)]
pub enum Argument<'a> {
    /// The address of an array's first element. The array must be contiguous. The kernel may change it if its
    /// parameter is not `const`; two arrays that it may change must not overlap.
    Array(&'a Array),
    /// A number or a struct, as bytes.
    Value(Vec<u64>, usize),
    /// An integer, as wide as the kernel's parameter.
    Int(i128),
    /// A float, as wide as the kernel's parameter.
    Float(f64),
}

impl<'a> Argument<'a> {
    /// A value of the same type as the kernel's parameter.
    pub fn value<T: Plain>(value: T) -> Self {
        let bytes = bytes_of(std::slice::from_ref(&value));
        Self::Value(padded(bytes), bytes.len())
    }
}

impl<'a> From<&'a Array> for Argument<'a> {
    fn from(array: &'a Array) -> Self {
        Self::Array(array)
    }
}

macro_rules! arguments_from {
    ($($of:ty)*) => { $(
        impl From<$of> for Argument<'_> {
            fn from(value: $of) -> Self {
                Self::value(value)
            }
        }
    )* };
}
arguments_from!(i32 u32 i64 u64 f32 f64);

/// The CPU version of a kernel. It gets the grid and the arguments, whose arrays are on the CPU.
pub type OnCpu = dyn Fn(Grid, &[Argument<'_>]) -> Result<()> + Send + Sync;

/// A kernel from CUDA C++ text, compiled for a device when it is first launched there.
///
/// The text may include Rigel's headers for fields (`#include "field/koala_bear.cuh"`).
///
/// ```
/// use rigel_array::{Array, Device, Grid, Kernel};
///
/// // SAFETY: the kernel accesses the first n elements of x, and is launched with no larger n than x has elements.
/// let scale = unsafe {
///     Kernel::new(
///         "__global__ void scale(float *x, float by, unsigned n) {
///              unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
///              if (i < n) x[i] *= by;
///          }",
///         "scale",
///     )
/// }
/// .on_cpu(|_, arguments| match arguments {
///     [rigel_array::Argument::Array(x), ..] => x.assign(x.mul(3.0)?),
///     _ => unreachable!(),
/// });
///
/// for device in [Device::Cpu, Device::open("emulated")?] {
///     let x = Array::from_slice(&[1.0f32, 2.0], &[2], &device)?;
///     scale.launch(Grid::cover(2, 256)?, &[(&x).into(), 3.0f32.into(), 2u32.into()])?;
///     assert_eq!(x.to_vec::<f32>()?, [3.0, 6.0]);
/// }
/// # Ok::<(), rigel_array::Error>(())
/// ```
#[derive(Clone)]
pub struct Kernel {
    text: Arc<str>,
    name: Arc<str>,
    on_cpu: Option<Arc<OnCpu>>,
    /// The compiled kernel for each device.
    compiled: Arc<Lock<Vec<(rigel_gpu::Device, rigel_gpu::Kernel)>>>,
}

impl Kernel {
    /// The kernel `name` of this text. A name may be an expression, such as `scale<float>`.
    ///
    /// # Safety
    ///
    /// The text becomes native code: machine code of a GPU, and on the emulated device code of this process. The caller
    /// vouches for every launch: with the arrays and numbers that it is given, the kernel accesses only elements
    /// of these arrays, and writes only through pointers that are not `const`.
    pub unsafe fn new(text: &str, name: &str) -> Self {
        Self { text: text.into(), name: name.into(), on_cpu: None, compiled: Arc::default() }
    }

    /// Adds a function to call if the arrays are on the CPU. Without one, that is an error.
    pub fn on_cpu(mut self, work: impl Fn(Grid, &[Argument<'_>]) -> Result<()> + Send + Sync + 'static) -> Self {
        self.on_cpu = Some(Arc::new(work));
        self
    }

    /// The kernel's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Compiles it for a device now, to see the compiler's errors before the first launch.
    pub fn compile(&self, device: &Device) -> Result<()> {
        match device {
            Device::Cpu => self.cpu_version().map(|_| ()),
            Device::Gpu(device) => self.on(device).map(|_| ()),
        }
    }

    fn cpu_version(&self) -> Result<&Arc<OnCpu>> {
        self.on_cpu.as_ref().ok_or_else(|| {
            Error::of_type(format!(
                "kernel {}: its arrays are on the CPU, and it has no version for that; move them to a GPU with `to`, \
                 or give it a CPU function",
                self.name
            ))
        })
    }

    fn on(&self, device: &rigel_gpu::Device) -> Result<rigel_gpu::Kernel> {
        let lock = || self.compiled.lock();
        if let Some((_, kernel)) = lock().iter().find(|(known, _)| known.is(device)) {
            return Ok(kernel.clone());
        }
        // SAFETY: whoever made `self` vouches for its text.
        let text = unsafe { source(&format!("{}.cu", self.name), &self.text) };
        let kernel = device.compile(&text.kernel(&*self.name))?.kernel(&self.name)?;
        lock().push((device.clone(), kernel.clone()));
        Ok(kernel)
    }

    /// Launches it on the device of its arrays. There must be at least one array, and all on one device.
    pub fn launch(&self, grid: Grid, arguments: &[Argument<'_>]) -> Result<()> {
        let arrays = || {
            arguments.iter().filter_map(|argument| match argument {
                Argument::Array(array) => Some(*array),
                _ => None,
            })
        };
        let Some(first) = arrays().next() else {
            return Err(Error::shape(format!("kernel {}: at least one argument must be an array", self.name)));
        };
        let device = first.device();
        for array in arrays() {
            same_device("Kernel::launch", &device, &array.device())?;
            if !array.is_contiguous() {
                return Err(Error::shape(format!(
                    "kernel {}: an array of shape {} is not contiguous; call contiguous() first",
                    self.name,
                    crate::layout::text(array.shape())
                )));
            }
        }
        match device {
            Device::Cpu => self.cpu_version()?(grid, arguments),
            Device::Gpu(device) => {
                let kernel = self.on(&device)?;
                let mut locked = Locked::new(&self.name, arguments, kernel.parameters())?;
                let list = Launch::new(&self.name, arguments, locked.parts()?, kernel.parameters())?;
                let shape = Shape { blocks: grid.blocks, threads: grid.threads, shared: grid.shared };
                Ok(kernel.launch(&device.compute()?, shape, list)?)
            }
        }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({})", self.name)
    }
}

/// Parts of a memory, each with the number of its argument.
type Places = Vec<(Range<usize>, usize)>;

/// The device memory of the arrays that a kernel writes to, locked.
struct Locked<'a> {
    guards: Vec<MutexGuard<'a, Buffer<u8>>>,
    /// The arguments that lie in the memory of each guard, by place in it.
    written: Vec<Places>,
    count: usize,
}

impl<'a> Locked<'a> {
    fn new(kernel: &str, arguments: &[Argument<'a>], parameters: &[Parameter]) -> Result<Self> {
        let mut memories: Vec<(&'a DeviceMemory, Places)> = Vec::new();
        for (at, (argument, parameter)) in arguments.iter().zip(parameters).enumerate() {
            let (Argument::Array(array), Passing::Pointer) = (argument, parameter.passing) else { continue };
            let (memory, range) = (device_memory(array), array.byte_range());
            let known = memories.iter().position(|(known, _)| std::ptr::eq(*known, memory));
            let known = known.unwrap_or_else(|| {
                memories.push((memory, Vec::new()));
                memories.len() - 1
            });
            let written = &mut memories[known].1;
            let overlaps = |other: &Range<usize>| other.start < range.end && range.start < other.end;
            if let Some((_, other)) = written.iter().find(|(other, _)| overlaps(other)) {
                return Err(Error::shape(format!(
                    "kernel {kernel}: arguments {other} and {at} overlap, and it may write to both; copy one of them, \
                     or declare its parameter `const`"
                )));
            }
            written.push((range, at));
        }
        // In one order for all threads, so that no two wait for each other.
        memories.sort_by_key(|&(memory, _)| std::ptr::from_ref(memory));
        memories.iter_mut().for_each(|(_, written)| written.sort_by_key(|(range, _)| range.start));
        let (guards, written) = memories.into_iter().map(|(memory, written)| (memory.writable(), written)).unzip();
        Ok(Self { guards, written, count: arguments.len() })
    }

    /// The memory of each argument that may change it.
    fn parts(&mut self) -> Result<Vec<Option<ViewMut<'_, u8>>>> {
        let mut parts: Vec<_> = (0..self.count).map(|_| None).collect();
        for (guard, written) in self.guards.iter_mut().zip(&self.written) {
            let (mut rest, mut begin) = (guard.view_mut(), 0);
            for (range, at) in written {
                let (_, from) = rest.split_at(range.start - begin)?;
                let (part, behind) = from.split_at(range.len())?;
                parts[*at] = Some(part);
                (rest, begin) = (behind, range.end);
            }
        }
        Ok(parts)
    }
}

/// The arguments in the form that the launch takes.
struct Launch<'a>(Vec<Ready<'a>>);

enum Ready<'a> {
    Read(View<'a, u8>),
    Written(ViewMut<'a, u8>),
    Words(Vec<u64>, usize),
}

impl<'a> Launch<'a> {
    fn new(
        kernel: &str,
        arguments: &[Argument<'a>],
        mut written: Vec<Option<ViewMut<'a, u8>>>,
        parameters: &[Parameter],
    ) -> Result<Self> {
        let width = |at: usize| parameters.get(at).map_or(8, |parameter| parameter.bytes);
        let ready = arguments.iter().enumerate().map(|(at, argument)| {
            let number = |bytes: &[u8]| Ok(Ready::Words(padded(bytes), bytes.len()));
            let refused = |value: &dyn fmt::Display| {
                let bytes = width(at);
                Err(Error::of_type(format!("kernel {kernel}: argument {at}, {value}, does not fit {bytes} bytes")))
            };
            match argument {
                Argument::Array(array) => match written[at].take() {
                    Some(memory) => Ok(Ready::Written(memory)),
                    None => Ok(Ready::Read(device_memory(array).view().range(array.byte_range())?)),
                },
                Argument::Value(words, bytes) => Ok(Ready::Words(words.clone(), *bytes)),
                Argument::Int(value) => match width(at) {
                    1 if (-128..256).contains(value) => number(&[*value as u8]),
                    2 if (-(1 << 15)..1 << 16).contains(value) => number(&(*value as u16).to_le_bytes()),
                    4 if (-(1 << 31)..1 << 32).contains(value) => number(&(*value as u32).to_le_bytes()),
                    8 if (-(1 << 63)..1 << 64).contains(value) => number(&(*value as u64).to_le_bytes()),
                    _ => refused(value),
                },
                Argument::Float(value) => match width(at) {
                    4 => number(&(*value as f32).to_le_bytes()),
                    8 => number(&value.to_le_bytes()),
                    _ => refused(value),
                },
            }
        });
        Ok(Self(ready.collect::<Result<_>>()?))
    }
}

impl Arguments for Launch<'_> {
    fn push_all<'a>(&'a self, list: &mut ArgumentList<'a>) {
        for argument in &self.0 {
            match argument {
                Ready::Read(view) => rigel_gpu::Argument::push(view, list),
                Ready::Written(view) => rigel_gpu::Argument::push(view, list),
                Ready::Words(words, bytes) => list.bytes(words, *bytes),
            }
        }
    }
}

/// Bytes padded to whole words, so that they are aligned for any type.
fn padded(bytes: &[u8]) -> Vec<u64> {
    bytes
        .chunks(8)
        .map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        })
        .collect()
}
