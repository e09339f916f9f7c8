//! Matrices over a field: reduction to echelon form, and what follows from it.
//!
//! Elimination is Gauss and Jordan's, for all matrices of a stack at once, where the arrays are: pivots, their rows and
//! the ranks are arrays on the device. A column costs about a dozen launches over the whole stack; one number a column
//! is read back, by the inversion of the pivots.

use rigel_codegen::map::{Reduction, Type};

use crate::array::Array;
use crate::array::along;
use crate::device::same_device;
use crate::error::{Error, Result};
use crate::layout::{Index, text};
use crate::lazy::Lazy;
use crate::scalar::{Scalar, name};

/// Matrices in reduced echelon form.
struct Echelon {
    /// `count` matrices.
    matrices: Array,
    /// The rank of each, as I64.
    ranks: Array,
    /// The product of the pivots with the sign of the row swaps, 0 if a column has no pivot: for a square matrix, its
    /// determinant.
    determinants: Array,
}

impl Array {
    /// The reduced row echelon form of matrices over a field, which are the last two axes.
    pub fn row_reduce(&self) -> Result<Self> {
        let (stack, [_, columns]) = self.stack_of_matrices("row_reduce")?;
        stack.eliminate(columns)?.matrices.reshape(&lengths(self.shape()))
    }

    /// The ranks of matrices over a field, as I64.
    pub fn matrix_rank(&self) -> Result<Self> {
        let (stack, [_, columns]) = self.stack_of_matrices("matrix_rank")?;
        stack.eliminate(columns)?.ranks.reshape(&lengths(&self.shape()[..self.axes() - 2]))
    }

    /// The determinants of square matrices over a field.
    ///
    /// ```
    /// # use rigel_array::{Array, Device, Type};
    /// let a = Array::arange(1, 5, 1, &Device::Cpu)?.reshape(&[2, 2])?.astype(Type::KoalaBear)?;
    /// assert_eq!(a.det()?.add(2)?.astype(Type::U64)?.to_vec::<u64>()?, [0]);
    /// # Ok::<(), rigel_array::Error>(())
    /// ```
    pub fn det(&self) -> Result<Self> {
        let (stack, [rows, columns]) = self.stack_of_matrices("det")?;
        self.must_be_square("det", rows, columns)?;
        stack.eliminate(columns)?.determinants.reshape(&lengths(&self.shape()[..self.axes() - 2]))
    }

    /// The inverses of square matrices over a field. An error if one is singular.
    pub fn inv(&self) -> Result<Self> {
        let rows = self.shape().iter().rev().nth(1).copied().unwrap_or(0);
        let identity = Self::eye(rows, self.dtype, &self.device())?;
        self.solved("inv", &identity.broadcast_to(self.shape()).unwrap_or(identity))
    }

    /// The solutions x of `self x = values` for square matrices over a field: `values` are stacks of matrices with as
    /// many rows, or of one axis, a vector. An error if a matrix is singular.
    pub fn solve(&self, values: &Self) -> Result<Self> {
        same_device("solve", &self.device(), &values.device())?;
        if values.axes() == 1 {
            let column = values.expand(1)?;
            let shape = [&self.shape()[..self.axes().saturating_sub(2)], column.shape()].concat();
            return self.solved("solve", &column.broadcast_to(&shape)?)?.index(&[Index::Ellipsis, Index::At(0)]);
        }
        self.solved("solve", values)
    }

    fn solved(&self, operation: &'static str, values: &Self) -> Result<Self> {
        let (stack, [rows, columns]) = self.stack_of_matrices(operation)?;
        self.must_be_square(operation, rows, columns)?;
        let outer = self.axes() - 2;
        if values.dtype != self.dtype
            || values.axes() != self.axes()
            || values.shape()[..=outer] != self.shape()[..=outer]
        {
            return Err(Error::shape(format!(
                "{operation}: {} of shape {} on the right of {} matrices of shape {}",
                name(values.dtype),
                text(values.shape()),
                name(self.dtype),
                text(self.shape())
            )));
        }
        let width = values.shape()[outer + 1];
        let right = values.reshape(&[stack.shape()[0] as isize, rows as isize, width as isize])?;
        let done = Self::concatenate(&[stack, right], 2)?.eliminate(columns)?;
        let singular = done.ranks.lazy().lt(rows as i64).sum(..)?;
        if let Scalar::Int(singular @ 1..) = singular.item()? {
            return Err(Error::shape(format!(
                "{operation}: {singular} of {} matrices are singular",
                done.ranks.len()
            )));
        }
        let solutions =
            done.matrices.index(&[Index::ALL, Index::ALL, (columns as isize..isize::MAX / 4).into()])?;
        solutions.reshape(&lengths(values.shape()))
    }

    /// The matrices of the last two axes as one stack, with their sizes.
    fn stack_of_matrices(&self, operation: &'static str) -> Result<(Self, [usize; 2])> {
        self.must_be_field(operation)?;
        let Some(&[rows, columns]) = self.shape().last_chunk::<2>() else {
            return Err(Error::shape(format!(
                "{operation} needs matrices, the last two axes; the shape is {}",
                text(self.shape())
            )));
        };
        let count: usize = self.shape()[..self.axes() - 2].iter().product();
        Ok((self.reshape(&[count as isize, rows as isize, columns as isize])?, [rows, columns]))
    }

    fn must_be_square(&self, operation: &str, rows: usize, columns: usize) -> Result<()> {
        if rows == columns {
            return Ok(());
        }
        Err(Error::shape(format!(
            "{operation} needs square matrices, not {rows} x {columns}; the shape is {}",
            text(self.shape())
        )))
    }

    /// Reduces a stack of matrices by their first `columns` columns.
    fn eliminate(&self, columns: usize) -> Result<Echelon> {
        let &[count, rows, width] = self.shape() else { unreachable!("a stack of matrices") };
        let device = self.device();
        let mut matrices = self.copy()?;
        let mut ranks = Self::zeros(&[count, 1], Type::I64, &device)?;
        let mut determinants = Self::ones(&[count, 1], self.dtype, &device)?;
        if matrices.is_empty() {
            let ranks = ranks.reshape(&[-1])?;
            return Ok(Echelon { matrices, ranks, determinants: determinants.reshape(&[-1])? });
        }
        let numbers = along(rows, 1, 2, &device)?;
        let [matrix, column] = [(count, 0), (width, 2)].map(|(length, axis)| along(length, axis, 3, &device));
        let (matrix, column) = (matrix?, column?);
        let zero = || Lazy::filled(Scalar::Int(0), self.dtype, &[], &device);
        for at in 0..columns {
            let this = matrices.index(&[Index::ALL, Index::ALL, (at as isize).into()])?;
            let usable = this.lazy().ne(0).logical_and(numbers.lazy().ge(&ranks)).eval()?;
            let found = usable.lazy().reduce(Reduction::Max, 1, true)?;
            // Without a pivot, the row of that number stays in its place.
            let chosen = usable.argmax(1, true)?.select(&found, &ranks)?;
            let here = numbers.lazy().eq(&ranks);
            let from = chosen.lazy().select(here.clone(), numbers.lazy());
            let from = ranks.lazy().select(numbers.lazy().eq(&chosen), from);
            let from = chosen.lazy().select(here, from).eval()?.expand(2)?;
            let places = (matrix.lazy() * (rows * width) as i64 + from.lazy() * width as i64 + &column).eval()?;
            let swapped = matrices.take_places(&places)?;

            let factors = swapped.index(&[Index::ALL, Index::ALL, (at as isize..at as isize + 1).into()])?;
            let is_pivot = numbers.lazy().eq(&ranks).logical_and(&found).eval()?.expand(2)?;
            let row = swapped.lazy().select(&is_pivot, zero()).reduce(Reduction::Sum, 1, true)?;
            let pivot = row.index(&[Index::ALL, Index::ALL, (at as isize).into()])?;
            let inverse = pivot.lazy().select(&found, 1).eval()?.inverse()?.expand(2)?;
            let row = row.mul(&inverse)?;
            // If there is no pivot, the row is zero, and nothing changes.
            let reduced = swapped.lazy() - factors.lazy() * &row;
            matrices = row.lazy().select(&is_pivot, reduced).eval()?;

            let signed = pivot.lazy().select(chosen.lazy().eq(&ranks), -pivot.lazy());
            determinants = (determinants.lazy() * signed).eval()?;
            ranks = (ranks.lazy() + found.lazy().astype(Type::I64)).eval()?;
        }
        let ranks = ranks.reshape(&[-1])?;
        Ok(Echelon { matrices, ranks, determinants: determinants.reshape(&[-1])? })
    }
}

pub(crate) fn lengths(shape: &[usize]) -> Vec<isize> {
    shape.iter().map(|&length| length as isize).collect()
}
