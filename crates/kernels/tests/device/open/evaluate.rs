//! Polynomials at points against Horner's rule.

use rigel_kernels::Columns;
use rigel_kernels::field::*;
use rigel_kernels::open::evaluate::evaluate_into;

use crate::oracle::{assert_says, random_elements};
use crate::support::{on_each_device, random, rng};

#[test]
fn values_equal_horner() {
    on_each_device(|stream| {
        // The last has several tiles of rows and several groups of columns.
        for (rows, columns) in [(1, 1), (7, 3), (256, 2), (5_000, 40)] {
            let mut rng = rng(rows as u64);
            let values = random::<BabyBear>(&mut rng, rows * columns);
            let points = random_elements::<RiscZero4>(&mut rng, 2);
            // Every column at the first point, every third at the second too.
            let queries: Vec<(u32, RiscZero4)> = (0..columns as u32)
                .flat_map(|column| points.iter().take(1 + usize::from(column % 3 == 0)).map(move |&x| (column, x)))
                .collect();
            let value = |&(column, x): &(u32, RiscZero4)| {
                let column = &values[column as usize * rows..][..rows];
                column.iter().rev().fold(RiscZero4::ZERO, |sum, &c| sum * x + c)
            };
            let expected: Vec<_> = queries.iter().map(value).collect();
            let matrix = stream.upload(&values).unwrap();
            let matrix = Columns::new(matrix.view(), rows).unwrap();
            let mut out = stream.alloc::<RiscZero4>(queries.len()).unwrap();
            evaluate_into(stream, out.view_mut(), matrix, &queries).unwrap();
            assert_eq!(out.to_vec(stream).unwrap(), expected, "{rows} x {columns}");

            let missing = evaluate_into(stream, out.view_mut(), matrix, &vec![(99, points[0]); queries.len()]);
            assert_says(missing, &["column 99", "does not exist"]);
        }
    });
}
