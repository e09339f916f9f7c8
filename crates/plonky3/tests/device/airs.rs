//! Small AIRs.

use p3_air::{Air, AirBuilder, BaseAir, WindowAccess};
use p3_field::{PrimeCharacteristicRing, PrimeField64};
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
    let mut values = Vec::with_capacity(2 * rows);
    let (mut a, mut b) = (F::ZERO, F::ONE);
    for _ in 0..rows {
        values.extend([a, b]);
        (a, b) = (b, a + b);
    }
    let last = values[2 * rows - 1];
    (RowMajorMatrix::new(values, 2), vec![F::ZERO, F::ONE, last])
}
