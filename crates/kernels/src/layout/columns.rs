//! Columns of equal length stored one after the other in device memory, and lists of columns for kernels that read
//! across several matrices.

use std::ops::RangeBounds;

use rigel_gpu::{Argument, ArgumentList, Arguments, Buffer, Error, Result, Shape, Stream, View, ViewMut};

use crate::code::{Instances, KernelFile, Operation, parameters};
use crate::field::Field;
use crate::layout::matrix::Matrix;

/// A read-only view of a matrix, or of some adjacent columns of one.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a, F: Field> {
    values: View<'a, F>,
    rows: usize,
    columns: usize,
}

impl<'a, F: Field> Columns<'a, F> {
    /// Columns of `rows` values each.
    pub fn new(values: View<'a, F>, rows: usize) -> Result<Self> {
        if rows == 0 || !values.len().is_multiple_of(rows) {
            return Err(Error::shape(
                "Columns::new",
                format!("{} values; the number must be a multiple of the {rows} rows of a column", values.len()),
            ));
        }
        Ok(Self { values, rows, columns: values.len() / rows })
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// All values, column after column.
    pub fn values(&self) -> View<'a, F> {
        self.values
    }
}

impl<'a, F: Field> From<&'a Matrix<F>> for Columns<'a, F> {
    fn from(matrix: &'a Matrix<F>) -> Self {
        Self { values: matrix.values().view(), rows: matrix.rows(), columns: matrix.columns() }
    }
}

parameters! {
    /// An entry of a list: a column's address, and how much shorter it is than the longest, as a logarithm.
    pub(crate) struct Column = "Column" => {
        values: u64,
        log_ratio: u64,
    }
}

/// The maximum number of matrices per launch, and the threads per block.
const BATCH: usize = 16;
const THREADS: u32 = 128;

parameters! {
    /// The offset of each matrix's columns in the list, their number, and their length in bytes.
    #[derive(Default)]
    struct Pieces = "Pieces" => {
        stride: [u64; BATCH],
        first: [u32; BATCH],
        columns: [u32; BATCH],
        log_ratio: [u32; BATCH],
    }
}

/// The arguments of one launch: an address for each matrix of a full batch. Those beyond the last matrix are not read.
struct Listing<'a, F: Field> {
    list: ViewMut<'a, Column>,
    pieces: Pieces,
    matrices: [View<'a, F>; BATCH],
}

impl<F: Field> Arguments for Listing<'_, F> {
    fn push_all<'a>(&'a self, arguments: &mut ArgumentList<'a>) {
        self.list.push(arguments);
        self.pieces.push(arguments);
        self.matrices.iter().for_each(|matrix| matrix.push(arguments));
    }
}

/// A list of columns on the device. A launch that takes a [part](Self::part) of it counts as a use of all matrices.
pub(crate) struct ColumnList<'a, F: Field> {
    list: Buffer<Column>,
    matrices: Vec<View<'a, F>>,
}

impl<F: Field> ColumnList<'_, F> {
    /// The number of columns.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Some of its entries, as a kernel's argument.
    pub(crate) fn part(&self, columns: impl RangeBounds<usize>) -> Result<ListPart<'_, F>> {
        Ok(ListPart { entries: self.list.range(columns)?, matrices: &self.matrices })
    }
}

/// Entries of a [`ColumnList`].
pub(crate) struct ListPart<'a, F: Field> {
    entries: View<'a, Column>,
    matrices: &'a [View<'a, F>],
}

impl<F: Field> Argument for ListPart<'_, F> {
    fn push<'a>(&'a self, arguments: &mut ArgumentList<'a>) {
        self.entries.push(arguments);
        self.matrices.iter().for_each(|matrix| arguments.reads(*matrix));
    }
}

/// The list of all columns of `matrices`, in order, each with the ratio given for its matrix.
///
/// It is built on the device, so that it can be part of a graph.
pub(crate) fn list<'a, F: Field>(
    stream: &Stream,
    matrices: &[(Columns<'a, F>, u32)],
) -> Result<ColumnList<'a, F>> {
    let total = matrices.iter().map(|(matrix, _)| matrix.columns).sum();
    let mut list = stream.alloc::<Column>(total)?;
    let kernel = ListColumns::kernel(stream.device(), ())?;
    let mut first = 0;
    for batch in matrices.chunks(BATCH) {
        let mut pieces = Pieces::default();
        for (i, (matrix, log_ratio)) in batch.iter().enumerate() {
            pieces.stride[i] = (matrix.rows * size_of::<F>()) as u64;
            pieces.first[i] = first;
            pieces.columns[i] = matrix.columns as u32;
            pieces.log_ratio[i] = *log_ratio;
            first += matrix.columns as u32;
        }
        let matrices = std::array::from_fn(|i| batch[i.min(batch.len() - 1)].0.values);
        let listing = Listing { list: list.view_mut(), pieces, matrices };
        kernel.launch(stream, Shape::new(batch.len() as u32, THREADS), listing)?;
    }
    Ok(ColumnList { list, matrices: matrices.iter().map(|(matrix, _)| matrix.values).collect() })
}

pub(crate) struct ListColumns;

impl Operation for ListColumns {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "layout/columns.cu",
        text: include_str!("columns.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64), ("BATCH", BATCH as u64)],
    };

    fn instances((): ()) -> Instances {
        Instances::one("list_columns").takes::<Pieces>().takes::<Column>()
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}
