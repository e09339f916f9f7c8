//! Matrices on the device.

use rigel_gpu::{Buffer, Error, Plain, Result, Stream, View, ViewMut};

/// A column-major matrix in device memory: entry (r, c) is at `c * rows + r`.
///
/// A column over an extension field of degree D is a slab: D adjacent columns, one per coefficient.
pub struct Matrix<F: Plain> {
    values: Buffer<F>,
    rows: usize,
    columns: usize,
}

impl<F: Plain> Matrix<F> {
    /// A matrix over a buffer of `rows * columns` values.
    pub fn new(values: Buffer<F>, rows: usize, columns: usize) -> Result<Self> {
        if rows.checked_mul(columns) != Some(values.len()) {
            return Err(Error::shape(
                "Matrix::new",
                format!(
                    "a matrix of {rows} rows and {columns} columns does not fit a buffer of {} values",
                    values.len()
                ),
            ));
        }
        Ok(Self { values, rows, columns })
    }

    /// Allocates a matrix without initializing its content.
    pub fn alloc(stream: &Stream, rows: usize, columns: usize) -> Result<Self> {
        Self::new(stream.alloc(cells(rows, columns)?)?, rows, columns)
    }

    /// A matrix whose bytes are all zero.
    pub fn zeros(stream: &Stream, rows: usize, columns: usize) -> Result<Self> {
        Self::new(stream.zeros(cells(rows, columns)?)?, rows, columns)
    }

    /// Copies a column-major host matrix to the device.
    pub fn upload(stream: &Stream, values: &[F], rows: usize) -> Result<Self> {
        let columns = values.len().checked_div(rows).unwrap_or(0);
        Self::new(stream.upload(values)?, rows, columns)
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
    pub fn values(&self) -> &Buffer<F> {
        &self.values
    }

    /// All values, for writing.
    pub fn values_mut(&mut self) -> &mut Buffer<F> {
        &mut self.values
    }

    /// The underlying buffer.
    pub fn into_values(self) -> Buffer<F> {
        self.values
    }

    /// The values of one column.
    pub fn column(&self, column: usize) -> Result<View<'_, F>> {
        self.column_range(column, column + 1)
    }

    /// The values of the columns from `first` up to, but not including, `end`.
    pub fn column_range(&self, first: usize, end: usize) -> Result<View<'_, F>> {
        self.check_columns(first, end)?;
        self.values.range(first * self.rows..end * self.rows)
    }

    /// The values of the columns from `first` up to, but not including, `end`, for writing.
    pub fn column_range_mut(&mut self, first: usize, end: usize) -> Result<ViewMut<'_, F>> {
        self.check_columns(first, end)?;
        self.values.range_mut(first * self.rows..end * self.rows)
    }

    fn check_columns(&self, first: usize, end: usize) -> Result<()> {
        if first > end || end > self.columns {
            return Err(Error::shape(
                "Matrix",
                format!("columns {first}..{end} are out of range; the matrix has {}", self.columns),
            ));
        }
        Ok(())
    }

    /// Reads the matrix back, column after column. Waits for the stream.
    pub fn to_vec(&self, stream: &Stream) -> Result<Vec<F>> {
        self.values.to_vec(stream)
    }
}

impl<F: Plain> std::fmt::Debug for Matrix<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Matrix({} x {} on {})", self.rows, self.columns, self.values.device())
    }
}

fn cells(rows: usize, columns: usize) -> Result<usize> {
    rows.checked_mul(columns)
        .ok_or_else(|| Error::shape("Matrix", format!("{rows} x {columns} overflows the address space")))
}

/// The logarithm of a number of rows that must be a power of two.
pub(crate) fn log2_rows(operation: &'static str, rows: usize) -> Result<u32> {
    if !rows.is_power_of_two() {
        return Err(Error::shape(operation, format!("{rows} rows; the number must be a power of two")));
    }
    Ok(rows.trailing_zeros())
}
