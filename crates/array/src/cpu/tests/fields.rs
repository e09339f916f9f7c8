//! Transforms, inverses and trees against the emulated device.

use rigel_gpu::testing::on_each_device;
use rigel_gpu::{bytes_of, bytes_of_mut};
use rigel_kernels::commit::merkle::MerkleTree;
use rigel_kernels::field::{
    BabyBear, BabyBear4, CM31, Field, Goldilocks, Goldilocks2, Goldilocks3, KoalaBear, KoalaBear4, Mersenne31,
    QM31, Ring,
};
use rigel_kernels::hash::{
    BabyBearPoseidon2Width16, Blake2s, GoldilocksPoseidon2Width8, Keccak256, KeccakSponge,
    KoalaBearPoseidon2Width16, RowHash,
};
use rigel_kernels::transform::ntt::{self, Order, TwoAdic};
use rigel_kernels::{Columns, Matrix};

use super::{Random, rng};
use crate::cpu::{compress, hash_row, invert, merkle_digests, transform};
use crate::field::Transform;
use crate::merkle::Hash;

fn check_transforms<F: TwoAdic + Random>() {
    on_each_device(|stream| {
        for (rows, length) in [(1, 1), (3, 2), (5, 8), (40, 64), (1, 1024), (3, 1 << 15)] {
            let values = F::many(&mut rng(length as u64), rows * length);
            // Each polynomial is a column of a column-major matrix.
            let matrix = Matrix::new(stream.upload(&values).unwrap(), length, rows).unwrap();
            for shift in [F::ONE, F::GENERATOR] {
                let natural = Order::Natural;
                let theirs = [
                    (Transform::Forward, ntt::forward(stream, &matrix, shift, natural)),
                    (Transform::Inverse, ntt::inverse(stream, &matrix, shift, natural)),
                    (
                        Transform::Extend { log_blowup: 0 },
                        ntt::extend(stream, &matrix, 0, shift, natural, natural),
                    ),
                    (
                        Transform::Extend { log_blowup: 2 },
                        ntt::extend(stream, &matrix, 2, shift, natural, natural),
                    ),
                ];
                for (which, theirs) in theirs {
                    let theirs = theirs.unwrap().to_vec(stream).unwrap();
                    let mut ours = vec![F::ZERO; theirs.len()];
                    transform(F::OF, which, shift.to_u64(), length, bytes_of(&values), bytes_of_mut(&mut ours));
                    assert!(ours == theirs, "{:?}, {rows} rows of {length}", F::OF);
                }
            }
        }
    });
}

#[test]
fn transforms_of_baby_bear() {
    check_transforms::<BabyBear>();
}

#[test]
fn transforms_of_koala_bear() {
    check_transforms::<KoalaBear>();
}

#[test]
fn transforms_of_goldilocks() {
    check_transforms::<Goldilocks>();
}

#[test]
fn inverses() {
    fn of<T: Random + Ring>() {
        for count in [0, 1, 2, 1023, 1025, 10_000] {
            let mut values = T::many(&mut rng(count as u64), count);
            values.iter_mut().filter(|x| **x == T::ZERO).for_each(|x| *x = T::ONE);
            let mut found = vec![T::ZERO; count];
            assert!(invert(T::OF, bytes_of(&values), bytes_of_mut(&mut found)));
            assert!(values.iter().zip(&found).all(|(&x, &y)| x * y == T::ONE), "{:?}", T::OF);
            if count > 0 {
                values[count / 2] = T::ZERO;
                assert!(!invert(T::OF, bytes_of(&values), bytes_of_mut(&mut found)));
                let expected = |x: T| x.inverse().unwrap_or(T::ZERO);
                assert!(values.iter().zip(&found).all(|(&x, &y)| expected(x) == y), "{:?}", T::OF);
            }
        }
    }
    of::<Mersenne31>();
    of::<BabyBear>();
    of::<KoalaBear>();
    of::<Goldilocks>();
    of::<CM31>();
    of::<QM31>();
    of::<BabyBear4>();
    of::<KoalaBear4>();
    of::<Goldilocks2>();
    of::<Goldilocks3>();
}

/// Compares all digests of trees over matrices of several sizes.
fn check_digests<H: RowHash<F>, F: Field + Random>(hash: Hash) {
    on_each_device(|stream| {
        for (rows, columns) in [(1, 3), (2, 1), (8, 17), (64, 9), (256, 40)] {
            let values = F::many(&mut rng((rows + columns) as u64), rows * columns);
            let by_column: Vec<F> = (0..rows * columns).map(|i| values[i % rows * columns + i / rows]).collect();
            let matrix = Matrix::new(stream.upload(&by_column).unwrap(), rows, columns).unwrap();
            let tree = MerkleTree::<H>::new(stream, &[Columns::from(&matrix)], 0).unwrap();
            let theirs = tree.digests().to_vec(stream).unwrap();
            let ours = merkle_digests(hash, F::OF, columns, bytes_of(&values));
            assert_eq!(bytes_of(&theirs), ours.as_flattened(), "{hash:?} {:?} {rows} {columns}", F::OF);
            let row = hash_row(hash, F::OF, bytes_of(&values[..columns]));
            assert_eq!(row, ours[0]);
            if rows > 1 {
                assert_eq!(compress(hash, F::OF, [ours[0], ours[1]]), ours[rows]);
            }
        }
    });
}

#[test]
fn digests_of_keccak() {
    check_digests::<KeccakSponge, Mersenne31>(Hash::Keccak);
    check_digests::<KeccakSponge, BabyBear>(Hash::Keccak);
    check_digests::<KeccakSponge, KoalaBear>(Hash::Keccak);
    check_digests::<KeccakSponge, Goldilocks>(Hash::Keccak);
    check_digests::<Keccak256, KoalaBear>(Hash::Keccak256);
    check_digests::<Keccak256, Goldilocks>(Hash::Keccak256);
}

#[test]
fn digests_of_poseidon2() {
    check_digests::<BabyBearPoseidon2Width16, BabyBear>(Hash::Poseidon2);
    check_digests::<KoalaBearPoseidon2Width16, KoalaBear>(Hash::Poseidon2);
    check_digests::<GoldilocksPoseidon2Width8, Goldilocks>(Hash::Poseidon2);
}

#[test]
fn digests_of_blake2s() {
    check_digests::<Blake2s, Mersenne31>(Hash::Blake2s);
    check_digests::<Blake2s, BabyBear>(Hash::Blake2s);
    check_digests::<Blake2s, KoalaBear>(Hash::Blake2s);
}
