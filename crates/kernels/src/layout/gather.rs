//! Values from many buffers, for opening a prover's queries.
//!
//! - [`words`]: value k of the result is `sources[s][i]` for the k-th pick [s, i], in any order
//! - [`rows_into`]: rows of matrices, matrix after matrix: with `indices` those that are read of one of them, row k of
//!   its part of the result, row-major, is row `indices[k]` of the matrix
//!
//! However many buffers there are, it takes one upload of the sources' addresses, one of the picks or indices, one
//! launch, and one download by the caller. Each value costs 32 bytes of device memory traffic per 32 bytes or part
//! thereof.

use rigel_gpu::{Buffer, Error, Plain, Result, Shape, Stream, View, ViewMut};

use crate::code::{Instances, KernelFile, Operation};

/// The values at `picks`, each the index of a source and an index in it, one after another as `width_words` words of
/// four bytes each: 1 for an element of a 31-bit field, 8 for a digest of 32 bytes. That must be the size of `T`.
///
/// The sources must stay allocated until this returns; the reads are then enqueued on the stream.
pub fn words<T: Plain>(
    stream: &Stream,
    sources: &[View<'_, T>],
    picks: &[[u32; 2]],
    width_words: usize,
) -> Result<Buffer<u32>> {
    const NAME: &str = "gather::words";
    if size_of::<T>() == 0 || width_words.checked_mul(4) != Some(size_of::<T>()) {
        return Err(Error::shape(
            NAME,
            format!(
                "values of {width_words} words of four bytes from sources of values of {} bytes",
                size_of::<T>()
            ),
        ));
    }
    let Some(words) = picks.len().checked_mul(width_words).and_then(|words| u32::try_from(words).ok()) else {
        return Err(Error::shape(
            NAME,
            format!("{} values of {width_words} words; at most 2^32 - 1 words are supported", picks.len()),
        ));
    };
    for &[source, index] in picks {
        let Some(values) = sources.get(source as usize) else {
            return Err(Error::shape(
                NAME,
                format!("source {source} does not exist; there are {}", sources.len()),
            ));
        };
        if index as usize >= values.len() {
            let detail = format!("value {index} does not exist in source {source}, which has {}", values.len());
            return Err(Error::shape(NAME, detail));
        }
    }
    let mut out = stream.alloc(words as usize)?;
    if words > 0 {
        let kernel = &Gather::kernels(stream.device(), ())?[0];
        let (addresses, picks) = (stream.addresses(sources)?, stream.upload(picks)?);
        let shape = Shape::cover(words as usize, THREADS)?;
        kernel.launch(stream, shape, (&mut out, &addresses, &picks, words, width_words as u32))?;
    }
    Ok(out)
}

/// Rows of a matrix of which [`rows_into`] reads some.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a, T: Plain> {
    /// Columns of `rows` values each, one after another.
    pub values: View<'a, T>,
    /// The number of rows of the matrix.
    pub rows: usize,
    /// The rows that are read, in any order, some perhaps several times.
    pub indices: &'a [u32],
}

impl<T: Plain> Rows<'_, T> {
    /// The number of values of a row.
    pub fn columns(&self) -> usize {
        self.values.len().checked_div(self.rows).unwrap_or(0)
    }

    /// The number of values of all rows that are read.
    pub fn len(&self) -> usize {
        self.indices.len() * self.columns()
    }

    /// Whether nothing is read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Rows of many matrices, one after another, matrix after matrix, into `out`, which has room for exactly these rows. A
/// value takes a multiple of four bytes. All rows must exist.
///
/// The matrices must stay allocated until this returns; the reads are then enqueued on the stream.
pub fn rows_into<T: Plain>(stream: &Stream, out: ViewMut<'_, T>, matrices: &[Rows<'_, T>]) -> Result<()> {
    const NAME: &str = "gather::rows_into";
    if size_of::<T>() == 0 || !size_of::<T>().is_multiple_of(4) {
        let detail = format!("values of {} bytes; the size must be a positive multiple of 4", size_of::<T>());
        return Err(Error::shape(NAME, detail));
    }
    for (number, matrix) in matrices.iter().enumerate() {
        check_rows(NAME, number, matrix)?;
    }
    let (total, width) = (matrices.iter().map(Rows::len).sum::<usize>(), size_of::<T>() / 4);
    if out.len() != total {
        let detail = format!("{total} values of {} matrices into room for {}", matrices.len(), out.len());
        return Err(Error::shape(NAME, detail));
    }
    let places = matrices.iter().map(|matrix| matrix.values).chain([out.view()]);
    if let Some(place) = places.map(|view| view.address()).find(|address| !address.is_multiple_of(4)) {
        return Err(Error::shape(NAME, format!("values at {place:#x}; the address must be a multiple of 4")));
    }
    let Some(words) = total.checked_mul(width).and_then(|words| u32::try_from(words).ok()) else {
        let detail = format!("{total} values of {width} words; at most 2^32 - 1 words are supported");
        return Err(Error::shape(NAME, detail));
    };
    let matrices: Vec<Rows<'_, T>> = matrices.iter().copied().filter(|matrix| !matrix.is_empty()).collect();
    if matrices.is_empty() {
        return Ok(());
    }
    // The matrices, then the indices of all of them. Each matrix has at least as many values as indices in the result,
    // so that all numbers are below 2^32.
    let (mut first_value, mut first_index) = (0, 0);
    let mut list = Vec::with_capacity(matrices.iter().map(|matrix| DESCRIPTION + matrix.indices.len()).sum());
    for matrix in &matrices {
        list.extend([first_value, matrix.columns(), matrix.rows, first_index].map(|number| number as u32));
        first_value += matrix.len();
        first_index += matrix.indices.len();
    }
    matrices.iter().for_each(|matrix| list.extend(matrix.indices));
    let list = stream.upload(&list)?;
    let sources: Vec<View<'_, T>> = matrices.iter().map(|matrix| matrix.values).collect();
    let (addresses, count) = (stream.addresses(&sources)?, matrices.len() as u32);
    let arguments = (out, &addresses, &list, count, words, width as u32);
    Gather::kernels(stream.device(), ())?[1].launch(stream, Shape::cover(words as usize, THREADS)?, arguments)
}

/// Checks that a matrix is whole and has the rows that are read of it.
fn check_rows<T: Plain>(operation: &'static str, number: usize, matrix: &Rows<'_, T>) -> Result<()> {
    let Rows { values, rows, indices } = matrix;
    if values.is_empty() || matrix.columns() * rows != values.len() || u32::try_from(*rows).is_err() {
        let detail = format!(
            "matrix {number} has {} values and {rows} rows; there must be one column or more, all whole, and at most \
             2^32 - 1 rows",
            values.len()
        );
        return Err(Error::shape(operation, detail));
    }
    match indices.iter().find(|&&index| index as usize >= *rows) {
        Some(index) => Err(Error::shape(
            operation,
            format!("row {index} does not exist in matrix {number}, which has {rows} rows"),
        )),
        None => Ok(()),
    }
}

/// The numbers that describe a matrix to the kernel.
const DESCRIPTION: usize = 4;

/// Threads per block.
const THREADS: u32 = 256;

pub(crate) struct Gather;

impl Operation for Gather {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "layout/gather.cu",
        text: include_str!("gather.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64)],
    };

    fn instances((): ()) -> Instances {
        Instances::new(["gather_words", "gather_rows"])
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}
