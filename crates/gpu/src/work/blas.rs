//! Floating-point matrix products by cuBLAS.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::{Error, Lock, Result};
use crate::device::Device;
use crate::drivers::cuda::{CublasStatus, cublas_status};
use crate::drivers::{BlasType, DevicePtr, Gemm, GemmSide, Raw};
use crate::memory::{Core, View, ViewMut, same_device};
use crate::work::Stream;

/// Workspace of a product in bytes: the size that NVIDIA recommends for Hopper.
const WORKSPACE: usize = 32 << 20;

/// The sizes of a product: C (m x n) = A (m x k) B (k x n), `batch` times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GemmShape {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Number of products.
    pub batch: usize,
}

/// A factor of a product: row-major matrices. Offset and strides count elements.
#[derive(Clone, Copy, Debug)]
pub struct GemmOperand<'a> {
    /// The memory that holds the matrices.
    pub memory: View<'a, u8>,
    /// Index of the first element.
    pub offset: usize,
    /// Distance between stored rows; at least the length of a stored row.
    pub leading: usize,
    /// Distance between the matrices of a batch; 0 uses the same matrix for all products.
    pub batch_stride: usize,
    /// Whether the transpose of the matrix is stored.
    pub transposed: bool,
}

/// The result of a product: row-major matrices. Offset and strides count elements.
#[derive(Debug)]
pub struct GemmTarget<'a> {
    /// The memory that holds the matrices.
    pub memory: ViewMut<'a, u8>,
    /// Index of the first element.
    pub offset: usize,
    /// Distance between rows; at least the length of a row.
    pub leading: usize,
    /// Distance between the matrices of a batch, which must not overlap.
    pub batch_stride: usize,
}

/// cuBLAS on one device; see [`Device::blas`].
pub struct Blas {
    core: Arc<Core>,
    library: CublasStatus,
    /// The library's handle, locked while a product is enqueued, because stream and workspace are set on it.
    handle: Lock<Raw>,
}

impl Device {
    /// cuBLAS on this device, opened on first use and cached.
    ///
    /// Returns [`Error::NoLibrary`], with the places searched and how to install it, if cuBLAS is missing. The
    /// emulated device never has it.
    pub fn blas(&self) -> Result<Arc<Blas>> {
        self.kept(&"cuBLAS", |device| {
            let core = device.core();
            let handle = core.driver.acquire_blas()?;
            let blas = |library| Blas { core: core.clone(), library, handle: Lock::new(handle) };
            let blas = cublas_status().map(blas).inspect_err(|_| core.driver.release_blas(handle))?;
            Ok((blas, 0))
        })
    }
}

impl Blas {
    /// The library's version (`13.1.0`).
    pub fn version(&self) -> &str {
        &self.library.version
    }

    /// The library's file.
    pub fn path(&self) -> &Path {
        let path: &PathBuf = &self.library.path;
        path
    }

    /// Enqueues `shape.batch` products C = A B of row-major matrices. For k = 0, C is set to zero.
    ///
    /// The workspace of 32 MiB is allocated from the device's arena for each product, so that streams do not share
    /// it and cuBLAS allocates nothing itself.
    pub fn gemm(
        &self,
        stream: &Stream,
        of: BlasType,
        shape: GemmShape,
        a: GemmOperand<'_>,
        b: GemmOperand<'_>,
        c: GemmTarget<'_>,
    ) -> Result<()> {
        let GemmShape { m, n, k, batch } = shape;
        same_device("Blas::gemm", &self.core, stream.core())?;
        for block in [a.memory.block(), b.memory.block(), c.memory.block()] {
            same_device("Blas::gemm", &self.core, block.core())?;
        }
        if m == 0 || n == 0 || batch == 0 {
            return Ok(());
        }
        let out = Matrices {
            name: "C",
            rows: m,
            columns: n,
            leading: c.leading,
            stride: c.batch_stride,
            transposed: false,
        };
        if batch > 1 && c.batch_stride < out.span()? {
            let detail = format!("matrices C of {} elements overlap at stride {}", out.span()?, c.batch_stride);
            return Err(Error::shape("Blas::gemm", detail));
        }
        let out = out.side(of, batch, *c.memory.at(), c.memory.len(), c.offset)?;
        if k == 0 {
            return clear(stream, of, shape, c);
        }
        let factor = |name, operand: &GemmOperand<'_>, rows, columns| {
            let (rows, columns) = if operand.transposed { (columns, rows) } else { (rows, columns) };
            let (leading, stride) = (operand.leading, operand.batch_stride);
            let matrices = Matrices { name, rows, columns, leading, stride, transposed: operand.transposed };
            matrices.side(of, batch, *operand.memory.at(), operand.memory.len(), operand.offset)
        };
        // cuBLAS reads the matrices as column-major, hence transposed, and C^T = B^T A^T.
        let (right, left) = (factor("A", &a, m, k)?, factor("B", &b, k, n)?);
        let gemm = Gemm { of, sizes: [n, m, k], batch, left, right, out };

        let workspace = stream.alloc::<u8>(WORKSPACE)?;
        let handle = self.handle.lock();
        let mut work =
            stream.begin(&[a.memory.block(), b.memory.block()], &[c.memory.block(), workspace.block()])?;
        work.runs_unknown_kernels();
        let room = (*workspace.view().at(), WORKSPACE);
        // SAFETY: the matrices lie within their memory, which belongs to this device. It and the workspace stay
        // mapped until this work is complete.
        unsafe { self.core.driver.gemm(*handle, work.stream()?, room, &gemm) }
    }
}

/// Sets C to zero.
fn clear(stream: &Stream, of: BlasType, shape: GemmShape, c: GemmTarget<'_>) -> Result<()> {
    let mut memory = c.memory;
    let bytes = of.bytes();
    for product in 0..shape.batch {
        for row in 0..shape.m {
            let start = (c.offset + product * c.batch_stride + row * c.leading) * bytes;
            stream.fill_bytes(memory.reborrow().range(start..start + shape.n * bytes)?, 0)?;
        }
    }
    Ok(())
}

/// Stored row-major matrices: rows and columns as stored.
struct Matrices {
    name: &'static str,
    rows: usize,
    columns: usize,
    leading: usize,
    stride: usize,
    transposed: bool,
}

impl Matrices {
    fn refuse(&self, detail: impl std::fmt::Display) -> Error {
        Error::shape("Blas::gemm", format!("{}, stored as {} x {}: {detail}", self.name, self.rows, self.columns))
    }

    /// The number of elements that one matrix spans, from the first to the last.
    fn span(&self) -> Result<usize> {
        let before_last = (self.rows - 1).checked_mul(self.leading);
        before_last
            .and_then(|rows| rows.checked_add(self.columns))
            .ok_or_else(|| self.refuse("the number of elements overflows the address space"))
    }

    fn side(&self, of: BlasType, batch: usize, base: DevicePtr, bytes: usize, offset: usize) -> Result<GemmSide> {
        if self.leading < self.columns {
            return Err(self.refuse(format_args!("the distance {} between rows is less than a row", self.leading)));
        }
        let span = self.span()?;
        let end = (batch - 1)
            .checked_mul(self.stride)
            .and_then(|batches| batches.checked_add(span)?.checked_add(offset)?.checked_mul(of.bytes()));
        if end.is_none_or(|end| end > bytes) {
            return Err(self.refuse(format_args!(
                "{batch} matrices with stride {}, row stride {} and offset {offset} exceed {bytes} bytes",
                self.stride, self.leading
            )));
        }
        let at = base.offset(offset * of.bytes());
        if !at.0.is_multiple_of(of.bytes() as u64) {
            return Err(self.refuse(format_args!("{:#x} is not a multiple of {} bytes", at.0, of.bytes())));
        }
        Ok(GemmSide { at, leading: self.leading, stride: self.stride, transposed: self.transposed })
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        self.core.driver.release_blas(*self.handle.get_mut());
    }
}

impl std::fmt::Debug for Blas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Blas(cuBLAS {} on {})", self.version(), self.core)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrices(rows: usize, columns: usize, leading: usize, stride: usize) -> Matrices {
        Matrices { name: "A", rows, columns, leading, stride, transposed: false }
    }

    #[test]
    fn matrices_must_lie_in_their_memory() {
        let place = |matrices: Matrices, batch, bytes, offset| {
            matrices.side(BlasType::F64, batch, DevicePtr(0x1000), bytes, offset).map(|side| side.at.0)
        };
        assert_eq!(place(matrices(3, 4, 5, 0), 1, 8 * 14, 0).unwrap(), 0x1000);
        assert_eq!(place(matrices(3, 4, 5, 20), 2, 8 * 35, 1).unwrap(), 0x1008);
        assert!(place(matrices(3, 4, 5, 20), 2, 8 * 35 - 1, 1).is_err());
        assert!(place(matrices(3, 4, 3, 0), 1, 1 << 20, 0).unwrap_err().to_string().contains("less than a row"));
        assert!(place(matrices(3, 4, usize::MAX, 0), 1, 1 << 20, 0).is_err());
        assert!(place(matrices(3, 4, 4, usize::MAX), 3, 1 << 20, 0).is_err());
        assert!(place(matrices(1, 1, 1, 0), 1, 1 << 20, usize::MAX).is_err());
    }

    #[test]
    fn numbers_must_be_aligned() {
        let side = matrices(1, 1, 1, 0).side(BlasType::C128, 1, DevicePtr(0x1008), 64, 0);
        assert!(side.unwrap_err().to_string().contains("not a multiple of 16 bytes"));
    }
}
