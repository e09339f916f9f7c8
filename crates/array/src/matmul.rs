//! Matrix products: floats and complex numbers by cuBLAS if it is available; all other types, and floats without
//! cuBLAS, by Rigel's kernel; on the CPU by blocks over all cores.

use std::fmt;
use std::path::PathBuf;

use rigel_codegen::map::Type;
use rigel_gpu::{BlasType, GemmOperand, GemmShape, GemmTarget, Stream};
use rigel_kernels::number::matmul;

use crate::array::Array;
use crate::cpu;
use crate::device::{Device, same_device};
use crate::error::{Error, Result};
use crate::evaluate::{device_memory, host_memory};
use crate::layout::{broadcast, text};
use crate::memory::HostMemory;
use crate::scalar::{name, promote};

/// The engine that multiplies matrices of floats and complex numbers on a device. Field elements and integers
/// always use Rigel's kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MatmulEngine {
    /// The CPU's own loops.
    Cpu,
    /// NVIDIA's cuBLAS.
    Cublas {
        /// The library's version.
        version: String,
        /// The library's path.
        path: PathBuf,
    },
    /// Rigel's tiled kernel, since there is no cuBLAS.
    Kernel {
        /// The reason why cuBLAS was not found, and advice on how to install it.
        reason: String,
    },
}

impl fmt::Display for MatmulEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("the CPU"),
            Self::Cublas { version, path } => write!(f, "cuBLAS {version} ({})", path.display()),
            Self::Kernel { reason } => write!(f, "Rigel's kernel: {reason}"),
        }
    }
}

/// The engine that multiplies matrices of floats and complex numbers on a device, and why.
pub fn matmul_engine(device: &Device) -> MatmulEngine {
    match device {
        Device::Cpu => MatmulEngine::Cpu,
        Device::Gpu(device) => match device.blas() {
            Ok(blas) => MatmulEngine::Cublas { version: blas.version().into(), path: blas.path().into() },
            Err(error) => MatmulEngine::Kernel { reason: error.to_string() },
        },
    }
}

/// The factors of a product as stacks of `batch` matrices, (m x k) and (k x n).
struct Stacks {
    a: Array,
    b: Array,
    m: usize,
    n: usize,
    k: usize,
    batch: usize,
    /// The shape of the product.
    shape: Vec<usize>,
}

impl Array {
    /// The matrix product, as NumPy's `matmul`: the last two axes are the matrices, and the axes before them are
    /// broadcast. An array of one axis is a row on the left or a column on the right, and that axis is removed.
    ///
    /// ```
    /// # use rigel_array::{Array, Device};
    /// let a = Array::arange(0.0, 6.0, 1.0, &Device::Cpu)?.reshape(&[2, 3])?;
    /// assert_eq!(a.matmul(&a.transpose())?.to_vec::<f64>()?, [5.0, 14.0, 14.0, 50.0]);
    /// # Ok::<(), rigel_array::Error>(())
    /// ```
    ///
    /// Elements of narrow types are multiplied and summed as wide ones, and the sums rounded or truncated once.
    pub fn matmul(&self, other: &Self) -> Result<Self> {
        if let Some((a, b, narrow)) = widened(self, other)? {
            return a.matmul(&b)?.astype(narrow);
        }
        let stacks = Stacks::new(self, other)?;
        let blas_type = match stacks.a.dtype {
            Type::F32 => Some(BlasType::F32),
            Type::F64 => Some(BlasType::F64),
            Type::C128 => Some(BlasType::C128),
            _ => None,
        };
        match (stacks.a.device(), blas_type) {
            (Device::Cpu, _) => stacks.on_cpu(),
            (Device::Gpu(device), Some(of)) => match device.blas() {
                Ok(blas) => stacks.by_blas(&blas, &device.compute()?, of),
                // `matmul_engine` reports this fallback.
                Err(rigel_gpu::Error::NoLibrary { .. }) => stacks.by_kernel(&device.compute()?),
                Err(error) => Err(error.into()),
            },
            (Device::Gpu(device), None) => stacks.by_kernel(&device.compute()?),
        }
    }

    /// [`matmul`](Self::matmul) with Rigel's kernel, even if there is cuBLAS.
    pub fn matmul_by_kernel(&self, other: &Self) -> Result<Self> {
        if let Some((a, b, narrow)) = widened(self, other)? {
            return a.matmul_by_kernel(&b)?.astype(narrow);
        }
        let stacks = Stacks::new(self, other)?;
        match stacks.a.device() {
            Device::Cpu => stacks.on_cpu(),
            Device::Gpu(device) => stacks.by_kernel(&device.compute()?),
        }
    }

    /// The inner product of two arrays of one axis, `mul` if one operand is a scalar, and otherwise the matrix
    /// product.
    pub fn dot(&self, other: &Self) -> Result<Self> {
        match (self.axes(), other.axes()) {
            (0, _) | (_, 0) => self.mul(other),
            (1, 1) if self.shape() != other.shape() => Err(mismatch("dot", self, other)),
            (1, 1) => {
                let dtype = promote(self.dtype, other.dtype)?;
                let [a, b] = [self, other].map(|array| array.lazy().astype(dtype.wide()));
                (a * b).sum(..)?.astype(dtype)
            }
            (_, 1 | 2) => self.matmul(other),
            _ => Err(Error::shape(format!(
                "dot of shapes {} and {}: use matmul, which broadcasts stacks of matrices",
                text(self.shape()),
                text(other.shape())
            ))),
        }
    }
}

/// Factors of a narrow type, in its wide one, and the narrow type; `None` if the product's type is not narrow.
fn widened(a: &Array, b: &Array) -> Result<Option<(Array, Array, Type)>> {
    let dtype = promote(a.dtype, b.dtype)?;
    if !dtype.is_narrow() {
        return Ok(None);
    }
    Ok(Some((a.astype(dtype.wide())?, b.astype(dtype.wide())?, dtype)))
}

fn mismatch(operation: &str, a: &Array, b: &Array) -> Error {
    Error::shape(format!("{operation}: shapes {} and {} do not fit together", text(a.shape()), text(b.shape())))
}

impl Stacks {
    fn new(a: &Array, b: &Array) -> Result<Self> {
        same_device("matmul", &a.device(), &b.device())?;
        if a.axes() == 0 || b.axes() == 0 {
            return Err(Error::shape("matmul: an operand is a scalar; use mul"));
        }
        let dtype = promote(a.dtype, b.dtype)?;
        if dtype == Type::Bool {
            return Err(Error::of_type(format!("matmul is not defined for {}", name(dtype))));
        }
        let (row, column) = (a.axes() == 1, b.axes() == 1);
        let left = if row { a.expand(0)? } else { a.clone() }.astype(dtype)?;
        let right = if column { b.expand(1)? } else { b.clone() }.astype(dtype)?;
        let split = |array: &Array| {
            let (stack, matrix) = array.shape().split_at(array.axes() - 2);
            (stack.to_vec(), [matrix[0], matrix[1]])
        };
        let ((a_stack, [m, k]), (b_stack, [b_rows, n])) = (split(&left), split(&right));
        if k != b_rows {
            return Err(mismatch("matmul", a, b));
        }
        let stack = broadcast("matmul", &a_stack, &b_stack)?;
        let batch: usize = stack.iter().product();
        let one_axis = |array: &Array, rows: usize, columns: usize| {
            let whole: Vec<usize> = stack.iter().copied().chain([rows, columns]).collect();
            array.broadcast_to(&whole)?.reshape(&[batch as isize, rows as isize, columns as isize])
        };
        let (left, right) = (one_axis(&left, m, k)?, one_axis(&right, k, n)?);
        let mut shape = stack.to_vec();
        shape.extend((!row).then_some(m));
        shape.extend((!column).then_some(n));
        Ok(Self { a: left, b: right, m, n, k, batch, shape })
    }

    fn out(&self) -> Result<Array> {
        Array::alloc(&self.shape, self.a.dtype, &self.a.device())
    }

    fn on_cpu(&self) -> Result<Array> {
        let out = self.out()?;
        let matrix_bytes = self.m * self.n * self.a.dtype.bytes();
        HostMemory::locked(&[host_memory(&self.a), host_memory(&self.b)], None, || {
            host_memory(&out).write(|bytes| {
                for at in 0..self.batch {
                    let factor = |stack: &Array| cpu::Factor {
                        memory: host_memory(stack).address().as_ptr(),
                        offset: (stack.layout.offset as isize + at as isize * stack.strides()[0]) as usize,
                        row_stride: stack.strides()[1],
                        column_stride: stack.strides()[2],
                    };
                    let c = &mut bytes[at * matrix_bytes..(at + 1) * matrix_bytes];
                    let sizes = [self.m, self.n, self.k];
                    // SAFETY: the layouts lie within their memories, which are locked for reading.
                    unsafe { cpu::matmul(self.a.dtype, sizes, factor(&self.a), factor(&self.b), c) };
                }
            });
        });
        Ok(out)
    }

    fn by_kernel(&self, stream: &Stream) -> Result<Array> {
        let out = self.out()?;
        let sizes = matmul::Sizes { m: self.m, n: self.n, k: self.k, batch: self.batch };
        let of = self.a.dtype.cuda_name();
        let target = device_memory(&out);
        matmul::multiply(stream, of, sizes, factor(&self.a), factor(&self.b), target.writable().view_mut())?;
        Ok(out)
    }

    fn by_blas(&self, blas: &rigel_gpu::Blas, stream: &Stream, of: BlasType) -> Result<Array> {
        let out = self.out()?;
        let (a, b) = (stored(&self.a)?, stored(&self.b)?);
        let mut memory = device_memory(&out).writable();
        let target = GemmTarget {
            memory: memory.view_mut(),
            offset: 0,
            leading: self.n.max(1),
            batch_stride: self.m * self.n,
        };
        let shape = GemmShape { m: self.m, n: self.n, k: self.k, batch: self.batch };
        blas.gemm(stream, of, shape, operand(&a), operand(&b), target)?;
        drop(memory);
        Ok(out)
    }
}

/// A stack whose matrices are stored row by row or column by column: itself, or a copy.
fn stored(stack: &Array) -> Result<Array> {
    let (shape, strides) = (stack.shape(), stack.strides());
    // The stride of an axis of length 1 does not matter.
    let follows = |inner: usize, outer: usize| {
        (strides[inner] == 1 || shape[inner] == 1)
            && (strides[outer] >= shape[inner].max(1) as isize || shape[outer] == 1)
    };
    if strides[0] >= 0 && (follows(2, 1) || follows(1, 2)) { Ok(stack.clone()) } else { stack.copy() }
}

/// A stack as an operand of Rigel's kernel.
fn factor(stack: &Array) -> matmul::Operand<'_> {
    matmul::Operand {
        memory: device_memory(stack).view(),
        offset: stack.layout.offset,
        batch_stride: stack.strides()[0],
        row_stride: stack.strides()[1],
        column_stride: stack.strides()[2],
    }
}

/// A stored stack as an operand of cuBLAS.
fn operand(stack: &Array) -> GemmOperand<'_> {
    let (shape, strides) = (stack.shape(), stack.strides());
    let by_rows = (strides[2] == 1 || shape[2] == 1) && (strides[1] >= shape[2] as isize || shape[1] == 1);
    let (inner, outer) = if by_rows { (2, 1) } else { (1, 2) };
    GemmOperand {
        memory: device_memory(stack).view(),
        offset: stack.layout.offset,
        leading: (strides[outer].max(0) as usize).max(shape[inner]).max(1),
        batch_stride: strides[0].max(0) as usize,
        transposed: !by_rows,
    }
}
