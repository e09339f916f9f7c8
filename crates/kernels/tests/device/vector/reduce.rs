//! Sums and dot products against upstream's arithmetic.

use rigel_gpu::Stream;
use rigel_kernels::Matrix;
use rigel_kernels::field::*;
use rigel_kernels::vector::reduce::{dots, sums};

use crate::oracle::{Oracle, assert_says, download, random_columns, random_elements, upload};
use crate::support::{on_each_device, rng};

/// One value; odd rows; parts that end early; rows of several parts; columns of several warps and blocks.
const SIZES: [(usize, usize); 6] = [(1, 1), (7, 3), (128, 5), (2_049, 4), (20_000, 1), (130, 37)];

fn check_sums<F: Field + Oracle<Base = F>>(stream: &Stream, rows: usize, columns: usize) {
    let x = random_columns::<F>(&mut rng(rows as u64), rows, columns);
    let found = sums(stream, &upload(stream, &x)).unwrap().to_vec(stream).unwrap();
    let zero = F::ZERO.theirs();
    let sum = |column: &Vec<F>| F::ours(column.iter().fold(zero, |sum, value| sum + value.theirs()));
    assert_eq!(found, x.iter().map(sum).collect::<Vec<_>>(), "{} {rows} x {columns}", F::NAME);
}

fn check_dots<E: Oracle>(stream: &Stream, rows: usize, columns: usize) {
    let mut rng = rng(rows as u64);
    let x = random_columns::<E::Base>(&mut rng, rows, columns);
    let w = random_elements::<E>(&mut rng, rows);
    let found = dots::<E>(stream, &upload(stream, &x), &upload(stream, std::slice::from_ref(&w))).unwrap();
    let lift = |value: E::Base| {
        let mut parts = vec![E::Base::ZERO; E::DEGREE];
        parts[0] = value;
        E::from_parts(&parts).unwrap().theirs()
    };
    let dot = |column: &Vec<E::Base>| {
        let terms = column.iter().zip(&w).map(|(&value, weight)| weight.theirs() * lift(value));
        E::ours(terms.fold(E::ZERO.theirs(), |sum, term| sum + term))
    };
    let expected: Vec<E> = x.iter().map(dot).collect();
    assert_eq!(download::<E>(stream, &found), [expected], "{} {rows} x {columns}", E::NAME);
}

#[test]
fn sums_equal_plonky3() {
    on_each_device(|stream| {
        for (rows, columns) in SIZES {
            check_sums::<BabyBear>(stream, rows, columns);
            check_sums::<KoalaBear>(stream, rows, columns);
            check_sums::<Goldilocks>(stream, rows, columns);
        }
    });
}

#[test]
fn sums_equal_stwo() {
    on_each_device(|stream| {
        SIZES.iter().for_each(|&(rows, columns)| check_sums::<Mersenne31>(stream, rows, columns))
    });
}

#[test]
fn dots_equal_plonky3() {
    on_each_device(|stream| {
        for (rows, columns) in SIZES {
            check_dots::<BabyBear>(stream, rows, columns);
            check_dots::<KoalaBear>(stream, rows, columns);
            check_dots::<Goldilocks>(stream, rows, columns);
        }
    });
}

#[test]
fn dots_with_extensions_equal_plonky3() {
    on_each_device(|stream| {
        for (rows, columns) in SIZES {
            check_dots::<BabyBear4>(stream, rows, columns);
            check_dots::<KoalaBear4>(stream, rows, columns);
            check_dots::<Goldilocks2>(stream, rows, columns);
            check_dots::<Goldilocks3>(stream, rows, columns);
        }
    });
}

#[test]
fn dots_equal_stwo() {
    on_each_device(|stream| {
        for (rows, columns) in SIZES {
            check_dots::<Mersenne31>(stream, rows, columns);
            check_dots::<CM31>(stream, rows, columns);
            check_dots::<QM31>(stream, rows, columns);
        }
    });
}

/// The largest stored words, so that accumulators come as close to overflow as possible.
#[test]
fn the_largest_values_do_not_overflow() {
    fn check<F: Field + Oracle<Base = F>>(stream: &Stream, largest: F) {
        let rows = 10_000;
        let column = upload(stream, &[vec![largest; rows]]);
        let count = F::from_u64(rows as u64);
        assert_eq!(sums(stream, &column).unwrap().to_vec(stream).unwrap(), [count * largest]);
        let found = dots::<F>(stream, &column, &column).unwrap().to_vec(stream).unwrap();
        assert_eq!(found, [count * largest * largest]);
    }
    on_each_device(|stream| {
        check(stream, BabyBear::from_word(BabyBear::ORDER as u32 - 1));
        check(stream, KoalaBear::from_word(KoalaBear::ORDER as u32 - 1));
        check(stream, Mersenne31::from_word(Mersenne31::ORDER as u32 - 1));
        check(stream, Goldilocks::from_word(u64::MAX));
    });
}

#[test]
fn wrong_shapes_are_refused() {
    on_each_device(|stream| {
        let matrix = |rows, columns| Matrix::<BabyBear>::zeros(stream, rows, columns).unwrap();
        assert_says(sums(stream, &matrix(0, 2)).map(|_| ()), &["reduce::sums", "0 rows"]);
        assert_says(sums(stream, &matrix(2, 0)).map(|_| ()), &["0 columns"]);
        assert_says(dots::<BabyBear>(stream, &matrix(0, 2), &matrix(0, 1)), &["reduce::dots", "0 rows"]);
        assert_says(dots::<BabyBear4>(stream, &matrix(8, 2), &matrix(8, 1)), &["weights of 8 x 1", "8 x 4"]);
        assert_says(dots::<BabyBear4>(stream, &matrix(8, 2), &matrix(4, 4)), &["weights of 4 x 4", "8 x 4"]);
        assert_eq!(sums(stream, &matrix(3, 2)).unwrap().to_vec(stream).unwrap(), [BabyBear::ZERO; 2]);
    });
}
