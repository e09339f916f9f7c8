//! Columns that are contiguous in memory.

use rigel_gpu::{Buffer, Error, Result, View};
use rigel_kernels::Matrix;
use rigel_kernels::field::Mersenne31;
use stwo::core::poly::circle::CircleDomain;
use stwo::prover::backend::Column;
use stwo::prover::secure_column::SecureColumnByCoords;

use crate::CudaBackend;
use crate::column::{BaseColumn, by_device};
use crate::copies::copy;
use crate::device::stream;
use crate::failure::OrFail;

/// Splits a buffer into columns.
pub(crate) fn split(words: Buffer<Mersenne31>, rows: usize) -> Vec<BaseColumn> {
    BaseColumn::split(words, rows).or_fail("split a matrix into columns")
}

/// Splits values of polynomials on a domain, of so many coefficients each, into columns.
pub(crate) fn split_values(
    words: Buffer<Mersenne31>,
    domain: CircleDomain,
    coefficients: usize,
) -> Vec<BaseColumn> {
    let mut columns = split(words, domain.size());
    if domain.is_canonic() {
        columns.iter_mut().for_each(|column| column.come_from(coefficients));
    }
    columns
}

/// Splits a slab into its four coordinate columns.
pub(crate) fn coordinates(slab: Matrix<Mersenne31>) -> SecureColumnByCoords<CudaBackend> {
    let rows = slab.rows();
    let columns = split(slab.into_values(), rows).try_into();
    SecureColumnByCoords { columns: columns.expect("a slab has four coordinates") }
}

/// The words of several columns as one view: in place if the columns are contiguous, else a copy.
pub(crate) enum Joined<'a> {
    Here(View<'a, Mersenne31>),
    Copied(Buffer<Mersenne31>),
}

impl<'a> Joined<'a> {
    pub(crate) fn new(columns: impl Iterator<Item = &'a BaseColumn> + Clone) -> Self {
        let here = columns.clone().all(|column| column.place().is_none());
        if let Some(view) = here.then(|| View::join(columns.clone().map(BaseColumn::view))).flatten() {
            return Self::Here(view);
        }
        let len = columns.clone().map(|column| column.len()).sum();
        let copy = || {
            let Some(first) = columns.clone().next() else {
                return Err(Error::shape("CudaBackend", "there are no columns to join"));
            };
            let stream = stream(first.device());
            let (mut words, mut at) = (stream.alloc(len)?, 0);
            for column in columns {
                column.write_to(words.range_mut(at..at + column.len())?)?;
                at += column.len();
            }
            Ok(words)
        };
        Self::Copied(copy().or_fail("gather columns"))
    }

    /// Coordinate columns as a slab.
    pub(crate) fn slab(columns: &'a SecureColumnByCoords<CudaBackend>) -> Self {
        Self::new(columns.columns.iter())
    }

    /// Coordinate columns as a slab, or as a slab for each of their blocks.
    pub(crate) fn slabs(columns: &'a SecureColumnByCoords<CudaBackend>) -> Vec<Self> {
        match by_device(&columns.columns.each_ref()) {
            Some(parts) => parts.into_iter().map(|part| Self::new(part.into_iter())).collect(),
            None => vec![Self::slab(columns)],
        }
    }

    pub(crate) fn view(&self) -> View<'_, Mersenne31> {
        match self {
            Self::Here(view) => *view,
            Self::Copied(words) => words.view(),
        }
    }
}

/// The words of several columns as one buffer: their own memory if it is contiguous and no clone has it, else a copy.
pub(crate) fn into_joined(columns: Vec<BaseColumn>) -> Result<Buffer<Mersenne31>> {
    match Joined::new(columns.iter()) {
        Joined::Copied(words) => Ok(words),
        Joined::Here(words) if columns.iter().any(BaseColumn::is_shared) => copy(words),
        // SAFETY: no clone has the words of these columns, which end here.
        Joined::Here(words) => Ok(unsafe { words.share().into_buffer() }),
    }
}

/// Runs of columns that are contiguous in memory, as long as possible, each with the index of its first column.
pub(crate) fn runs<'a>(columns: &[&'a BaseColumn]) -> Vec<(usize, View<'a, Mersenne31>)> {
    let mut runs: Vec<(usize, usize, View<'a, Mersenne31>)> = Vec::new();
    for (i, column) in columns.iter().enumerate() {
        if let Some((_, rows, run)) = runs.last_mut()
            && *rows == column.len()
            && let Some(longer) = View::join([*run, column.view()])
        {
            *run = longer;
            continue;
        }
        runs.push((i, column.len(), column.view()));
    }
    runs.into_iter().map(|(first, _, run)| (first, run)).collect()
}
