//! Grids whose y dimension is the column.

use std::ops::Range;

/// The maximum y dimension of a grid.
const MOST: usize = 65_535;

/// Splits columns into ranges of one launch each.
pub(crate) fn column_batches(columns: usize) -> impl Iterator<Item = Range<usize>> {
    (0..columns).step_by(MOST).map(move |first| first..columns.min(first + MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_cover_all_columns() {
        assert_eq!(column_batches(0).count(), 0);
        assert_eq!(column_batches(65_535).count(), 1);
        assert_eq!(column_batches(65_536).collect::<Vec<_>>(), [0..65_535, 65_535..65_536]);
    }
}
