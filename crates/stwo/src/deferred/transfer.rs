//! Columns on their way to host memory and back.

use std::ops::Range;
use std::sync::Arc;

use rigel_gpu::{Buffer, Device, Result};
use rigel_kernels::Columns;
use rigel_kernels::field::Mersenne31;
use stwo::core::poly::circle::CircleDomain;
use stwo::prover::backend::Column;

use super::{Deferred, HostColumn, Place};
use crate::column::BaseColumn;
use crate::device::stream;
use crate::field::Twin;
use crate::joined::runs;
use crate::twiddles::Twiddles;

impl Deferred {
    /// Columns that are kept as they are.
    pub(crate) fn plain(device: &Device, columns: Vec<HostColumn>, batch_bytes: usize) -> Vec<BaseColumn> {
        Self { device: device.clone(), columns, extended: None, batch_bytes }.into_columns()
    }

    /// The values of polynomials on a domain.
    pub(crate) fn extended(
        device: &Device,
        coefficients: Vec<HostColumn>,
        (twiddles, domain): (&Twiddles, CircleDomain),
        batch_bytes: usize,
    ) -> Vec<BaseColumn> {
        let extended = Some((twiddles.clone(), domain));
        Self { device: device.clone(), columns: coefficients, extended, batch_bytes }.into_columns()
    }

    fn into_columns(self) -> Vec<BaseColumn> {
        let (count, len, of) = (self.columns.len(), self.column_len(), Arc::new(self));
        (0..count).map(|index| BaseColumn::deferred(len, Place { of: of.clone(), index })).collect()
    }
}

/// The words of columns in host memory: those that are kept there, or a copy.
pub(crate) fn to_host(columns: &[&BaseColumn]) -> Result<Vec<HostColumn>> {
    let mut kept = Vec::with_capacity(columns.len());
    for alike in columns.chunk_by(|a, b| a.place().is_some() == b.place().is_some()) {
        if alike[0].place().is_some() {
            for column in alike {
                kept.push(match column.place() {
                    Some(place) if place.of.extended.is_none() => place.kept().clone(),
                    _ => HostColumn::split(
                        Column::to_cpu(*column).into_iter().map(Twin::twin).collect(),
                        column.len(),
                    )
                    .remove(0),
                });
            }
            continue;
        }
        // One copy for each run of contiguous columns.
        for (first, run) in runs(alike) {
            kept.extend(HostColumn::split(run.to_vec(&stream(alike[first].device()))?, alike[first].len()));
        }
    }
    Ok(kept)
}

/// Splits columns into runs that are read together: neighbours among deferred columns, or others one by one. Each run
/// has the range of its columns.
pub(crate) fn neighbours(columns: &[&BaseColumn]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (i, column) in columns.iter().enumerate() {
        let follows = |run: &Range<usize>| {
            let (Some(first), Some(place)) = (columns[run.start].place(), column.place()) else { return false };
            Arc::ptr_eq(&first.of, &place.of)
                && place.index == first.index + run.len()
                && run.len() < place.of.at_once()
        };
        match runs.last_mut() {
            Some(run) if follows(run) => run.end += 1,
            _ => runs.push(i..i + 1),
        }
    }
    runs
}

/// Columns that are on the device for a while: their own memory, or a copy.
pub(crate) enum Present<'a> {
    Here(&'a BaseColumn),
    Copied(Buffer<Mersenne31>),
}

impl Present<'_> {
    pub(crate) fn columns(&self, rows: usize) -> Result<Columns<'_, Mersenne31>> {
        match self {
            Self::Here(column) => Columns::new(column.view(), rows),
            Self::Copied(words) => Columns::new(words.view(), rows),
        }
    }
}

/// Brings a run of [`neighbours`] to the device.
pub(crate) fn bring<'a>(columns: &[&'a BaseColumn], run: Range<usize>) -> Result<Present<'a>> {
    let first = columns[run.start];
    match first.place() {
        None => Ok(Present::Here(first)),
        Some(place) => Ok(Present::Copied(place.of.read(place.index..place.index + run.len())?)),
    }
}
