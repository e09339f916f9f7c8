//! Merkle roots, by Plonky3's trees and, for Blake2s, by the hashes of Stwo's trees.

use blake2::{Blake2s256, Digest};
use p3_baby_bear::{BabyBear, default_babybear_poseidon2_16};
use p3_commit::Mmcs;
use p3_field::{Field, PrimeField64};
use p3_goldilocks::{Goldilocks, default_goldilocks_poseidon2_8};
use p3_keccak::{KeccakF, VECTOR_LEN};
use p3_koala_bear::{KoalaBear, default_koalabear_poseidon2_16};
use p3_matrix::dense::RowMajorMatrix;
use p3_merkle_tree::MerkleTreeMmcs;
use p3_mersenne_31::Mersenne31;
use p3_symmetric::{CompressionFunctionFromHasher, PaddingFreeSponge, SerializingHasher, TruncatedPermutation};
use rayon::prelude::*;
use rigel_codegen::map::Type;

use super::slices::elements;
use crate::error::{Error, Result};
use crate::merkle::Hash;

/// The root of a Poseidon2 tree of this width, whose digests are half as wide, as stored elements.
macro_rules! poseidon2 {
    ($field:ty, $width:literal, $half:literal, $permutation:expr, $matrix:expr) => {{
        let rows = PaddingFreeSponge::<_, $width, $half, $half>::new($permutation);
        let nodes = TruncatedPermutation::<_, 2, $half, $width>::new($permutation);
        type Packed = <$field as Field>::Packing;
        let mmcs = MerkleTreeMmcs::<Packed, Packed, _, _, 2, $half>::new(rows, nodes, 0);
        let root: [$field; $half] = mmcs.commit_matrix($matrix).0.into_roots()[0];
        // SAFETY: both have the same size and no padding.
        unsafe { std::mem::transmute::<[$field; $half], [u8; 32]>(root) }
    }};
}

/// The root of the tree whose leaves are the hashes of the rows of a row-major matrix: that of
/// [`rigel_kernels::commit::merkle::MerkleTree::new`] with `KeccakSponge`, the field's Poseidon2 of width 16
/// (Goldilocks' of 8), or `Blake2s`.
pub(crate) fn merkle_root(hash: Hash, of: Type, rows: usize, columns: usize, values: &[u8]) -> Result<[u8; 32]> {
    if !rows.is_power_of_two() || columns == 0 || values.len() != rows * columns * of.bytes() {
        return Err(Error::shape(format!(
            "merkle_root: {} bytes as {rows} rows of {columns} elements of {of:?}; the number of rows must be a power \
             of two, and rows not empty",
            values.len()
        )));
    }
    Ok(match (hash, of) {
        (Hash::Keccak, Type::Mersenne31) => keccak::<Mersenne31>(matrix(values, columns)),
        (Hash::Keccak, Type::BabyBear) => keccak::<BabyBear>(matrix(values, columns)),
        (Hash::Keccak, Type::KoalaBear) => keccak::<KoalaBear>(matrix(values, columns)),
        (Hash::Keccak, Type::Goldilocks) => keccak::<Goldilocks>(matrix(values, columns)),
        (Hash::Poseidon2, Type::BabyBear) => {
            poseidon2!(BabyBear, 16, 8, default_babybear_poseidon2_16(), matrix(values, columns))
        }
        (Hash::Poseidon2, Type::KoalaBear) => {
            poseidon2!(KoalaBear, 16, 8, default_koalabear_poseidon2_16(), matrix(values, columns))
        }
        (Hash::Poseidon2, Type::Goldilocks) => {
            poseidon2!(Goldilocks, 8, 4, default_goldilocks_poseidon2_8(), matrix(values, columns))
        }
        (Hash::Blake2s, Type::Mersenne31 | Type::BabyBear | Type::KoalaBear) => {
            blake2s(values, columns * of.bytes())
        }
        (Hash::Keccak | Hash::Poseidon2 | Hash::Blake2s, _) => {
            return Err(Error::of_type(format!(
                "merkle_root: {hash:?} does not support {of:?}; Keccak supports every prime field, Poseidon2 \
                 BabyBear, KoalaBear and Goldilocks, Blake2s Mersenne31, BabyBear and KoalaBear"
            )));
        }
    })
}

/// Upstream's fields, which are one word in the same representation as in arrays.
trait Upstream: PrimeField64 {}
impl Upstream for Mersenne31 {}
impl Upstream for BabyBear {}
impl Upstream for KoalaBear {}
impl Upstream for Goldilocks {}

fn matrix<F: Upstream>(values: &[u8], columns: usize) -> RowMajorMatrix<F> {
    // SAFETY: the bytes are stored elements, in upstream's representation.
    RowMajorMatrix::new(unsafe { elements::<F>(values) }.into_owned(), columns)
}

fn keccak<F: Upstream>(matrix: RowMajorMatrix<F>) -> [u8; 32] {
    let sponge = PaddingFreeSponge::<KeccakF, 25, 17, 4>::new(KeccakF);
    let nodes = CompressionFunctionFromHasher::<_, 2, 4>::new(sponge);
    let rows = SerializingHasher::new(sponge);
    let mmcs = MerkleTreeMmcs::<[F; VECTOR_LEN], [u64; VECTOR_LEN], _, _, 2, 4>::new(rows, nodes, 0);
    let root = mmcs.commit_matrix(matrix).0.into_roots()[0];
    digest(root.iter().flat_map(|word| word.to_le_bytes()))
}

fn digest(bytes: impl Iterator<Item = u8>) -> [u8; 32] {
    bytes.collect::<Vec<_>>().try_into().expect("a digest has 32 bytes")
}

/// The root of a Blake2s-256 tree over rows of `row` bytes.
fn blake2s(values: &[u8], row: usize) -> [u8; 32] {
    let hash = |bytes: &[u8]| <[u8; 32]>::from(Blake2s256::digest(bytes));
    let mut layer: Vec<[u8; 32]> = values.par_chunks(row).with_min_len(64).map(hash).collect();
    while layer.len() > 1 {
        layer = layer.par_chunks(2).with_min_len(64).map(|pair| hash(pair.as_flattened())).collect();
    }
    layer[0]
}
