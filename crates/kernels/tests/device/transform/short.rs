//! Extensions of many matrices against those of one, which equal Plonky3's.

use rigel_gpu::Stream;
use rigel_kernels::field::{BabyBear, Element, Field, Goldilocks, KoalaBear, Ring};
use rigel_kernels::transform::ntt::{self, Order, TwoAdic};
use rigel_kernels::transform::short::{Extension, extend_all};
use rigel_kernels::{Columns, Matrix};

use crate::support::{Upstream, on_each_device, random, rng};

const NATURAL: Order = Order::Natural;
const REVERSED: Order = Order::BitReversed;

/// Matrices of these logarithms of rows, columns and orders, each with a shift of its own.
fn check<F: Upstream + TwoAdic + Element<Base = F>>(
    stream: &Stream,
    shapes: &[(u32, usize, Order)],
    added_bits: u32,
) {
    let of_shape = |(i, &(log_rows, columns, _)): (usize, &(u32, usize, Order))| {
        let values: Vec<F> = random(&mut rng(u64::from(log_rows) + 100 * i as u64), columns << log_rows);
        Matrix::upload(stream, &values, 1 << log_rows).unwrap()
    };
    let matrices: Vec<Matrix<F>> = shapes.iter().enumerate().map(of_shape).collect();
    let extension = |(i, (matrix, &(.., order))): (usize, (_, &(u32, usize, Order)))| Extension {
        evaluations: Columns::from(matrix),
        order,
        shift: F::GENERATOR.pow(i as u64),
    };
    let extensions: Vec<_> = matrices.iter().zip(shapes).enumerate().map(extension).collect();
    let found = extend_all(stream, &extensions, added_bits).unwrap();
    assert_eq!(found.len(), shapes.len());
    for (&Extension { evaluations, order, shift }, found) in extensions.iter().zip(&found) {
        let expected = ntt::extend(stream, evaluations, added_bits, shift, order, REVERSED).unwrap();
        assert_eq!((found.rows(), found.columns()), (expected.rows(), expected.columns()));
        let (found, expected) = (found.to_vec(stream).unwrap(), expected.to_vec(stream).unwrap());
        let rows = evaluations.rows();
        assert!(found == expected, "{}, {rows} rows in {order:?} order, by {added_bits} bits", F::NAME);
    }
}

#[test]
fn many_matrices_are_extended_as_one() {
    on_each_device(|stream| {
        let shapes = [(3, 2, NATURAL), (0, 3, NATURAL), (9, 1, REVERSED), (1, 1, REVERSED), (6, 5, NATURAL)];
        check::<KoalaBear>(stream, &shapes, 1);
        check::<BabyBear>(stream, &shapes, 3);
        check::<Goldilocks>(stream, &shapes, 2);
        check::<Goldilocks>(stream, &shapes, 0);
        check::<KoalaBear>(stream, &[(12, 2, NATURAL), (11, 1, REVERSED)], 1);
        // The most shared memory, the most cosets, and both sides of the limits of rows and of blocks.
        check::<Goldilocks>(stream, &[(12, 2, NATURAL), (12, 1, REVERSED), (13, 1, NATURAL)], 1);
        check::<BabyBear>(stream, &[(5, 2, NATURAL), (4, 1, REVERSED)], 4);
        check::<KoalaBear>(stream, &[(2, 256, NATURAL), (2, 257, NATURAL), (3, 1, NATURAL)], 1);
    });
}

#[test]
fn more_matrices_than_fit_a_launch_and_long_ones_between_them() {
    on_each_device(|stream| {
        let mut shapes: Vec<_> = (0..67).map(|i| (i % 4, 1 + i as usize % 3, NATURAL)).collect();
        shapes.insert(5, (13, 2, NATURAL));
        shapes.insert(40, (2, 600, REVERSED));
        check::<KoalaBear>(stream, &shapes, 1);
        check::<KoalaBear>(stream, &[(4, 2, NATURAL), (3, 1, REVERSED)], 5);
        check::<KoalaBear>(stream, &[], 1);
    });
}

#[test]
fn what_cannot_be_extended_is_an_error() {
    on_each_device(|stream| {
        let extend = |rows: usize, shift: KoalaBear, added_bits: u32| {
            let matrix = Matrix::upload(stream, &vec![KoalaBear::GENERATOR; rows], rows).unwrap();
            let extension = Extension { evaluations: (&matrix).into(), order: NATURAL, shift };
            extend_all(stream, &[extension], added_bits).unwrap_err().to_string()
        };
        let shift = extend(4, KoalaBear::ZERO, 1);
        assert!(shift.contains("shift is zero"), "{shift}");
        let rows = extend(6, KoalaBear::ONE, 1);
        assert!(rows.contains("6 rows"), "{rows}");
        let bits = extend(4, KoalaBear::ONE, 30);
        assert!(bits.contains("30 bits"), "{bits}");
    });
}
