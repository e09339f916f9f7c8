//! Batch inversion against upstream's.

use rigel_gpu::Stream;
use rigel_kernels::Matrix;
use rigel_kernels::field::*;
use rigel_kernels::vector::inverse::{invert, invert_assign};

use crate::oracle::{Oracle, assert_says, download, random_columns, upload};
use crate::support::{on_each_device, rng};

/// One value; odd rows; whole vectors; several blocks, the last one partial.
const SIZES: [(usize, usize); 5] = [(1, 1), (7, 3), (256, 2), (4_099, 2), (9_216, 1)];

fn check<E: Oracle>(stream: &Stream) {
    for (rows, columns) in SIZES {
        let x = random_columns::<E>(&mut rng(rows as u64), rows, columns);
        let inverses = |column: &Vec<E>| -> Vec<E> {
            let theirs: Vec<_> = column.iter().map(|value| value.theirs()).collect();
            E::inverses(&theirs).into_iter().map(E::ours).collect()
        };
        let expected: Vec<Vec<E>> = x.iter().map(inverses).collect();
        let found = invert::<E>(stream, &upload(stream, &x)).unwrap();
        assert!(download::<E>(stream, &found) == expected, "{} {rows} x {columns}", E::NAME);
    }
}

#[test]
fn inverses_equal_plonky3() {
    on_each_device(|stream| {
        check::<BabyBear>(stream);
        check::<KoalaBear>(stream);
        check::<Goldilocks>(stream);
    });
}

#[test]
fn inverses_in_quartic_extensions_equal_plonky3() {
    on_each_device(|stream| {
        check::<BabyBear4>(stream);
        check::<KoalaBear4>(stream);
    });
}

#[test]
fn inverses_in_goldilocks_extensions_equal_plonky3() {
    on_each_device(|stream| {
        check::<Goldilocks2>(stream);
        check::<Goldilocks3>(stream);
    });
}

#[test]
fn inverses_equal_stwo() {
    on_each_device(|stream| {
        check::<Mersenne31>(stream);
        check::<CM31>(stream);
        check::<QM31>(stream);
    });
}

/// Zeros leave the other inverses right: first, last, adjacent, a whole thread's share.
#[test]
fn zero_stays_zero() {
    fn check<E: Oracle>(stream: &Stream) {
        let mut x = random_columns::<E>(&mut rng(5), 2_000, 1);
        for i in [0, 1, 17, 18, 1_999].into_iter().chain(320..400) {
            x[0][i] = E::ZERO;
        }
        let found = &download::<E>(stream, &invert::<E>(stream, &upload(stream, &x)).unwrap())[0];
        for (i, (&value, &inverse)) in x[0].iter().zip(found).enumerate() {
            assert_eq!(inverse, value.inverse().unwrap_or(E::ZERO), "{} at {i}", E::NAME);
        }
    }
    on_each_device(|stream| {
        check::<KoalaBear>(stream);
        check::<Goldilocks>(stream);
        check::<Goldilocks3>(stream);
        check::<QM31>(stream);
    });
}

#[test]
fn nothing_but_zeros() {
    on_each_device(|stream| {
        let zeros = Matrix::<Goldilocks>::zeros(stream, 5_000, 2).unwrap();
        assert!(
            invert::<Goldilocks2>(stream, &zeros)
                .unwrap()
                .to_vec(stream)
                .unwrap()
                .iter()
                .all(|&x| x == Goldilocks::ZERO)
        );
        // The other stored word of zero.
        let zeros = Matrix::upload(stream, &[Goldilocks::from_word(Goldilocks::ORDER); 10], 10).unwrap();
        assert_eq!(invert::<Goldilocks>(stream, &zeros).unwrap().to_vec(stream).unwrap(), [Goldilocks::ZERO; 10]);
    });
}

#[test]
fn in_place_twice_is_the_identity() {
    on_each_device(|stream| {
        let x = random_columns::<KoalaBear4>(&mut rng(6), 3_001, 3);
        let mut matrix = upload(stream, &x);
        invert_assign::<KoalaBear4>(stream, &mut matrix).unwrap();
        assert!(download::<KoalaBear4>(stream, &matrix) != x);
        invert_assign::<KoalaBear4>(stream, &mut matrix).unwrap();
        assert!(download::<KoalaBear4>(stream, &matrix) == x);
    });
}

#[test]
fn wrong_shapes_are_refused() {
    on_each_device(|stream| {
        let matrix = |rows, columns| Matrix::<KoalaBear>::zeros(stream, rows, columns).unwrap();
        assert_says(invert::<KoalaBear>(stream, &matrix(0, 1)), &["inverse::invert", "0 rows"]);
        assert_says(invert::<KoalaBear>(stream, &matrix(1, 0)), &["0 columns"]);
        assert_says(invert_assign::<KoalaBear4>(stream, &mut matrix(8, 3)), &["invert_assign", "3 columns"]);
        assert_eq!(
            invert::<KoalaBear>(stream, &matrix(2, 1)).unwrap().to_vec(stream).unwrap(),
            [KoalaBear::ZERO; 2]
        );
    });
}
