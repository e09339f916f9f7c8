//! User kernels on arrays.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rigel_gpu::{ArgumentList, Arguments, Plain, Shape, bytes_of};
use rigel_kernels::source::source;

use crate::array::Array;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::evaluate::device_memory;
use crate::views::same_device;

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
    /// The address of an array's first element. The array must be contiguous; the kernel may change it.
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
/// let scale = Kernel::new(
///     "__global__ void scale(float *x, float by, unsigned n) {
///          unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
///          if (i < n) x[i] *= by;
///      }",
///     "scale",
/// )
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
    compiled: Arc<Mutex<Vec<(rigel_gpu::Device, rigel_gpu::Kernel)>>>,
}

impl Kernel {
    /// The kernel `name` of this text. The name may be an expression, such as `scale<float>`.
    pub fn new(text: &str, name: &str) -> Self {
        Self { text: text.into(), name: name.into(), on_cpu: None, compiled: Arc::default() }
    }

    /// Adds a function to call if the arrays are on the CPU. Without one, that is an error.
    pub fn on_cpu(mut self, work: impl Fn(Grid, &[Argument<'_>]) -> Result<()> + Send + Sync + 'static) -> Self {
        self.on_cpu = Some(Arc::new(work));
        self
    }

    /// Its name.
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
                "kernel {}: its arrays are on the CPU, and it has no version for that; move them to a GPU with `to`, or \
                 give it a CPU function",
                self.name
            ))
        })
    }

    fn on(&self, device: &rigel_gpu::Device) -> Result<rigel_gpu::Kernel> {
        let lock = || self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, kernel)) = lock().iter().find(|(known, _)| known.is(device)) {
            return Ok(kernel.clone());
        }
        let text = source(&format!("{}.cu", self.name), &self.text).kernel(&*self.name);
        let kernel = device.compile(&text)?.kernel(&self.name)?;
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
                let list = Launch::new(&self.name, arguments, kernel.parameters())?;
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

/// The arguments in the form that a launch takes.
struct Launch<'a>(Vec<Ready<'a>>);

enum Ready<'a> {
    Address(rigel_gpu::View<'a, u8>),
    Words(Vec<u64>, usize),
}

impl<'a> Launch<'a> {
    fn new(kernel: &str, arguments: &[Argument<'a>], sizes: Option<&[usize]>) -> Result<Self> {
        let width = |at: usize| sizes.and_then(|sizes| sizes.get(at)).copied().unwrap_or(8);
        let ready = arguments.iter().enumerate().map(|(at, argument)| {
            let number = |bytes: &[u8]| Ok(Ready::Words(padded(bytes), bytes.len()));
            let refused = |value: &dyn fmt::Display| {
                let bytes = width(at);
                Err(Error::of_type(format!("kernel {kernel}: argument {at}, {value}, does not fit {bytes} bytes")))
            };
            match argument {
                Argument::Array(array) => {
                    let memory = device_memory(array).view().range(array.byte_range())?;
                    Ok(Ready::Address(memory))
                }
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
                Ready::Address(view) => rigel_gpu::Argument::push(view, list),
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
