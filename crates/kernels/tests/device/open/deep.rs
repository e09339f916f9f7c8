//! Combinations and divisions of polynomials against loops.

use rigel_kernels::Columns;
use rigel_kernels::field::*;
use rigel_kernels::layout::slab::from_slab;
use rigel_kernels::open::deep::{add_at, combine_into, divide_assign, sum_into};

use crate::oracle::{assert_says, random_elements};
use crate::support::{on_each_device, random, rng};

#[test]
fn combinations_equal_a_loop() {
    on_each_device(|stream| {
        for (rows, columns) in [(1, 1), (5, 3), (700, 9)] {
            let mut rng = rng(rows as u64);
            let values = random::<BabyBear>(&mut rng, rows * columns);
            let start = random_elements::<RiscZero4>(&mut rng, rows);
            let weights = random_elements::<RiscZero4>(&mut rng, columns);
            let terms: Vec<(u32, RiscZero4)> = (0..columns as u32).rev().zip(weights).collect();
            let sum = |row: usize| {
                terms
                    .iter()
                    .fold(start[row], |sum, &(column, weight)| sum + weight * values[column as usize * rows + row])
            };
            let expected: Vec<_> = (0..rows).map(sum).collect();
            let matrix = stream.upload(&values).unwrap();
            let mut out = stream.upload(&start).unwrap();
            combine_into(stream, out.view_mut(), Columns::new(matrix.view(), rows).unwrap(), &terms).unwrap();
            assert_eq!(out.to_vec(stream).unwrap(), expected);
        }
    });
}

#[test]
fn quotients_and_remainders_equal_horner() {
    on_each_device(|stream| {
        // One run, part of a run, one tile, several tiles and a part of one.
        for n in [8, 5, 1, 2_048, 5_003] {
            let mut rng = rng(n as u64);
            let mut coefficients = random_elements::<RiscZero4>(&mut rng, n);
            let z = random_elements::<RiscZero4>(&mut rng, 1)[0];
            let mut polynomial = stream.upload(&coefficients).unwrap();
            let remainder = divide_assign(stream, polynomial.view_mut(), z).unwrap();
            let mut carry = RiscZero4::ZERO;
            for c in coefficients.iter_mut().rev() {
                (carry, *c) = (carry * z + *c, carry);
            }
            assert_eq!(remainder.to_vec(stream).unwrap(), [carry], "{n}");
            assert_eq!(polynomial.to_vec(stream).unwrap(), coefficients, "{n}");
        }
    });
}

#[test]
fn single_coefficients_and_sums() {
    on_each_device(|stream| {
        let mut rng = rng(3);
        let polynomials = random_elements::<RiscZero4>(&mut rng, 30);
        let addends = random_elements::<RiscZero4>(&mut rng, 2);
        let mut values = stream.upload(&polynomials).unwrap();
        add_at(stream, values.view_mut(), &[(7, addends[0]), (20, addends[1])]).unwrap();
        let mut expected = polynomials;
        expected[7] += addends[0];
        expected[20] += addends[1];
        assert_eq!(values.to_vec(stream).unwrap(), expected);

        let mut sum = stream.alloc::<BabyBear>(40).unwrap();
        sum_into::<RiscZero4>(stream, sum.view_mut(), values.view()).unwrap();
        let sums: Vec<_> = (0..10).map(|i| expected[i] + expected[10 + i] + expected[20 + i]).collect();
        assert_eq!(from_slab::<RiscZero4>(&sum.to_vec(stream).unwrap()).unwrap(), sums);

        let twice = add_at(stream, values.view_mut(), &[(7, addends[0]), (7, addends[1])]);
        assert_says(twice, &["differ"]);
    });
}
