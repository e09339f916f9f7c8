//! The results of a graph.

use crate::graph::Value;

/// An operation on a value of each row that leaves a result in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Adds `weights[weight] * value` to the row's folded sum (see [`Folded`](crate::Folded)).
    Fold {
        /// The value, of either kind.
        value: Value,
        /// The index of its weight.
        weight: usize,
    },
    /// Writes the value to a column of the matrix `output`; a value of the extension to `DEGREE` neighbouring
    /// columns from `column` on.
    Store {
        /// The value, of either kind.
        value: Value,
        /// The index of the matrix.
        output: usize,
        /// The column, or the first of them.
        column: usize,
    },
    /// Writes the value as one of the extension, whatever its kind, to `DEGREE` neighbouring columns: an
    /// expression over the extension may turn out to lie in the base field, such as `x - x`.
    StoreExtension {
        /// The value, of either kind.
        value: Value,
        /// The index of the matrix.
        output: usize,
        /// The first column.
        column: usize,
    },
}

impl Output {
    /// The value.
    pub fn value(self) -> Value {
        match self {
            Self::Fold { value, .. } | Self::Store { value, .. } | Self::StoreExtension { value, .. } => value,
        }
    }
}
