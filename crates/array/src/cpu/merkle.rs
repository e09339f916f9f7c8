//! Digests of Merkle trees, by Plonky3's trees and, for Blake2s, by the hashes of Stwo's trees.

use blake2::{Blake2s256, Digest};
use p3_baby_bear::{BabyBear, default_babybear_poseidon2_16};
use p3_field::{Field, PackedValue, PrimeField64};
use p3_goldilocks::{Goldilocks, default_goldilocks_poseidon2_8};
use p3_keccak::{Keccak256Hash, KeccakF, VECTOR_LEN};
use p3_koala_bear::{KoalaBear, default_koalabear_poseidon2_16};
use p3_matrix::dense::RowMajorMatrixView;
use p3_merkle_tree::MerkleTree;
use p3_mersenne_31::Mersenne31;
use p3_symmetric::{
    CompressionFunctionFromHasher, CryptographicHasher, PaddingFreeSponge, PseudoCompressionFunction,
    SerializingHasher, TruncatedPermutation,
};
use rayon::prelude::*;
use rigel_codegen::map::Type;

use super::slices::elements;
use crate::merkle::{Digest32, Hash};

/// Calls a function, generic over packed elements, packed words of a digest and their number, with the hash of rows and
/// the compression of nodes of a Plonky3 hash.
macro_rules! plonky3 {
    ($hash:expr, $of:expr, $function:ident($($argument:expr),*)) => {{
        macro_rules! keccak {
            ($field:ty) => {{
                let sponge = PaddingFreeSponge::<KeccakF, 25, 17, 4>::new(KeccakF);
                let rows = SerializingHasher::new(sponge);
                let nodes = CompressionFunctionFromHasher::<_, 2, 4>::new(sponge);
                type Words = [u64; VECTOR_LEN];
                $function::<[$field; VECTOR_LEN], Words, _, _, 4>(&rows, &nodes, $($argument),*)
            }};
        }
        macro_rules! keccak256 {
            ($field:ty) => {{
                let rows = SerializingHasher::new(Keccak256Hash);
                let nodes = CompressionFunctionFromHasher::<_, 2, 32>::new(Keccak256Hash);
                $function::<$field, u8, _, _, 32>(&rows, &nodes, $($argument),*)
            }};
        }
        macro_rules! poseidon2 {
            ($field:ty, $width:literal, $half:literal, $permutation:expr) => {{
                type Packed = <$field as Field>::Packing;
                let rows = PaddingFreeSponge::<_, $width, $half, $half>::new($permutation);
                let nodes = TruncatedPermutation::<_, 2, $half, $width>::new($permutation);
                $function::<Packed, Packed, _, _, $half>(&rows, &nodes, $($argument),*)
            }};
        }
        match ($hash, $of) {
            (Hash::Keccak, Type::Mersenne31) => keccak!(Mersenne31),
            (Hash::Keccak, Type::BabyBear) => keccak!(BabyBear),
            (Hash::Keccak, Type::KoalaBear) => keccak!(KoalaBear),
            (Hash::Keccak, Type::Goldilocks) => keccak!(Goldilocks),
            (Hash::Keccak256, Type::Mersenne31) => keccak256!(Mersenne31),
            (Hash::Keccak256, Type::BabyBear) => keccak256!(BabyBear),
            (Hash::Keccak256, Type::KoalaBear) => keccak256!(KoalaBear),
            (Hash::Keccak256, Type::Goldilocks) => keccak256!(Goldilocks),
            (Hash::Poseidon2, Type::BabyBear) => poseidon2!(BabyBear, 16, 8, default_babybear_poseidon2_16()),
            (Hash::Poseidon2, Type::KoalaBear) => poseidon2!(KoalaBear, 16, 8, default_koalabear_poseidon2_16()),
            (Hash::Poseidon2, Type::Goldilocks) => poseidon2!(Goldilocks, 8, 4, default_goldilocks_poseidon2_8()),
            (hash, of) => unreachable!("checked before: {hash:?} does not take rows of {of:?}"),
        }
    }};
}

/// All digests of the tree whose leaves are the hashes of the rows of a row-major matrix, layer after layer from the
/// leaves to the root: those of [`rigel_kernels::commit::merkle::MerkleTree::new`] with `KeccakSponge`, `Keccak256`,
/// the field's Poseidon2 of width 16 (Goldilocks' of 8), or `Blake2s`.
///
/// # Panics
/// If the number of rows is not a power of two, rows are empty, or the hash does not take rows of this field.
pub(crate) fn merkle_digests(hash: Hash, of: Type, columns: usize, values: &[u8]) -> Vec<Digest32> {
    match hash {
        Hash::Blake2s => blake2s_tree(values, columns * of.bytes()),
        _ => plonky3!(hash, of, tree(columns, values)),
    }
}

/// The digest of a row.
///
/// # Panics
/// If the hash does not take rows of this field.
pub(crate) fn hash_row(hash: Hash, of: Type, row: &[u8]) -> Digest32 {
    match hash {
        Hash::Blake2s => blake2s(row),
        _ => plonky3!(hash, of, row_digest(row)),
    }
}

/// The digest of a node with these children.
///
/// # Panics
/// As [`hash_row`].
pub(crate) fn compress(hash: Hash, of: Type, children: [Digest32; 2]) -> Digest32 {
    match hash {
        Hash::Blake2s => blake2s(children.as_flattened()),
        _ => plonky3!(hash, of, node_digest(children)),
    }
}

/// Upstream's fields, which are one word in the same representation as in arrays.
trait Upstream: PrimeField64 {}
impl Upstream for Mersenne31 {}
impl Upstream for BabyBear {}
impl Upstream for KoalaBear {}
impl Upstream for Goldilocks {}

fn tree<P, W, H, C, const WORDS: usize>(rows: &H, nodes: &C, columns: usize, values: &[u8]) -> Vec<Digest32>
where
    P: PackedValue<Value: Upstream>,
    W: PackedValue<Value: Copy>,
    H: CryptographicHasher<P::Value, [W::Value; WORDS]> + CryptographicHasher<P, [W; WORDS]> + Sync,
    C: PseudoCompressionFunction<[W::Value; WORDS], 2> + PseudoCompressionFunction<[W; WORDS], 2> + Sync,
{
    // SAFETY: the bytes are stored elements, in upstream's representation.
    let values = unsafe { elements::<P::Value>(values) };
    let matrix = RowMajorMatrixView::new(&values, columns);
    let tree = MerkleTree::<P::Value, W::Value, _, 2, WORDS>::new::<P, W, H, C>(rows, nodes, vec![matrix]);
    // The cap of each height is a layer.
    let layers = (0..tree.num_layers()).rev().map(|height| tree.cap(height).into_roots());
    layers.flatten().map(|digest| bytes(&digest)).collect()
}

fn row_digest<P, W, H, C, const WORDS: usize>(rows: &H, _: &C, row: &[u8]) -> Digest32
where
    P: PackedValue<Value: Upstream>,
    W: PackedValue<Value: Copy>,
    H: CryptographicHasher<P::Value, [W::Value; WORDS]>,
{
    // SAFETY: the bytes are stored elements, in upstream's representation.
    let row = unsafe { elements::<P::Value>(row) };
    bytes(&rows.hash_iter(row.iter().copied()))
}

// The parameters are those of all functions that the macro calls.
#[allow(clippy::extra_unused_type_parameters)]
fn node_digest<P, W, H, C, const WORDS: usize>(_: &H, nodes: &C, children: [Digest32; 2]) -> Digest32
where
    P: PackedValue<Value: Upstream>,
    W: PackedValue<Value: Copy>,
    C: PseudoCompressionFunction<[W::Value; WORDS], 2>,
{
    bytes(&nodes.compress(children.map(|child| words(&child))))
}

/// The memory of a digest.
fn bytes<W: Copy, const WORDS: usize>(digest: &[W; WORDS]) -> Digest32 {
    const { assert!(size_of::<[W; WORDS]>() == 32) };
    // SAFETY: both have the same size; words are integers or field elements, without padding.
    unsafe { std::mem::transmute_copy::<[W; WORDS], Digest32>(digest) }
}

/// The digest with this memory.
fn words<W: Copy, const WORDS: usize>(digest: &Digest32) -> [W; WORDS] {
    const { assert!(size_of::<[W; WORDS]>() == 32) };
    // SAFETY: both have the same size. Every bit pattern is an integer; words that are field elements come from digests
    // that were checked to be such (`merkle::is_digest`).
    unsafe { std::mem::transmute_copy::<Digest32, [W; WORDS]>(digest) }
}

fn blake2s(message: &[u8]) -> Digest32 {
    Blake2s256::digest(message).into()
}

/// The digests of a Blake2s-256 tree over rows of `row` bytes.
fn blake2s_tree(values: &[u8], row: usize) -> Vec<Digest32> {
    let mut digests: Vec<Digest32> = values.par_chunks(row).with_min_len(64).map(blake2s).collect();
    let mut start = 0;
    while digests.len() - start > 1 {
        let layer = digests[start..].par_chunks(2).with_min_len(64).map(|pair| blake2s(pair.as_flattened()));
        let layer: Vec<Digest32> = layer.collect();
        start = digests.len();
        digests.extend(layer);
    }
    digests
}
