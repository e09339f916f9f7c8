//! Digests of rows.
//!
//! - [`hash`]: digest r is the hash of row r of all matrices, concatenated
//! - [`hash_matrix_into`]: the same for one matrix in natural or bit-reversed order, into an existing buffer
//! - [`hash_packed`]: digest r is the hash of the 2^k rows of one matrix starting at row 2^k r, concatenated: the
//!   leaves of FRI trees, where a column of extension elements is committed several elements at a time
//! - [`RowsInParts`]: the same as [`hash`] for one matrix whose columns arrive in parts
//!
//! One row per thread, or per two threads where there are few rows and the hash can be shared
//! ([`Hash::ROW_PAIRS`](crate::hash::Hash::ROW_PAIRS)). Each element is read once, with coalesced loads; the cost is
//! that of the permutations, one per message block (for Keccak 34 elements of 31 bits or 17 of Goldilocks, for Blake2s
//! 16, for Poseidon2 the rate). Digests are stored one after the other. `on` is a stream, or a stream and a hash with
//! constants of its own: see [`Hashing`].

use std::marker::PhantomData;

use rigel_gpu::{Argument, Buffer, Error, Result, Shape, Stream, ViewMut};

use crate::code::{Instances, KernelFile, Operation};
use crate::field::Field;
use crate::hash::{Hashing, RowHash, Sponge, also, declare};
use crate::layout::columns::{self, Column, Columns};
use crate::layout::matrix::log2_rows;
use crate::transform::ntt::Order;

/// Threads per block: few, so that the last blocks of a launch finish close together and a small number of rows is
/// spread over the device.
pub(crate) const THREADS: u32 = 64;

/// The maximum number of rows per multiprocessor that two threads hash together: then every scheduler has a warp. From
/// twice as many rows on, all schedulers are as busy with one thread per row.
const PAIRS: usize = 64;

/// The maximum number of rows per launch, as a logarithm.
pub(crate) const MAX_LOG_ROWS: u32 = 31;

/// The maximum number of columns of a matrix whose rows are packed.
const MAX_PACKED_COLUMNS: usize = 32;

/// The digests of the rows of `matrices`, all of one height, a power of two; a row is the concatenation of their rows.
pub fn hash<'a, H: RowHash<F>, F: Field>(
    on: impl Into<Hashing<'a, H>>,
    matrices: &[Columns<'_, F>],
) -> Result<Buffer<H::Digest>> {
    const NAME: &str = "rows::hash";
    let on = on.into();
    let Some(first) = matrices.first() else {
        return Err(Error::shape(NAME, "no matrices given; there must be at least one (it may have no columns)"));
    };
    let rows = first.rows();
    if let Some(other) = matrices.iter().find(|matrix| matrix.rows() != rows) {
        return Err(Error::shape(
            NAME,
            format!("matrices of {rows} and of {} rows; all must have the same number", other.rows()),
        ));
    }
    check_rows(NAME, rows)?;
    let mut digests = on.stream().alloc(rows)?;
    hash_into::<H, F>(on, digests.view_mut(), matrices)?;
    Ok(digests)
}

/// The digests of the rows of one matrix whose rows, a power of two, are stored in the given order. Digest r is the
/// hash of row r in either.
pub fn hash_matrix_into<H: RowHash<F>, F: Field>(
    stream: &Stream,
    digests: ViewMut<'_, H::Digest>,
    matrix: Columns<'_, F>,
    order: Order,
) -> Result<()> {
    const NAME: &str = "rows::hash_matrix_into";
    let log_rows = check_rows(NAME, matrix.rows())?;
    if digests.len() != matrix.rows() {
        let detail = format!("{} rows into room for {} digests", matrix.rows(), digests.len());
        return Err(Error::shape(NAME, detail));
    }
    match order {
        Order::Natural => launch::<H, F>(stream, digests, Row::Matrix, matrix.values(), matrix.columns()),
        Order::BitReversed => ReversedRows::<H, F>::kernel(stream.device(), ())?.launch(
            stream,
            Shape::cover(matrix.rows(), THREADS)?,
            (digests, matrix.values(), log_rows, matrix.columns() as u32),
        ),
    }
}

/// Hashes rows as [`hash`] does, into an existing buffer, for matrices already known to have the right number of
/// rows.
pub(crate) fn hash_into<'a, H: RowHash<F>, F: Field>(
    on: impl Into<Hashing<'a, H>>,
    digests: ViewMut<'_, H::Digest>,
    matrices: &[Columns<'_, F>],
) -> Result<()> {
    let on = on.into();
    match matrices.iter().filter(|matrix| matrix.columns() > 0).collect::<Vec<_>>()[..] {
        [] => launch::<H, F>(on, digests, Row::Matrix, matrices[0].values(), 0),
        [matrix] => launch::<H, F>(on, digests, Row::Matrix, matrix.values(), matrix.columns()),
        ref several => {
            let several: Vec<_> = several.iter().map(|&&matrix| (matrix, 0)).collect();
            let list = columns::list(on.stream(), &several)?;
            launch::<H, F>(on, digests, Row::Joined, list.part(..)?, list.len())
        }
    }
}

/// Rows whose columns arrive in parts: their hash states between two parts.
///
/// A part is a whole number of [`blocks`](Self::block) of columns; pass the remaining columns to
/// [`MerkleTree::from_parts`](crate::commit::merkle::MerkleTree::from_parts). Each part reads and writes all states
/// once.
pub struct RowsInParts<H: Sponge> {
    states: Buffer<u64>,
    rows: usize,
    resumed: bool,
    /// A hash with constants of its own.
    hash: Option<H>,
}

impl<H: Sponge> RowsInParts<H> {
    /// Initial states for this many rows, a power of two.
    pub fn new<'a>(on: impl Into<Hashing<'a, H>>, rows: usize) -> Result<Self> {
        let on = on.into();
        check_rows("RowsInParts::new", rows)?;
        let states = on.stream().alloc(rows * H::STATE_BYTES / 8)?;
        Ok(Self { states, rows, resumed: false, hash: on.hash().cloned() })
    }

    /// A stream with the hash of these rows.
    pub(crate) fn on<'a>(&'a self, stream: &'a Stream) -> Hashing<'a, H> {
        Hashing::new(stream, self.hash.as_ref())
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns per block.
    pub fn block<F: Field>() -> usize {
        H::BLOCK_BYTES / size_of::<F>()
    }

    /// Hashes the next columns, a whole number of blocks of them.
    pub fn absorb<F: Field>(&mut self, stream: &Stream, columns: Columns<'_, F>) -> Result<()>
    where
        H: RowHash<F>,
    {
        const NAME: &str = "RowsInParts::absorb";
        self.check_height(NAME, columns)?;
        if !columns.columns().is_multiple_of(Self::block::<F>()) {
            let detail = format!(
                "{} columns; the number must be a multiple of the block size {}",
                columns.columns(),
                Self::block::<F>()
            );
            return Err(Error::shape(NAME, detail));
        }
        let constants = self.on(stream).row_constants()?;
        let arguments = (
            &mut self.states,
            columns.values(),
            self.rows as u64,
            columns.columns() as u32,
            u32::from(self.resumed),
            constants,
        );
        self.resumed = true;
        RowParts::<H, F>::kernel(stream.device(), PartKernel::Absorb)?.launch(
            stream,
            Shape::cover(self.rows, THREADS)?,
            arguments,
        )
    }

    /// Hashes the last columns, any number. The digests of the rows, for
    /// [`MerkleTree::from_digests`](crate::commit::merkle::MerkleTree::from_digests).
    pub fn finish<F: Field>(&self, stream: &Stream, columns: Columns<'_, F>) -> Result<Buffer<H::Digest>>
    where
        H: RowHash<F>,
    {
        let mut digests = stream.alloc(self.rows)?;
        self.finish_into(stream, digests.view_mut(), columns)?;
        Ok(digests)
    }

    /// Hashes the last columns, any number, and writes the digests.
    pub(crate) fn finish_into<F: Field>(
        &self,
        stream: &Stream,
        digests: ViewMut<'_, H::Digest>,
        columns: Columns<'_, F>,
    ) -> Result<()>
    where
        H: RowHash<F>,
    {
        self.check_height("MerkleTree::from_parts", columns)?;
        if !self.resumed {
            return hash_into::<H, F>(self.on(stream), digests, &[columns]);
        }
        let constants = self.on(stream).row_constants()?;
        let (rows, elements) = (self.rows as u64, columns.columns() as u32);
        let arguments = (digests, &self.states, columns.values(), rows, elements, constants);
        RowParts::<H, F>::kernel(stream.device(), PartKernel::Finish)?.launch(
            stream,
            Shape::cover(self.rows, THREADS)?,
            arguments,
        )
    }

    fn check_height<F: Field>(&self, operation: &'static str, columns: Columns<'_, F>) -> Result<()> {
        if columns.rows() != self.rows {
            let detail = format!("columns of {} rows; the parts before had {}", columns.rows(), self.rows);
            return Err(Error::shape(operation, detail));
        }
        Ok(())
    }
}

/// The digests of groups of 2^`log_packed` rows of a matrix of a few columns.
pub fn hash_packed<'a, H: RowHash<F>, F: Field>(
    on: impl Into<Hashing<'a, H>>,
    matrix: Columns<'_, F>,
    log_packed: u32,
) -> Result<Buffer<H::Digest>> {
    let on = on.into();
    let mut digests = on.stream().alloc(packed_rows("rows::hash_packed", matrix, log_packed)?)?;
    hash_packed_into::<H, F>(on, digests.view_mut(), matrix)?;
    Ok(digests)
}

/// Checks that rows can be packed, and returns the number of packed rows.
pub(crate) fn packed_rows<F: Field>(
    operation: &'static str,
    matrix: Columns<'_, F>,
    log_packed: u32,
) -> Result<usize> {
    let log_rows = check_rows(operation, matrix.rows())?;
    if log_packed > log_rows {
        return Err(Error::shape(
            operation,
            format!("cannot pack 2^{log_packed} rows at a time of a matrix of {} rows", matrix.rows()),
        ));
    }
    if !(1..=MAX_PACKED_COLUMNS).contains(&matrix.columns()) {
        return Err(Error::shape(
            operation,
            format!("packed rows of {} columns; there must be from 1 to {MAX_PACKED_COLUMNS}", matrix.columns()),
        ));
    }
    Ok(matrix.rows() >> log_packed)
}

/// Hashes packed rows as [`hash_packed`] does, into an existing buffer, for a matrix that [`packed_rows`] has
/// accepted.
pub(crate) fn hash_packed_into<'a, H: RowHash<F>, F: Field>(
    on: impl Into<Hashing<'a, H>>,
    digests: ViewMut<'_, H::Digest>,
    matrix: Columns<'_, F>,
) -> Result<()> {
    let elements = matrix.values().len() / digests.len();
    let row = Row::Packed { columns: matrix.columns() as u32 };
    launch::<H, F>(on, digests, row, matrix.values(), elements)
}

/// The logarithm of a number of rows, checked to fit one launch.
pub(crate) fn check_rows(operation: &'static str, rows: usize) -> Result<u32> {
    let log_rows = log2_rows(operation, rows)?;
    if log_rows > MAX_LOG_ROWS {
        return Err(Error::shape(operation, format!("2^{log_rows} rows; at most 2^{MAX_LOG_ROWS} are supported")));
    }
    Ok(log_rows)
}

fn launch<'a, H: RowHash<F>, F: Field>(
    on: impl Into<Hashing<'a, H>>,
    digests: ViewMut<'_, H::Digest>,
    row: Row,
    source: impl Argument,
    elements: usize,
) -> Result<()> {
    let on = on.into();
    let elements = u32::try_from(elements).map_err(|_| {
        Error::shape("rows", format!("rows of {elements} elements; at most 2^32 - 1 are supported"))
    })?;
    let rows = digests.len();
    let device = on.stream().device();
    if H::ROW_PAIRS.is_some() && rows <= PAIRS * device.properties().multiprocessors as usize {
        let arguments = (digests, source, rows as u64, elements);
        return PairedRows::<H, F>::kernel(device, row)?.launch(
            on.stream(),
            Shape::cover(2 * rows, THREADS)?,
            arguments,
        );
    }
    Rows::<H, F>::kernel(device, row)?.launch(
        on.stream(),
        Shape::cover(rows, THREADS)?,
        (digests, source, rows as u64, elements, on.row_constants()?),
    )
}

/// The location of a row's elements: a row type of `rows.cu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Row {
    /// The elements are those of a row of one matrix.
    Matrix,
    /// The elements are in a list of columns of one length.
    Joined,
    /// The elements are those of several adjacent rows of a matrix of this many columns.
    Packed { columns: u32 },
}

impl Row {
    /// The C++ type of rows over this field.
    fn type_name<F: Field>(self) -> String {
        match self {
            Self::Matrix => format!("MatrixRow<{}>", F::NAME),
            Self::Joined => format!("JoinedRow<{}>", F::NAME),
            Self::Packed { columns } => format!("PackedRow<{}, {columns}>", F::NAME),
        }
    }
}

const FILE: KernelFile = KernelFile {
    path: "commit/rows.cu",
    text: include_str!("rows.cu"),
    constants: &[("BLOCK_THREADS", THREADS as u64)],
};

/// Whole rows; one module per row type.
pub(crate) struct Rows<H, F>(PhantomData<(H, F)>);

impl<H: RowHash<F>, F: Field> Operation for Rows<H, F> {
    type Variant = Row;

    const FILE: KernelFile = FILE;

    fn instances(row: Row) -> Instances {
        let name = format!("hash_rows<{}, {}{} >", H::ROWS, row.type_name::<F>(), also(H::ROW_CONSTANTS));
        declare::<H>(Instances::one(name)).takes::<Column>()
    }

    /// Rows of one matrix and of several.
    fn warmed() -> Vec<Row> {
        vec![Row::Matrix, Row::Joined]
    }

    /// Packed rows of elements of up to four coefficients.
    fn on_demand() -> Vec<Row> {
        (1..=4).map(|columns| Row::Packed { columns }).collect()
    }
}

/// Few whole rows, for hashes that two threads share; one module per row type.
pub(crate) struct PairedRows<H, F>(PhantomData<(H, F)>);

impl<H: RowHash<F>, F: Field> Operation for PairedRows<H, F> {
    type Variant = Row;

    const FILE: KernelFile = FILE;

    fn instances(row: Row) -> Instances {
        let pair = H::ROW_PAIRS.expect("only hashes with pairs of threads have these kernels");
        declare::<H>(Instances::one(format!("hash_rows_in_pairs<{pair}, {} >", row.type_name::<F>())))
            .takes::<Column>()
    }

    fn warmed() -> Vec<Row> {
        if H::ROW_PAIRS.is_some() { Rows::<H, F>::warmed() } else { Vec::new() }
    }

    fn on_demand() -> Vec<Row> {
        if H::ROW_PAIRS.is_some() { Rows::<H, F>::on_demand() } else { Vec::new() }
    }
}

/// Rows of one matrix in bit-reversed order.
pub(crate) struct ReversedRows<H, F>(PhantomData<(H, F)>);

impl<H: RowHash<F>, F: Field> Operation for ReversedRows<H, F> {
    type Variant = ();

    const FILE: KernelFile = FILE;

    fn instances((): ()) -> Instances {
        Instances::one(format!("hash_reversed_rows<{}, {}>", H::ROWS, F::NAME)).with_header(H::HEADER)
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}

/// Rows of one matrix that arrive in parts.
pub(crate) struct RowParts<H, F>(PhantomData<(H, F)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PartKernel {
    Absorb,
    Finish,
}

impl<H: RowHash<F> + Sponge, F: Field> Operation for RowParts<H, F> {
    type Variant = PartKernel;

    const FILE: KernelFile = FILE;

    fn instances(kernel: PartKernel) -> Instances {
        let name = match kernel {
            PartKernel::Absorb => "absorb_rows",
            PartKernel::Finish => "finish_rows",
        };
        let hash = H::ROWS;
        let row = Row::Matrix.type_name::<F>();
        declare::<H>(Instances::one(format!("{name}<{hash}, {row}{} >", also(H::ROW_CONSTANTS))))
            .assert(format!("{hash}::STATE_WORDS * sizeof({hash}::Word) == {}", H::STATE_BYTES))
    }

    fn warmed() -> Vec<PartKernel> {
        Vec::new()
    }

    fn on_demand() -> Vec<PartKernel> {
        vec![PartKernel::Absorb, PartKernel::Finish]
    }
}
