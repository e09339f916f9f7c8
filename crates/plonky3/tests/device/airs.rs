//! Small AIRs, one for each AIR feature.

use std::borrow::Cow;

use p3_air::{Air, AirBuilder, BaseAir, BoundaryPublic, WindowAccess};
use p3_field::{Field, PrimeCharacteristicRing, PrimeField64};
use p3_matrix::dense::RowMajorMatrix;

/// `a, b -> b, a + b`, from public a and b to a public last b.
#[derive(Clone, Debug)]
pub(crate) struct Fibonacci;

impl<F> BaseAir<F> for Fibonacci {
    fn width(&self) -> usize {
        2
    }

    fn num_public_values(&self) -> usize {
        3
    }
}

impl<AB: AirBuilder> Air<AB> for Fibonacci {
    fn eval(&self, builder: &mut AB) {
        let publics: Vec<AB::Expr> = builder.public_values().iter().map(|&value| value.into()).collect();
        let main = builder.main();
        let [a, b] = [0, 1].map(|column| main.current(column).unwrap());
        let [next_a, next_b] = [0, 1].map(|column| main.next(column).unwrap());
        builder.when_first_row().assert_eq(a, publics[0].clone());
        builder.when_first_row().assert_eq(b, publics[1].clone());
        builder.when_transition().assert_eq(next_a, b);
        builder.when_transition().assert_eq(next_b, a + b);
        builder.when_last_row().assert_eq(b, publics[2].clone());
    }
}

/// The trace from 0 and 1, and its public values.
pub(crate) fn fibonacci<F: PrimeField64>(rows: usize) -> (RowMajorMatrix<F>, Vec<F>) {
    fibonacci_from(F::ZERO, F::ONE, rows)
}

/// The trace from a and b, and its public values.
pub(crate) fn fibonacci_from<F: PrimeField64>(a: F, b: F, rows: usize) -> (RowMajorMatrix<F>, Vec<F>) {
    let mut values = Vec::with_capacity(2 * rows);
    let (mut x, mut y) = (a, b);
    for _ in 0..rows {
        values.extend([x, y]);
        (x, y) = (y, x + y);
    }
    let last = values[2 * rows - 1];
    (RowMajorMatrix::new(values, 2), vec![a, b, last])
}

/// `y = x^degree`, within a row: the next row is neither read nor opened.
#[derive(Clone, Debug)]
pub(crate) struct Power {
    pub(crate) degree: usize,
    /// The degree hint of the AIR, if it gives one.
    pub(crate) hint: Option<usize>,
}

impl<F> BaseAir<F> for Power {
    fn width(&self) -> usize {
        2
    }

    fn main_next_row_columns(&self) -> Vec<usize> {
        Vec::new()
    }

    fn max_constraint_degree(&self) -> Option<usize> {
        self.hint
    }
}

impl<AB: AirBuilder> Air<AB> for Power {
    fn eval(&self, builder: &mut AB) {
        let main = builder.main();
        let [x, y]: [AB::Expr; 2] = [0, 1].map(|column| main.current(column).unwrap().into());
        builder.assert_eq(x.exp_u64(self.degree as u64), y);
    }
}

impl Power {
    pub(crate) fn trace<F: PrimeField64>(&self, rows: usize) -> RowMajorMatrix<F> {
        let row = |i: usize| {
            let x = F::from_usize(7 * i + 3);
            [x, x.exp_u64(self.degree as u64)]
        };
        RowMajorMatrix::new((0..rows).flat_map(row).collect(), 2)
    }
}

/// Columns without constraints.
#[derive(Clone, Debug)]
pub(crate) struct Free;

impl<F> BaseAir<F> for Free {
    fn width(&self) -> usize {
        3
    }
}

impl<AB: AirBuilder> Air<AB> for Free {
    fn eval(&self, _: &mut AB) {}
}

/// Preprocessed `s, t`: `x' = x + s` plus the next row's `t` where that is read, `y = s x`.
#[derive(Clone, Debug)]
pub(crate) struct Steps {
    pub(crate) rows: usize,
    pub(crate) reads_next: bool,
}

impl Steps {
    fn step<F: PrimeCharacteristicRing>(row: usize) -> [F; 2] {
        [F::from_usize(row * row + 1), F::from_usize(5 * row + 2)]
    }

    pub(crate) fn trace<F: PrimeField64>(&self) -> RowMajorMatrix<F> {
        let mut values = Vec::with_capacity(2 * self.rows);
        let mut x = F::from_usize(11);
        for row in 0..self.rows {
            let [s, _] = Self::step::<F>(row);
            let [_, next_t] = Self::step::<F>(row + 1);
            values.extend([x, s * x]);
            x += s + if self.reads_next { next_t } else { F::ZERO };
        }
        RowMajorMatrix::new(values, 2)
    }
}

impl<F: Field> BaseAir<F> for Steps {
    fn width(&self) -> usize {
        2
    }

    fn preprocessed_trace(&self) -> Option<RowMajorMatrix<F>> {
        Some(RowMajorMatrix::new((0..self.rows).flat_map(Self::step::<F>).collect(), 2))
    }

    fn preprocessed_width(&self) -> usize {
        2
    }

    fn preprocessed_next_row_columns(&self) -> Vec<usize> {
        if self.reads_next { vec![0, 1] } else { Vec::new() }
    }
}

impl<AB: AirBuilder> Air<AB> for Steps
where
    AB::F: Field,
{
    fn eval(&self, builder: &mut AB) {
        let main = builder.main();
        let [x, y] = [0, 1].map(|column| main.current(column).unwrap());
        let next_x = main.next(0).unwrap();
        let preprocessed = builder.preprocessed().clone();
        let s = preprocessed.current(0).unwrap();
        let mut step: AB::Expr = s.into();
        if self.reads_next {
            step += preprocessed.next(1).unwrap().into();
        }
        builder.assert_eq(s * x, y);
        builder.when_transition().assert_eq(next_x, x + step);
    }
}

/// Column 0 is free, column i + 1 holds periodic column i times its square.
#[derive(Clone, Debug)]
pub(crate) struct Periods<F> {
    pub(crate) columns: Vec<Vec<F>>,
}

impl<F: PrimeField64> Periods<F> {
    /// Periodic columns of these lengths.
    pub(crate) fn new(lengths: &[usize]) -> Self {
        let column = |&length: &usize| (0..length).map(|i| F::from_usize(i * i + 3 * length)).collect();
        Self { columns: lengths.iter().map(column).collect() }
    }

    pub(crate) fn trace(&self, rows: usize) -> RowMajorMatrix<F> {
        let row = |i: usize| {
            let x = F::from_usize(2 * i + 9);
            let scaled = self.columns.iter().map(move |column| column[i % column.len()] * x.square());
            std::iter::once(x).chain(scaled).collect::<Vec<F>>()
        };
        RowMajorMatrix::new((0..rows).flat_map(row).collect(), self.columns.len() + 1)
    }
}

impl<F: Field> BaseAir<F> for Periods<F> {
    fn width(&self) -> usize {
        self.columns.len() + 1
    }

    fn num_periodic_columns(&self) -> usize {
        self.columns.len()
    }

    fn periodic_columns(&self) -> Cow<'_, [Vec<F>]> {
        Cow::Borrowed(&self.columns)
    }
}

impl<AB: AirBuilder> Air<AB> for Periods<AB::F>
where
    AB::F: Field,
{
    fn eval(&self, builder: &mut AB) {
        let main = builder.main();
        let x: AB::Expr = main.current(0).unwrap().into();
        for column in 0..self.columns.len() {
            let periodic: AB::Expr = builder.periodic_values()[column].into();
            builder.assert_eq(periodic * x.square(), main.current(column + 1).unwrap());
        }
    }
}

/// Declares a public boundary cell, which upstream's univariate provers do not support.
#[derive(Clone, Debug)]
pub(crate) struct Bound(pub(crate) [BoundaryPublic; 1]);

impl<F> BaseAir<F> for Bound {
    fn width(&self) -> usize {
        1
    }

    fn num_public_values(&self) -> usize {
        1
    }

    fn public_boundary_io(&self) -> &[BoundaryPublic] {
        &self.0
    }
}

impl<AB: AirBuilder> Air<AB> for Bound {
    fn eval(&self, _: &mut AB) {}
}
