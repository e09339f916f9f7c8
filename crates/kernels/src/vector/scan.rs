//! Prefix sums and products of each column.
//!
//! - inclusive: `out[i] = x[0] o .. o x[i]`
//! - exclusive: `out[i] = x[0] o .. o x[i - 1]`, `out[0]` the neutral element
//!
//! with o addition ([`prefix_sums`], which for an extension works coefficient by coefficient) or multiplication
//! ([`prefix_products`], over slabs, see [`crate::layout::slab`]).
//!
//! All columns take one launch, and each element is read and written once: tiles of 256 threads and 10 to 32 elements
//! per thread obtain the prefix before them from what other tiles publish (decoupled look-back), in memory that is
//! cleared before. Columns of one tile need no such memory. An element costs two operations o, and half of one more for
//! the scan among threads.

use std::marker::PhantomData;

use rigel_gpu::{Buffer, Error, Result, Shape, Stream, View, ViewMut};

use crate::code::{Instances, KernelFile, Operation};
use crate::field::{Element, Field};
use crate::layout::matrix::Matrix;
use crate::layout::slab::element_columns;

/// Whether a prefix includes the element at its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The prefix includes the element.
    Inclusive,
    /// The prefix ends before the element.
    Exclusive,
}

/// The prefix sums of each column.
pub fn prefix_sums<F: Field + Element<Base = F>>(
    stream: &Stream,
    matrix: &Matrix<F>,
    bound: Bound,
) -> Result<Matrix<F>> {
    let mut out = Matrix::alloc(stream, matrix.rows(), matrix.columns())?;
    prefix_sums_into(stream, out.values_mut().view_mut(), matrix, bound)?;
    Ok(out)
}

/// [`prefix_sums`] into columns of a matrix that exists already, which are as many and as long.
pub fn prefix_sums_into<F: Field + Element<Base = F>>(
    stream: &Stream,
    to: ViewMut<'_, F>,
    matrix: &Matrix<F>,
    bound: Bound,
) -> Result<()> {
    const NAME: &str = "scan::prefix_sums";
    let (columns, values) = (element_columns::<F>(NAME, matrix)?, matrix.values());
    if to.len() != values.len() {
        return Err(Error::shape(NAME, format!("{} prefix sums into room for {}", values.len(), to.len())));
    }
    Scan::<F, Plus>::run(stream, to, Some(values.view()), [matrix.rows(), columns], bound)
}

/// [`prefix_sums`] in place.
pub fn prefix_sums_assign<F: Field + Element<Base = F>>(
    stream: &Stream,
    matrix: &mut Matrix<F>,
    bound: Bound,
) -> Result<()> {
    let shape = [matrix.rows(), element_columns::<F>("scan::prefix_sums_assign", matrix)?];
    Scan::<F, Plus>::run(stream, matrix.values_mut().view_mut(), None, shape, bound)
}

/// The prefix products of each column.
pub fn prefix_products<E: Element>(
    stream: &Stream,
    matrix: &Matrix<E::Base>,
    bound: Bound,
) -> Result<Matrix<E::Base>> {
    let shape = [matrix.rows(), element_columns::<E>("scan::prefix_products", matrix)?];
    let mut out = Matrix::alloc(stream, matrix.rows(), matrix.columns())?;
    Scan::<E, Times>::run(stream, out.values_mut().view_mut(), Some(matrix.values().view()), shape, bound)?;
    Ok(out)
}

/// [`prefix_products`] in place.
pub fn prefix_products_assign<E: Element>(
    stream: &Stream,
    matrix: &mut Matrix<E::Base>,
    bound: Bound,
) -> Result<()> {
    let shape = [matrix.rows(), element_columns::<E>("scan::prefix_products_assign", matrix)?];
    Scan::<E, Times>::run(stream, matrix.values_mut().view_mut(), None, shape, bound)
}

/// An operation, as its type in `scan.cu`.
pub(crate) trait Operator: Send + Sync + 'static {
    const NAME: &'static str;
}

pub(crate) struct Plus;

impl Operator for Plus {
    const NAME: &'static str = "Plus";
}

pub(crate) struct Times;

impl Operator for Times {
    const NAME: &'static str = "Times";
}

/// Threads per block.
const THREADS: usize = 256;

/// Vectors of 16 bytes per thread and coefficient, and blocks per multiprocessor (which bounds the registers of a
/// thread): the fastest on an H200. Large tiles look back less often; those with an odd number of vectors per thread
/// need no padding in shared memory.
const fn plan(degree: usize) -> (usize, usize) {
    match degree {
        1 => (8, 5),
        2 => (5, 4),
        3 => (5, 2),
        _ => (3, 3),
    }
}

/// Prefixes of one element type with one operator.
pub(crate) struct Scan<E, O>(PhantomData<(E, O)>);

impl<E: Element, O: Operator> Operation for Scan<E, O> {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "vector/scan.cu",
        text: include_str!("scan.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64)],
    };

    fn instances((): ()) -> Instances {
        let (runs, blocks) = plan(E::DEGREE);
        let name = E::NAME;
        Instances::one(format!("scan<{name}, {}, {runs}, {blocks}>", O::NAME))
            .assert(format!("WARPS * sizeof(WarpTile<{name}, {runs}>) == {}", Self::SHARED))
            .assert(format!("Notice<{name}>::LENGTH == {}", Self::NOTICE))
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}

impl<E: Element, O: Operator> Scan<E, O> {
    const RUNS: usize = plan(E::DEGREE).0;
    const TILE: usize = THREADS * Self::RUNS * 16 / size_of::<E::Base>();
    /// Bytes of shared memory per tile: an odd number of vectors per thread and coefficient.
    const SHARED: usize = THREADS * (Self::RUNS | 1) * 16 * E::DEGREE;
    /// 64-bit words of a tile's notice: one for each 32 bits of an element.
    const NOTICE: usize = size_of::<E>() / 4;

    /// Scans columns of elements, of which both have as many words. Without a `from`, `out` is scanned in place.
    fn run(
        stream: &Stream,
        out: ViewMut<'_, E::Base>,
        from: Option<View<'_, E::Base>>,
        [rows, columns]: [usize; 2],
        bound: Bound,
    ) -> Result<()> {
        let tiles = rows.div_ceil(Self::TILE);
        let blocks = tiles.checked_mul(columns).and_then(|n| i32::try_from(n).ok()).ok_or_else(|| {
            Error::shape(
                "scan",
                format!("{columns} columns of {rows} rows exceed the limit of a launch; split the matrix"),
            )
        })?;
        let board = (tiles > 1).then(|| stream.zeros::<u64>(1 + blocks as usize * Self::NOTICE));
        let mut board = board.transpose()?;
        let board = board.as_mut().map(Buffer::view_mut);
        let exclusive = u32::from(bound == Bound::Exclusive);
        Self::kernel(stream.device(), ())?.launch(
            stream,
            Shape::new(blocks as u32, THREADS as u32).shared(Self::SHARED as u32),
            (out, from, rows as u64, tiles as u32, columns as u32, exclusive, board),
        )
    }
}
