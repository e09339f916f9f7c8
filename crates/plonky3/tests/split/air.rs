//! An AIR with a choice of features, under one type: every pair of a configuration and an AIR type compiles another
//! prover.

use std::borrow::Cow;

use p3_air::{Air, AirBuilder, BaseAir, WindowAccess};
use p3_field::{Field, PrimeCharacteristicRing, PrimeField64};
use p3_matrix::dense::RowMajorMatrix;

/// The columns x, y = x^degree, z = p x with a periodic p, w, and `more` others. From row to row x grows by 1, w by s
/// + s' with a preprocessed s, the others by x, each from a number of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mixed {
    pub(crate) degree: u64,
    pub(crate) more: usize,
    /// Whether rows depend on the row before.
    pub(crate) steps: bool,
    /// The rows of the preprocessed column, if there is one.
    pub(crate) preprocessed: Option<usize>,
    /// The period of p; without one it is 2.
    pub(crate) period: Option<usize>,
}

impl Default for Mixed {
    fn default() -> Self {
        Self { degree: 3, more: 1, steps: true, preprocessed: None, period: None }
    }
}

const COLUMNS: usize = 4;

impl Mixed {
    fn fixed<F: PrimeCharacteristicRing>(self, row: usize) -> F {
        F::from_usize(row * row + 3)
    }

    fn factor<F: PrimeCharacteristicRing>(self, row: usize) -> F {
        self.period.map_or(F::TWO, |period| F::from_usize(5 * (row % period) + 1))
    }

    /// A trace, and its public value: the first x.
    pub(crate) fn trace<F: PrimeField64>(self, rows: usize) -> (RowMajorMatrix<F>, Vec<F>) {
        let first = F::from_usize(7);
        let mut values = Vec::with_capacity(rows * (COLUMNS + self.more));
        let (mut w, mut sum) = (F::ONE, F::ZERO);
        for row in 0..rows {
            let x = first + F::from_usize(row);
            values.extend([x, x.exp_u64(self.degree), self.factor::<F>(row) * x, w]);
            values.extend((0..self.more).map(|i| sum + F::from_usize(i)));
            sum += x;
            w += self.fixed::<F>(row) + self.fixed::<F>((row + 1) % rows);
        }
        (RowMajorMatrix::new(values, COLUMNS + self.more), vec![first])
    }
}

impl<F: Field> BaseAir<F> for Mixed {
    fn width(&self) -> usize {
        COLUMNS + self.more
    }

    fn num_public_values(&self) -> usize {
        1
    }

    fn preprocessed_trace(&self) -> Option<RowMajorMatrix<F>> {
        let rows = self.preprocessed?;
        Some(RowMajorMatrix::new((0..rows).map(|row| self.fixed(row)).collect(), 1))
    }

    fn preprocessed_width(&self) -> usize {
        usize::from(self.preprocessed.is_some())
    }

    fn num_periodic_columns(&self) -> usize {
        usize::from(self.period.is_some())
    }

    fn periodic_columns(&self) -> Cow<'_, [Vec<F>]> {
        let column = |period| (0..period).map(|row| self.factor(row)).collect();
        Cow::Owned(self.period.map(column).into_iter().collect())
    }

    fn main_next_row_columns(&self) -> Vec<usize> {
        if self.steps { (0..COLUMNS + self.more).collect() } else { Vec::new() }
    }

    fn preprocessed_next_row_columns(&self) -> Vec<usize> {
        if self.steps && self.preprocessed.is_some() { vec![0] } else { Vec::new() }
    }
}

impl<AB: AirBuilder> Air<AB> for Mixed
where
    AB::F: Field,
{
    fn eval(&self, builder: &mut AB) {
        let first: AB::Expr = builder.public_values()[0].into();
        let main = builder.main();
        let [x, y, z, w]: [AB::Expr; COLUMNS] = [0, 1, 2, 3].map(|column| main.current(column).unwrap().into());
        let factor: AB::Expr = match self.period {
            Some(_) => builder.periodic_values()[0].into(),
            None => AB::Expr::TWO,
        };
        builder.when_first_row().assert_eq(x.clone(), first);
        builder.assert_eq(x.clone().exp_u64(self.degree), y);
        builder.assert_eq(factor * x.clone(), z);
        if !self.steps {
            return;
        }
        builder.when_transition().assert_eq(main.next(0).unwrap(), x.clone() + AB::Expr::ONE);
        if self.preprocessed.is_some() {
            let fixed = builder.preprocessed().clone();
            let step: AB::Expr = fixed.current(0).unwrap().into() + fixed.next(0).unwrap().into();
            builder.when_transition().assert_eq(main.next(3).unwrap(), w + step);
        }
        for column in COLUMNS..COLUMNS + self.more {
            let other: AB::Expr = main.current(column).unwrap().into();
            builder.when_transition().assert_eq(main.next(column).unwrap(), other + x.clone());
        }
    }
}
