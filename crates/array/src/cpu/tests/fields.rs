//! Transforms, inverses and trees against the emulated device.

use rigel_codegen::map::Type;
use rigel_gpu::testing::on_each_device;
use rigel_gpu::{bytes_of, bytes_of_mut};
use rigel_kernels::commit::merkle::MerkleTree;
use rigel_kernels::field::{
    BabyBear, BabyBear4, CM31, Field, Goldilocks, Goldilocks2, Goldilocks3, KoalaBear, KoalaBear4, Mersenne31,
    QM31, Ring,
};
use rigel_kernels::hash::{
    BabyBearPoseidon2Width16, Blake2s, GoldilocksPoseidon2Width8, KeccakSponge, KoalaBearPoseidon2Width16, RowHash,
};
use rigel_kernels::transform::ntt::{self, Order, TwoAdic};
use rigel_kernels::{Columns, Matrix};

use super::{Random, rng};
use crate::cpu::{invert, merkle_root, transform};
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

/// Compares roots of trees over matrices of several sizes.
fn check_root<H: RowHash<F>, F: Field + Random>(hash: Hash) {
    on_each_device(|stream| {
        for (rows, columns) in [(1, 3), (2, 1), (8, 17), (64, 9), (256, 40)] {
            let values = F::many(&mut rng((rows + columns) as u64), rows * columns);
            let by_column: Vec<F> = (0..rows * columns).map(|i| values[i % rows * columns + i / rows]).collect();
            let matrix = Matrix::new(stream.upload(&by_column).unwrap(), rows, columns).unwrap();
            let tree = MerkleTree::<H>::new(stream, &[Columns::from(&matrix)], 0).unwrap();
            let theirs = tree.root(stream).unwrap();
            let ours = merkle_root(hash, F::OF, rows, columns, bytes_of(&values)).unwrap();
            assert_eq!(bytes_of(&[theirs]), ours, "{hash:?} {:?} {rows} {columns}", F::OF);
        }
    });
}

#[test]
fn roots_of_keccak() {
    check_root::<KeccakSponge, Mersenne31>(Hash::Keccak);
    check_root::<KeccakSponge, BabyBear>(Hash::Keccak);
    check_root::<KeccakSponge, KoalaBear>(Hash::Keccak);
    check_root::<KeccakSponge, Goldilocks>(Hash::Keccak);
}

#[test]
fn roots_of_poseidon2() {
    check_root::<BabyBearPoseidon2Width16, BabyBear>(Hash::Poseidon2);
    check_root::<KoalaBearPoseidon2Width16, KoalaBear>(Hash::Poseidon2);
    check_root::<GoldilocksPoseidon2Width8, Goldilocks>(Hash::Poseidon2);
}

#[test]
fn roots_of_blake2s() {
    check_root::<Blake2s, Mersenne31>(Hash::Blake2s);
    check_root::<Blake2s, BabyBear>(Hash::Blake2s);
    check_root::<Blake2s, KoalaBear>(Hash::Blake2s);
}

#[test]
fn what_has_no_tree_is_refused() {
    let refused = |hash, of: Type, rows, columns| {
        merkle_root(hash, of, rows, columns, &vec![0; rows * columns * of.bytes()]).unwrap_err().to_string()
    };
    assert!(refused(Hash::Poseidon2, Type::Mersenne31, 2, 3).contains("Poseidon2 BabyBear"));
    assert!(refused(Hash::Blake2s, Type::Goldilocks, 2, 3).contains("Blake2s Mersenne31"));
    assert!(refused(Hash::Keccak, Type::F32, 2, 3).contains("every prime field"));
    assert!(refused(Hash::Keccak, Type::KoalaBear, 3, 3).contains("power of two"));
    assert!(refused(Hash::Keccak, Type::KoalaBear, 2, 0).contains("not empty"));
}
