//! `a, b -> b, a + b`: the smallest AIR with public values.

use p3_air::{Air, AirBuilder, BaseAir, WindowAccess};
use p3_matrix::dense::RowMajorMatrix;
use rigel_plonky3::DeviceField;

use super::single::OneTable;

/// Two columns, from public values `a` and `b` in the first row to a public `b` in the last.
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
        let [a, b] = [0, 1].map(|column| main.current(column).expect("two columns"));
        let [next_a, next_b] = [0, 1].map(|column| main.next(column).expect("two columns"));
        builder.when_first_row().assert_eq(a, publics[0].clone());
        builder.when_first_row().assert_eq(b, publics[1].clone());
        builder.when_transition().assert_eq(next_a, b);
        builder.when_transition().assert_eq(next_b, a + b);
        builder.when_last_row().assert_eq(b, publics[2].clone());
    }
}

impl<V: DeviceField> OneTable<V> for Fibonacci {
    fn witness(&self, log_rows: u32) -> (RowMajorMatrix<V>, Vec<V>) {
        let rows = 1 << log_rows;
        let mut values = Vec::with_capacity(2 * rows);
        let (mut a, mut b) = (V::ZERO, V::ONE);
        for _ in 0..rows {
            values.extend([a, b]);
            (a, b) = (b, a + b);
        }
        let last = values[2 * rows - 1];
        (RowMajorMatrix::new(values, 2), vec![V::ZERO, V::ONE, last])
    }
}
