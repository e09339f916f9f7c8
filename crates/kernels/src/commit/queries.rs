//! Rows of a committed matrix with their Merkle paths, for a tree that is stored as a heap.
//!
//! For each index i, in order: the values of row i, then the siblings on the path from leaf i upwards, as many as
//! `levels` says. Of the heap's digests, node 1 is the root, the children of node k are nodes 2k and 2k + 1, and leaf i
//! is node `rows + i`; this is how RISC Zero lays out its trees.
//!
//! One launch for all indices; each value is a read of 32 bytes of memory.

use rigel_gpu::{Error, Plain, Result, Shape, Stream, View, ViewMut};

use crate::code::{Instances, KernelFile, Operation};
use crate::field::Field;
use crate::layout::columns::Columns;
use crate::layout::grid::column_batches;
use crate::layout::matrix::log2_rows;
use crate::transform::ntt::Order;

/// The number of words for each index.
pub fn query_words(columns: usize, levels: u32) -> usize {
    columns + 8 * levels as usize
}

/// Writes the rows and paths of `indices` to `out`, which has room for exactly these. The field's words and the
/// digests' are 32 bits wide.
pub fn open_into<F: Field<Word = u32>, D: Plain>(
    stream: &Stream,
    mut out: ViewMut<'_, F>,
    matrix: Columns<'_, F>,
    order: Order,
    tree: View<'_, D>,
    levels: u32,
    indices: &[u32],
) -> Result<()> {
    const NAME: &str = "queries::open_into";
    let (rows, columns) = (matrix.rows(), matrix.columns());
    let log_rows = log2_rows(NAME, rows)?;
    let words = query_words(columns, levels);
    if size_of::<D>() != 32 || tree.len() != 2 * rows || levels > log_rows || log_rows > 31 {
        let detail = format!(
            "{levels} levels of a tree of {} digests of {} bytes over {rows} rows; a heap has two digests of 32 bytes \
             a row",
            tree.len(),
            size_of::<D>()
        );
        return Err(Error::shape(NAME, detail));
    }
    if let Some(index) = indices.iter().find(|&&index| index as usize >= rows) {
        return Err(Error::shape(NAME, format!("row {index} does not exist; the matrix has {rows} rows")));
    }
    if out.len() != indices.len() * words {
        let detail = format!("{} queries of {words} words into room for {}", indices.len(), out.len());
        return Err(Error::shape(NAME, detail));
    }
    let indices = stream.upload(indices)?;
    let kernel = Queries::kernel(stream.device(), ())?;
    for batch in column_batches(indices.len()) {
        let shape = Shape::cover(words, THREADS)?.rows(batch.len() as u32);
        let to = out.reborrow().range(batch.start * words..batch.end * words)?;
        let reversed = u32::from(order == Order::BitReversed);
        let indices = indices.range(batch)?;
        let arguments =
            (to, matrix.values(), tree, indices, rows as u64, log_rows, columns as u32, levels, reversed);
        kernel.launch(stream, shape, arguments)?;
    }
    Ok(())
}

/// Threads per block.
const THREADS: u32 = 128;

pub(crate) struct Queries;

impl Operation for Queries {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "commit/queries.cu",
        text: include_str!("queries.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64)],
    };

    fn instances((): ()) -> Instances {
        Instances::one("open_queries")
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}
