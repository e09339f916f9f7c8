//! Columns in host memory, which are on the device only while they are read.
//!
//! Where the columns of a proof do not fit on the device, the host keeps them: uploaded columns as they are, committed
//! ones as coefficients. Whoever reads some uploads a few at a time, evaluates them where they are committed ones, and
//! drops them again. Upstream's prover reads each column five times: to interpolate it, for the leaves of its tree, for
//! constraints, for its values at points and for quotients; and once more for the queries.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use rigel_gpu::{Buffer, Device, Result, ViewMut};
use rigel_kernels::Columns;
use rigel_kernels::field::Mersenne31;
use rigel_kernels::transform::circle;
use stwo::core::poly::circle::CircleDomain;

use crate::device::stream;
use crate::field::Twin;
use crate::twiddles::{Twiddles, of_coset};

pub(crate) mod transfer;

thread_local! {
    /// The bytes of columns that are on the device at a time, if columns are kept in host memory on this thread.
    static BATCH: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Runs `work`, in which the columns that this thread uploads and commits to are kept in host memory. Wherever they are
/// read, about `bytes` of them are on the device at a time.
///
/// The proof is the same. It needs the device's memory for the trees and for the polynomials over the secure field, but
/// not for the columns, and uploads every column about six times. [`Plan::run`](crate::Plan::run) calls it where a
/// proof does not fit otherwise.
///
/// A batch has at least 16 of the longest columns where leaves are hashed, and the columns of one constraint
/// where constraints are evaluated. The kernels of constraints are compiled for the columns of a batch, so another
/// size of batches may compile others.
pub fn in_column_batches<R>(bytes: usize, work: impl FnOnce() -> R) -> R {
    // Restores the outer state even if `work` panics.
    struct Outer(Option<usize>);
    impl Drop for Outer {
        fn drop(&mut self) {
            BATCH.set(self.0);
        }
    }
    let _outer = Outer(BATCH.replace(Some(bytes)));
    work()
}

/// The bytes of columns that are on the device at a time, if columns are kept in host memory.
pub(crate) fn batch_bytes() -> Option<usize> {
    BATCH.get()
}

/// A column's words in host memory, which others may share.
#[derive(Clone)]
pub(crate) struct HostColumn {
    words: Arc<Vec<Mersenne31>>,
    first: usize,
    len: usize,
}

impl HostColumn {
    /// Columns of `len` words that follow each other in `words`.
    pub(crate) fn split(words: Vec<Mersenne31>, len: usize) -> Vec<Self> {
        let words = Arc::new(words);
        (0..words.len()).step_by(len.max(1)).map(|first| Self { words: words.clone(), first, len }).collect()
    }

    fn words(&self) -> &[Mersenne31] {
        &self.words[self.first..self.first + self.len]
    }
}

/// Columns of one length in host memory.
pub(crate) struct Deferred {
    device: Device,
    /// The columns, or their coefficients.
    columns: Vec<HostColumn>,
    /// The twiddles and the domain on which coefficients are evaluated; `None` if the columns are kept as they are.
    extended: Option<(Twiddles, CircleDomain)>,
    /// The bytes to have on the device at a time.
    batch_bytes: usize,
}

/// A column among deferred ones.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) of: Arc<Deferred>,
    pub(crate) index: usize,
}

impl Deferred {
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// The bytes to have on the device at a time.
    pub(crate) fn batch_bytes(&self) -> usize {
        self.batch_bytes
    }

    /// The length of a column.
    pub(crate) fn column_len(&self) -> usize {
        let kept = self.columns.first().map_or(0, |column| column.len);
        self.extended.as_ref().map_or(kept, |(_, domain)| domain.size())
    }

    /// The bytes that reading one column takes, with its coefficients where it is evaluated.
    pub(crate) fn column_bytes(&self) -> usize {
        let uploaded = if self.extended.is_some() { self.columns[0].len } else { 0 };
        size_of::<Mersenne31>() * (self.column_len() + uploaded)
    }

    /// The number of columns that are read at a time.
    pub(crate) fn at_once(&self) -> usize {
        (self.batch_bytes / self.column_bytes().max(1)).max(1)
    }

    fn write(&self, to: ViewMut<'_, Mersenne31>, columns: &[&HostColumn]) -> Result<()> {
        match &self.extended {
            None => self.upload(to, columns),
            Some((twiddles, domain)) => self.evaluate(to, columns, (twiddles, *domain)),
        }
    }

    fn upload(&self, to: ViewMut<'_, Mersenne31>, columns: &[&HostColumn]) -> Result<()> {
        let slices: Vec<&[Mersenne31]> = columns.iter().map(|column| column.words()).collect();
        stream(&self.device).write_joined(to, &slices)
    }

    /// Evaluates polynomials on a domain.
    fn evaluate(
        &self,
        to: ViewMut<'_, Mersenne31>,
        columns: &[&HostColumn],
        (twiddles, domain): (&Twiddles, CircleDomain),
    ) -> Result<()> {
        let (stream, rows) = (stream(&self.device), columns[0].len);
        let mut coefficients = stream.alloc(rows * columns.len())?;
        self.upload(coefficients.view_mut(), columns)?;
        let twiddles = circle::Twiddles { tower: twiddles.tower()?, initial: domain.half_coset.initial.twin() };
        let from = Columns::new(coefficients.view(), rows)?;
        circle::evaluate_into(&stream, to, domain.log_size(), from, twiddles)
    }

    /// Some columns, one after another.
    pub(crate) fn read(&self, columns: Range<usize>) -> Result<Buffer<Mersenne31>> {
        let mut words = stream(&self.device).alloc(columns.len() * self.column_len())?;
        self.write(words.view_mut(), &self.columns[columns].iter().collect::<Vec<_>>())?;
        Ok(words)
    }
}

impl Place {
    /// Writes the column.
    pub(crate) fn write(&self, to: ViewMut<'_, Mersenne31>) -> Result<()> {
        self.of.write(to, &[&self.of.columns[self.index]])
    }

    /// The column, or its coefficients.
    pub(crate) fn kept(&self) -> &HostColumn {
        &self.of.columns[self.index]
    }

    /// Writes the values of the column's polynomial on a domain.
    pub(crate) fn write_on(&self, to: ViewMut<'_, Mersenne31>, domain: CircleDomain) -> Result<()> {
        match &self.of.extended {
            Some((_, own)) if *own == domain => self.write(to),
            _ => {
                let twiddles = of_coset(&self.of.device, domain.half_coset)?.twiddles;
                self.of.evaluate(to, &[self.kept()], (&twiddles, domain))
            }
        }
    }
}
