//! Matrix products over any element type: `C[i, j]` = sum over l of `A[i, l] B[l, j]`, for an m x k matrix A and a
//! k x n matrix B, and for each matrix of a batch. C is row-major and without gaps; A and B have any strides.
//!
//! The types are those of [`TYPES`]: floating-point and complex numbers (with fused multiply-add), integers (which wrap
//! around), and every field and extension. The coefficients of an extension element are contiguous here, not in a slab.
//!
//! | product | kernel | cost |
//! |---|---|---|
//! | general | tiles through shared memory, 4 to 64 results per thread | m n k products |
//! | m and n at most 32, k at most 64 | one thread per result | 2 m n k reads, from caches |
//! | m or n at most 4 | one matrix-vector product for each | the matrix is read once per vector |
//!
//! If there are too few results to fill the device, the sum over l is split into parts, which are added at the end in a
//! fixed order: the result does not depend on timing.
//!
//! A product over a 31-bit field costs one wide multiplication and half a correction; one over Goldilocks four wide
//! multiplications and four carries. Reductions are done at the end. A product over an extension of degree D costs D^2
//! of these.

use rigel_gpu::{Error, Result, Stream, View, ViewMut};

pub(crate) use launch::Matmul;
use launch::{Product, Vectors};

mod launch;

const NAME: &str = "matmul::multiply";

/// The maximum rows and columns, and the maximum terms, of a product that counts as small.
const SMALL: usize = 32;
const SHORT: usize = 64;

/// The most rows or columns of a product each of which is multiplied as a vector.
const FEW: usize = 4;

/// A type of element.
#[derive(Debug)]
pub(super) struct Type {
    pub(super) name: &'static str,
    pub(super) bytes: usize,
    /// Rows and columns of a tile.
    tile: [usize; 2],
    pub(super) is_field: bool,
}

const fn number(name: &'static str, bytes: usize, tile: [usize; 2]) -> Type {
    Type { name, bytes, tile, is_field: false }
}

const fn field(name: &'static str, bytes: usize, tile: [usize; 2]) -> Type {
    Type { name, bytes, tile, is_field: true }
}

/// The tile sizes are those of `Dot<T>` in `dot.cuh`, which is checked when a product is compiled.
const KNOWN: [Type; 17] = [
    number("float", 4, [128, 128]),
    number("double", 8, [128, 64]),
    number("Complex", 16, [64, 64]),
    number("i32", 4, [128, 128]),
    number("u32", 4, [128, 128]),
    number("i64", 8, [128, 64]),
    number("u64", 8, [128, 64]),
    field("Mersenne31", 4, [128, 64]),
    field("BabyBear", 4, [128, 64]),
    field("KoalaBear", 4, [128, 64]),
    field("Goldilocks", 8, [64, 32]),
    field("CM31", 8, [64, 64]),
    field("QM31", 16, [64, 32]),
    field("BabyBear4", 16, [64, 32]),
    field("KoalaBear4", 16, [64, 32]),
    field("Goldilocks2", 16, [32, 32]),
    field("Goldilocks3", 24, [32, 32]),
];

/// The supported types, by their C++ names: `Complex` is two `double`, real part first; fields have the names in
/// [`Ring::NAME`](crate::field::Ring::NAME).
pub const TYPES: [&str; KNOWN.len()] = {
    let mut names = [""; KNOWN.len()];
    let mut i = 0;
    while i < KNOWN.len() {
        names[i] = KNOWN[i].name;
        i += 1;
    }
    names
};

/// The sizes of a product: C (m x n) = A (m x k) B (k x n), `batch` times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// The number of products.
    pub batch: usize,
}

/// A factor in device memory. Offset and strides count elements; a stride may be zero or negative.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// The memory; the first element must be aligned to its size (to 8 for 24 bytes).
    pub memory: View<'a, u8>,
    /// The index of the element in the first row and column of the first matrix.
    pub offset: usize,
    /// The distance from one product's matrix to the next; 0 uses the same one for all.
    pub batch_stride: isize,
    /// The distance from a row to the next.
    pub row_stride: isize,
    /// The distance from a column to the next.
    pub column_stride: isize,
}

impl<'a> Operand<'a> {
    /// Row-major matrices without gaps, `rows` x `columns` each.
    pub fn rows(memory: View<'a, u8>, rows: usize, columns: usize) -> Self {
        let (row, batch) = (columns as isize, rows.saturating_mul(columns) as isize);
        Self { memory, offset: 0, batch_stride: batch, row_stride: row, column_stride: 1 }
    }

    /// The transposes of these matrices.
    pub fn transposed(self) -> Self {
        Self { row_stride: self.column_stride, column_stride: self.row_stride, ..self }
    }

    /// The memory starting at the first element, after checking that it contains every element.
    fn checked(self, name: &str, of: &Type, [batch, rows, columns]: [usize; 3]) -> Result<View<'a, u8>> {
        let (mut first, mut last) = (self.offset as i128, self.offset as i128);
        let axes = [(batch, self.batch_stride), (rows, self.row_stride), (columns, self.column_stride)];
        for (length, stride) in axes {
            let reach = (length as i128 - 1) * stride as i128;
            first += reach.min(0);
            last += reach.max(0);
        }
        let elements = self.memory.len() / of.bytes;
        if first < 0 || last >= elements as i128 {
            let detail = format!(
                "{name} ({batch} of {rows} x {columns}) takes elements {first} to {last} of memory that \
                 holds {elements} of {}",
                of.name
            );
            return Err(Error::shape(NAME, detail));
        }
        aligned(name, of, self.memory)?;
        self.memory.range(self.offset * of.bytes..)
    }
}

/// Checks that elements are aligned for single accesses.
fn aligned(name: &str, of: &Type, memory: View<'_, u8>) -> Result<()> {
    let alignment = if of.bytes == 24 { 8 } else { of.bytes as u64 };
    if memory.address().is_multiple_of(alignment) {
        return Ok(());
    }
    let detail = format!("{name} lies at {:#x}, which is not a multiple of {alignment} bytes", memory.address());
    Err(Error::shape(NAME, format!("{detail}; copy it to a new allocation first")))
}

/// The type with this C++ name.
pub(super) fn known(operation: &'static str, name: &str) -> Result<&'static Type> {
    KNOWN.iter().find(|known| known.name == name).ok_or_else(|| {
        Error::shape(operation, format!("unsupported element type {name:?}; supported: {}", TYPES.join(", ")))
    })
}

/// Enqueues C = A B over the type `of`, one of [`TYPES`]; `out` receives the matrices C one after another, each
/// row-major, and has exactly their size. An empty sum (k = 0) gives zeros.
pub fn multiply(
    stream: &Stream,
    of: &str,
    sizes: Sizes,
    a: Operand<'_>,
    b: Operand<'_>,
    out: ViewMut<'_, u8>,
) -> Result<()> {
    let of = known(NAME, of)?;
    let Sizes { m, n, k, batch } = sizes;
    let results = m.checked_mul(n).and_then(|results| results.checked_mul(batch));
    if results.and_then(|results| results.checked_mul(of.bytes)) != Some(out.len()) {
        let detail =
            format!("{batch} results of {m} x {n} of {} do not match an output of {} bytes", of.name, out.len());
        return Err(Error::shape(NAME, detail));
    }
    if out.is_empty() {
        return Ok(());
    }
    aligned("C", of, out.view())?;
    if k == 0 {
        return stream.fill_bytes(out, 0);
    }
    if let Some(size) = [m, n, k, batch].into_iter().find(|&size| size > i32::MAX as usize) {
        return Err(Error::shape(NAME, format!("a size of {size}; at most 2^31 - 1 is supported")));
    }
    let (left, right) = (a.checked("A", of, [batch, m, k])?, b.checked("B", of, [batch, k, n])?);
    let product = Product { stream, of, sizes, results: m * n * batch };
    let strides =
        [&a, &b].map(|factor| [factor.batch_stride, factor.row_stride, factor.column_stride].map(|s| s as i64));
    if m <= SMALL && n <= SMALL && k <= SHORT {
        product.one_by_one(out, left, right, strides)
    } else if n <= FEW && n <= m {
        product.by_vectors(
            out,
            left,
            right,
            Vectors {
                matrix_batch: a.batch_stride as i64,
                matrix_row: a.row_stride as i64,
                matrix_term: a.column_stride as i64,
                vector_batch: b.batch_stride as i64,
                vector_step: b.column_stride as i64,
                vector_term: b.row_stride as i64,
                out_vector: 1,
                out_row: n as u64,
                rows: m as u32,
                vectors: n as u32,
                ..product.vectors()
            },
        )
    } else if m <= FEW {
        product.by_vectors(
            out,
            right,
            left,
            Vectors {
                matrix_batch: b.batch_stride as i64,
                matrix_row: b.column_stride as i64,
                matrix_term: b.row_stride as i64,
                vector_batch: a.batch_stride as i64,
                vector_step: a.row_stride as i64,
                vector_term: a.column_stride as i64,
                out_vector: n as u64,
                out_row: 1,
                rows: n as u32,
                vectors: m as u32,
                ..product.vectors()
            },
        )
    } else {
        product.by_tiles(out, left, right, strides)
    }
}
