//! Merkle trees and openings against Plonky3's `MerkleTreeMmcs`.

use p3_commit::{BatchOpeningRef, Mmcs};
use p3_field::{Field, PackedValue};
use p3_goldilocks::default_goldilocks_poseidon2_8;
use p3_keccak::{Keccak256Hash, KeccakF, VECTOR_LEN};
use p3_koala_bear::default_koalabear_poseidon2_16;
use p3_matrix::Dimensions;
use p3_matrix::dense::RowMajorMatrix;
use p3_merkle_tree::MerkleTreeMmcs;
use p3_symmetric::{
    CompressionFunctionFromHasher, CryptographicHasher, MerkleCap, PaddingFreeSponge, PseudoCompressionFunction,
    SerializingHasher, TruncatedPermutation,
};
use rigel_array::{Array, Digest32, Error, Hash, MerkleTree, Type};

use crate::{counting, on_each_device, random};

type Koala = p3_koala_bear::KoalaBear;
type Gold = p3_goldilocks::Goldilocks;

/// The bytes of a digest.
fn bytes<W: Copy, const WORDS: usize>(digest: &[W; WORDS]) -> Digest32 {
    assert_eq!(size_of_val(digest), 32);
    // SAFETY: words are integers or field elements, without padding.
    unsafe { std::mem::transmute_copy(digest) }
}

/// The digest of these bytes, which upstream made.
fn digest<W: Copy, const WORDS: usize>(bytes: &Digest32) -> [W; WORDS] {
    assert_eq!(size_of::<[W; WORDS]>(), 32);
    // SAFETY: as above.
    unsafe { std::mem::transmute_copy(bytes) }
}

/// Upstream's elements with the same bits.
fn upstream<F: Copy + Default>(array: &Array) -> Vec<F> {
    let mut values = vec![F::default(); array.bytes() / size_of::<F>()];
    // SAFETY: plain words of the same representation.
    let to = unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), array.bytes()) };
    array.read_into(to).unwrap();
    values
}

/// Compares caps and paths of trees of several shapes, and lets each side verify the other's openings.
fn check<P, W, H, C, const WORDS: usize>(of: Type, hash: Hash, rows: H, nodes: C)
where
    P: PackedValue<Value: Field + Default>,
    W: PackedValue<Value: Copy + Eq + serde::Serialize + serde::de::DeserializeOwned>,
    H: CryptographicHasher<P::Value, [W::Value; WORDS]> + CryptographicHasher<P, [W; WORDS]> + Clone + Sync,
    C: PseudoCompressionFunction<[W::Value; WORDS], 2> + PseudoCompressionFunction<[W; WORDS], 2> + Clone + Sync,
    [W::Value; WORDS]: serde::Serialize + serde::de::DeserializeOwned,
{
    on_each_device(|device| {
        for (shape, cap_height) in [(&[1, 3][..], 0), (&[2, 1], 1), (&[16, 9], 0), (&[32, 2, 4], 2)] {
            let what = format!("{of:?} {hash:?} {shape:?}, cap {cap_height}, on {device}");
            let array = random(shape, of, 7, device);
            let width = array.len() / shape[0] * of.degree();
            let mmcs = MerkleTreeMmcs::<P, W, H, C, 2, WORDS>::new(rows.clone(), nodes.clone(), cap_height);
            let matrix = RowMajorMatrix::new(upstream::<P::Value>(&array), width);
            let (commitment, data) = mmcs.commit(vec![matrix]);

            let tree = MerkleTree::new(&array, hash, cap_height as u32).unwrap();
            let cap: Vec<Digest32> = commitment.roots().iter().map(bytes).collect();
            assert_eq!(tree.cap(), cap, "{what}");
            assert_eq!(tree.root().unwrap(), array.merkle_root(hash).unwrap(), "{what}");
            let indices = [shape[0] - 1, 0, shape[0] / 3];
            // What the tree commits to does not change with the array.
            array.assign(random(shape, of, 8, device).lazy()).unwrap();
            for (index, opening) in indices.into_iter().zip(tree.open(&indices).unwrap()) {
                let theirs = mmcs.open_batch(index, &data);
                assert_eq!(opening.path, theirs.opening_proof.iter().map(bytes).collect::<Vec<_>>(), "{what}");
                assert!(upstream::<P::Value>(&opening.row) == theirs.opened_values[0], "{what}");
                assert_eq!(opening.row.shape(), &shape[1..]);
                assert!(hash.verify(tree.cap(), of, shape, &opening).unwrap(), "{what}");

                let proof: Vec<[W::Value; WORDS]> = opening.path.iter().map(digest).collect();
                let cap = MerkleCap::new(tree.cap().iter().map(digest).collect());
                let values = [upstream::<P::Value>(&opening.row)];
                let opened = BatchOpeningRef::new(&values, &proof);
                mmcs.verify_batch(&cap, &[Dimensions { width, height: shape[0] }], index, opened).unwrap();
            }
        }
    });
}

#[test]
fn poseidon2_trees_are_plonky3s() {
    type PackedKoala = <Koala as Field>::Packing;
    let permutation = default_koalabear_poseidon2_16;
    let rows = PaddingFreeSponge::<_, 16, 8, 8>::new(permutation());
    let nodes = TruncatedPermutation::<_, 2, 8, 16>::new(permutation());
    check::<PackedKoala, PackedKoala, _, _, 8>(Type::KoalaBear, Hash::Poseidon2, rows, nodes);

    type PackedGold = <Gold as Field>::Packing;
    let permutation = default_goldilocks_poseidon2_8;
    let rows = PaddingFreeSponge::<_, 8, 4, 4>::new(permutation());
    let nodes = TruncatedPermutation::<_, 2, 4, 8>::new(permutation());
    check::<PackedGold, PackedGold, _, _, 4>(Type::Goldilocks2, Hash::Poseidon2, rows, nodes);
}

#[test]
fn keccak_trees_are_plonky3s() {
    let sponge = PaddingFreeSponge::<KeccakF, 25, 17, 4>::new(KeccakF);
    let (rows, nodes) = (SerializingHasher::new(sponge), CompressionFunctionFromHasher::<_, 2, 4>::new(sponge));
    check::<[Koala; VECTOR_LEN], [u64; VECTOR_LEN], _, _, 4>(Type::KoalaBear4, Hash::Keccak, rows, nodes);

    let rows = SerializingHasher::new(Keccak256Hash);
    let nodes = CompressionFunctionFromHasher::<_, 2, 32>::new(Keccak256Hash);
    check::<Gold, u8, _, _, 32>(Type::Goldilocks, Hash::Keccak256, rows, nodes);
}

#[test]
fn wrong_openings_do_not_verify() {
    on_each_device(|device| {
        for (of, hash) in [(Type::KoalaBear, Hash::Poseidon2), (Type::Mersenne31, Hash::Blake2s)] {
            let tree = MerkleTree::new(&random(&[8, 5], of, 1, device), hash, 1).unwrap();
            let good = tree.open(&[5]).unwrap().remove(0);
            let verify = |opening: &_| hash.verify(tree.cap(), of, &[8, 5], opening).unwrap();
            assert!(verify(&good));
            let mut other = good.clone();
            other.index = 4;
            assert!(!verify(&other));
            other.index = 13;
            assert!(!verify(&other));
            let mut other = good.clone();
            other.path[1][3] ^= 1;
            assert!(!verify(&other));
            other.path[1] = [0xff; 32]; // no digest of field elements
            assert!(!verify(&other));
            let mut other = good.clone();
            other.path.pop();
            assert!(!verify(&other));
            let mut other = good.clone();
            other.row = other.row.add(1).unwrap();
            assert!(!verify(&other));
            assert!(!hash.verify(tree.cap(), of, &[16, 5], &good).unwrap());
        }
    });
}

/// A node does not pass for a row. Without the number of rows it could: Keccak's sponge gives both the same
/// digest.
#[test]
fn a_node_is_no_row() {
    let array = random(&[4, 4], Type::Goldilocks, 1, &rigel_array::Device::Cpu);
    let tree = MerkleTree::new(&array, Hash::Keccak, 0).unwrap();
    let [left, right] = [0, 1].map(|i| tree.open(&[i ^ 1]).unwrap()[0].path[0]);
    let mut forged = tree.open(&[0]).unwrap().remove(0);
    let words: Vec<u8> = [left, right].concat();
    forged.row = Array::from_bytes(&words, &[8], Type::Goldilocks, &rigel_array::Device::Cpu).unwrap();
    forged.path.remove(0);
    assert!(Hash::Keccak.verify(tree.cap(), Type::Goldilocks, &[2, 8], &forged).unwrap());
    assert!(!Hash::Keccak.verify(tree.cap(), Type::Goldilocks, &[4, 8], &forged).unwrap());
}

/// The sponges overwrite a state of zeros: without the width, zeros could be appended to a row or taken from its end.
/// Without the type, a row of coefficients could pass for one of extension elements.
#[test]
fn rows_of_another_width_or_type_do_not_verify() {
    let cpu = rigel_array::Device::Cpu;
    for hash in [Hash::Poseidon2, Hash::Keccak, Hash::Keccak256, Hash::Blake2s] {
        let row: Vec<i64> = [1, 2, 3, 0].repeat(4);
        let array = Array::from_slice(&row, &[4, 4], &cpu).unwrap().astype(Type::KoalaBear).unwrap();
        let tree = MerkleTree::new(&array, hash, 0).unwrap();
        let good = tree.open(&[2]).unwrap().remove(0);
        let verify = |row: Array| {
            let opening = rigel_array::Opening { row, ..good.clone() };
            hash.verify(tree.cap(), tree.dtype(), tree.shape(), &opening).unwrap()
        };
        let numbers =
            |row: &[i64]| Array::from_slice(row, &[row.len()], &cpu).unwrap().astype(Type::KoalaBear).unwrap();
        assert!(verify(numbers(&[1, 2, 3, 0])), "{hash:?}");
        assert!(!verify(numbers(&[1, 2, 3, 0, 0])), "{hash:?}");
        assert!(!verify(numbers(&[1, 2, 3, 0, 0, 0, 0, 0])), "{hash:?}");
        assert!(!verify(numbers(&[1, 2, 3])), "{hash:?}");
        assert!(!verify(numbers(&[1, 2, 3, 0]).reshape(&[2, 2]).unwrap()), "{hash:?}");
        let extension =
            numbers(&[1, 2, 3, 0]).reshape(&[1, 4]).unwrap().from_coefficients(Type::KoalaBear4).unwrap();
        assert!(!verify(extension), "{hash:?}");
    }
}

#[test]
fn what_has_no_tree_is_refused() {
    on_each_device(|device| {
        let refused = |array: &Array, hash, cap_height| match MerkleTree::new(array, hash, cap_height) {
            Err(error @ (Error::Type(_) | Error::Shape(_))) => error.to_string(),
            other => panic!("{}", other.err().map_or("a tree".to_owned(), |error| error.to_string())),
        };
        let mersenne = random(&[4, 2], Type::Mersenne31, 1, device);
        assert!(refused(&mersenne, Hash::Poseidon2, 0).contains("use keccak or keccak256 or blake2s"));
        let gold = random(&[4, 2], Type::Goldilocks, 1, device);
        assert!(refused(&gold, Hash::Blake2s, 0).contains("blake2s does not take rows of goldilocks"));
        assert!(refused(&counting(&[4], device), Hash::Keccak, 0).contains("needs field elements, not int64"));
        assert!(refused(&random(&[3, 2], Type::KoalaBear, 1, device), Hash::Keccak, 0).contains("power of two"));
        assert!(refused(&random(&[2, 0], Type::KoalaBear, 1, device), Hash::Keccak, 0).contains("not be empty"));
        assert!(refused(&gold, Hash::Keccak, 3).contains("at most 2"));
        let tree = MerkleTree::new(&gold, Hash::Keccak, 0).unwrap();
        assert!(matches!(tree.open(&[4]), Err(Error::Index(_))));
        assert!(tree.open(&[]).unwrap().is_empty());
        let opening = tree.open(&[0]).unwrap().remove(0);
        assert!(matches!(Hash::Keccak.verify(&[], Type::Goldilocks, &[4, 2], &opening), Err(Error::Shape(_))));
        assert!(matches!(
            Hash::Blake2s.verify(tree.cap(), Type::Goldilocks, &[4, 2], &opening),
            Err(Error::Type(_))
        ));
    });
}
