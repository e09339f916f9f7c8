//! The columns of a statement in host memory.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use num_traits::One;
use rayon::prelude::*;
use stwo::core::fields::m31::BaseField;
use stwo::core::poly::circle::CanonicCoset;
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::backend::simd::column::BaseColumn;
use stwo::prover::backend::{Backend, Column};
use stwo::prover::poly::BitReversedOrder;
use stwo::prover::poly::circle::CircleEvaluation;

use crate::prove::FromHost;

/// A column of a backend: values on the canonic coset of its size, in bit-reversed order.
pub type Evaluation<B> = CircleEvaluation<B, BaseField, BitReversedOrder>;

/// A column in host memory.
pub type HostColumn = Evaluation<SimdBackend>;

/// The columns that are known before any challenge is drawn.
#[derive(Clone)]
pub struct Witness {
    /// The columns of the preprocessed tree: tables and circuits, which the verifier knows.
    pub preprocessed: Vec<HostColumn>,
    /// The columns of the trace.
    pub trace: Vec<HostColumn>,
    /// The columns that each component reads.
    pub components: Arc<[ComponentColumns]>,
}

/// The columns that a component reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentColumns {
    /// The columns of the trace, which are the component's own.
    pub trace: Range<usize>,
    /// The columns of the preprocessed tree, in the order in which the component reads them.
    pub preprocessed: Vec<usize>,
}

/// One of the two trees of a [`Witness`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tree {
    /// The columns that the verifier knows.
    Preprocessed,
    /// The columns that only the prover knows.
    Trace,
}

impl Witness {
    /// Adds one to a cell, so that the witness is wrong.
    ///
    /// # Panics
    ///
    /// If the tree has no such cell.
    pub fn corrupt(&mut self, tree: Tree, column: usize, row: usize) {
        let columns = match tree {
            Tree::Preprocessed => &mut self.preprocessed,
            Tree::Trace => &mut self.trace,
        };
        let values = &mut columns[column].values;
        values.set(row, values.at(row) + BaseField::one());
    }

    /// Copies the columns to a backend.
    pub fn adopt<B: FromHost>(&self) -> Adopted<B> {
        let components = self.components.clone();
        Adopted { preprocessed: B::adopt(&self.preprocessed), trace: B::adopt(&self.trace), components }
    }

    /// Bytes of all columns.
    pub fn bytes(&self) -> usize {
        let cells = self.preprocessed.iter().chain(&self.trace).map(|column| column.values.len());
        cells.sum::<usize>() * size_of::<BaseField>()
    }
}

/// The columns of a [`Witness`] on a backend.
pub struct Adopted<B: Backend> {
    /// The columns of the preprocessed tree.
    pub preprocessed: Vec<Evaluation<B>>,
    /// The columns of the trace.
    pub trace: Vec<Evaluation<B>>,
    /// The columns that each component reads.
    pub components: Arc<[ComponentColumns]>,
}

impl<B: Backend> Adopted<B> {
    /// The preprocessed columns and the columns of the trace that each component reads, in its order.
    pub(crate) fn by_component(&self) -> impl ExactSizeIterator<Item = [Vec<&Evaluation<B>>; 2]> {
        self.components.iter().map(|component| {
            let preprocessed = component.preprocessed.iter().map(|&column| &self.preprocessed[column]);
            [preprocessed.collect(), self.trace[component.trace.clone()].iter().collect()]
        })
    }
}

impl<B: Backend> Clone for Adopted<B> {
    fn clone(&self) -> Self {
        let components = self.components.clone();
        Self { preprocessed: self.preprocessed.clone(), trace: self.trace.clone(), components }
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [preprocessed, trace] = [self.preprocessed.len(), self.trace.len()];
        write!(f, "Witness({preprocessed} + {trace} columns, {} bytes)", self.bytes())
    }
}

/// `width` columns of 2^`log_rows` cells. `row(i, cells)` writes row i; rows are filled in parallel.
pub(crate) fn fill(log_rows: u32, width: usize, row: impl Fn(usize, &mut [BaseField]) + Sync) -> Vec<HostColumn> {
    let rows = 1usize << log_rows;
    // Blocks of rows are transposed while they are in the cache.
    let height = rows.min(64);
    let zero = BaseField::from_u32_unchecked(0);
    let blocks: Vec<Vec<BaseField>> = (0..rows / height)
        .into_par_iter()
        .map(|block| {
            let mut cells = vec![zero; width];
            let mut columns = vec![zero; width * height];
            for i in 0..height {
                cells.fill(zero);
                row(block * height + i, &mut cells);
                for (column, &cell) in columns.chunks_exact_mut(height).zip(&cells) {
                    column[i] = cell;
                }
            }
            columns
        })
        .collect();
    (0..width)
        .into_par_iter()
        .map(|column| {
            let parts = blocks.iter().flat_map(|block| &block[column * height..][..height]);
            host_column(log_rows, parts.copied().collect())
        })
        .collect()
}

/// A column of 2^`log_rows` cells.
pub(crate) fn host_column(log_rows: u32, cells: BaseColumn) -> HostColumn {
    CircleEvaluation::new(CanonicCoset::new(log_rows).circle_domain(), cells)
}

/// Field elements of small numbers.
pub(crate) fn field(number: u32) -> BaseField {
    BaseField::from_u32_unchecked(number)
}
