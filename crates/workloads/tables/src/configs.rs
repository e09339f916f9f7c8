//! Upstream's configurations, generic in the field: its extension, a tree hash, a challenger.

use p3_challenger::{DuplexChallenger, HashChallenger, SerializingChallenger32, SerializingChallenger64};
use p3_commit::ExtensionMmcs;
use p3_dft::Radix2DitParallel;
use p3_field::{Field, TwoAdicField};
use p3_fri::TwoAdicFriPcs;
use p3_keccak::{Keccak256Hash, KeccakF};
use p3_merkle_tree::MerkleTreeMmcs;
use p3_symmetric::{CompressionFunctionFromHasher, PaddingFreeSponge, SerializingHasher, TruncatedPermutation};
use p3_uni_stark::StarkConfig;
use rand::SeedableRng;
use rigel_plonky3::{Hiding, Keystream};

use super::fri::Fri;

/// The configuration over a field and its extension, with trees and a challenger.
pub type StarkOf<V, E, M, C> =
    StarkConfig<TwoAdicFriPcs<V, Radix2DitParallel<V>, M, ExtensionMmcs<V, E, M>>, E, C>;

/// The configuration with these trees and this challenger.
pub fn config<V, E, M, C>(mmcs: M, challenger: C, fri: &Fri) -> StarkOf<V, E, M, C>
where
    V: TwoAdicField + Ord,
    E: Clone,
    M: Clone,
    C: Clone,
{
    let parameters = fri.parameters(ExtensionMmcs::new(mmcs.clone()));
    StarkConfig::new(TwoAdicFriPcs::new(Radix2DitParallel::default(), mmcs, parameters), challenger)
}

/// Keccak-f as a sponge of 64-bit words.
pub type Sponge = PaddingFreeSponge<KeccakF, 25, 17, 4>;

/// Trees of Keccak-f as a sponge.
pub type SpongeMmcs<V> = MerkleTreeMmcs<
    [V; p3_keccak::VECTOR_LEN],
    [u64; p3_keccak::VECTOR_LEN],
    SerializingHasher<Sponge>,
    CompressionFunctionFromHasher<Sponge, 2, 4>,
    2,
    4,
>;

/// Trees of Keccak-256.
pub type BytesMmcs<V> = MerkleTreeMmcs<
    V,
    u8,
    SerializingHasher<Keccak256Hash>,
    CompressionFunctionFromHasher<Keccak256Hash, 2, 32>,
    2,
    32,
>;

/// Trees of Poseidon2 permutations: `P` for rows, of width `W`, rate `R` and digests of `D` elements, `N` for nodes.
pub type Poseidon2Mmcs<V, P, N, const W: usize, const R: usize, const D: usize, const NW: usize> = MerkleTreeMmcs<
    <V as Field>::Packing,
    <V as Field>::Packing,
    PaddingFreeSponge<P, W, R, D>,
    TruncatedPermutation<N, 2, D, NW>,
    2,
    D,
>;

/// The configuration with [`Poseidon2Mmcs`] and a challenger of the rows' permutation.
pub type Poseidon2Config<V, E, P, N, const W: usize, const R: usize, const D: usize, const NW: usize> =
    StarkOf<V, E, Poseidon2Mmcs<V, P, N, W, R, D, NW>, DuplexChallenger<V, P, W, R>>;

/// Keccak-256 as a challenger over a field of 31 bits.
pub type Challenger32<V> = SerializingChallenger32<V, HashChallenger<u8, Keccak256Hash, 32>>;
/// Keccak-256 as a challenger over a field of 64 bits.
pub type Challenger64<V> = SerializingChallenger64<V, HashChallenger<u8, Keccak256Hash, 32>>;

/// Trees of Keccak-f as a sponge, with caps of the parameters' height.
pub fn sponge_mmcs<V>(fri: &Fri) -> SpongeMmcs<V> {
    let sponge = Sponge::new(KeccakF {});
    SpongeMmcs::new(SerializingHasher::new(sponge), CompressionFunctionFromHasher::new(sponge), fri.cap_height)
}

/// Trees of Keccak-256, with caps of the parameters' height.
pub fn bytes_mmcs<V>(fri: &Fri) -> BytesMmcs<V> {
    BytesMmcs::new(
        SerializingHasher::new(Keccak256Hash {}),
        CompressionFunctionFromHasher::new(Keccak256Hash {}),
        fri.cap_height,
    )
}

/// The configuration of a field of 31 bits with a Keccak-256 challenger.
pub fn keccak32<V, E, M>(mmcs: M, fri: &Fri) -> StarkOf<V, E, M, Challenger32<V>>
where
    V: TwoAdicField + Ord + p3_field::PrimeField32,
    E: Clone,
    M: Clone,
{
    config(mmcs, Challenger32::from_hasher(vec![], Keccak256Hash {}), fri)
}

/// The configuration of a field of 64 bits with a Keccak-256 challenger.
pub fn keccak64<V, E, M>(mmcs: M, fri: &Fri) -> StarkOf<V, E, M, Challenger64<V>>
where
    V: TwoAdicField + Ord + p3_field::PrimeField64,
    E: Clone,
    M: Clone,
{
    config(mmcs, Challenger64::from_hasher(vec![], Keccak256Hash {}), fri)
}

/// The configuration with Poseidon2 in trees and challenges: `rows` is also the permutation of the challenger.
pub fn poseidon2<V, E, P, N, const W: usize, const R: usize, const D: usize, const NW: usize>(
    rows: P,
    nodes: N,
    fri: &Fri,
) -> Poseidon2Config<V, E, P, N, W, R, D, NW>
where
    V: TwoAdicField + Ord,
    E: Clone,
    P: Clone + p3_symmetric::CryptographicPermutation<[V; W]>,
    N: Clone,
{
    let trees = MerkleTreeMmcs::new(
        PaddingFreeSponge::new(rows.clone()),
        TruncatedPermutation::new(nodes),
        fri.cap_height,
    );
    config(trees, DuplexChallenger::new(rows), fri)
}

/// The random columns of each matrix of a proof that hides the trace: as many as an extension of degree 4 has
/// coefficients, which is the least.
pub const CODEWORDS: usize = 4;

/// The seeds of the trees' salts and of the random columns. They are fixed, as the witnesses are, so that every proof
/// of a statement is the same and can be compared with upstream's.
pub const HIDING_SEEDS: (u64, u64) = (1, 2);

/// The generators of a configuration with [`HIDING_SEEDS`].
pub(crate) fn hiding_streams() -> Hiding {
    let mut trees = Keystream::seed_from_u64(HIDING_SEEDS.0);
    let fri_trees = trees.fork();
    Hiding::new(CODEWORDS, Keystream::seed_from_u64(HIDING_SEEDS.1), trees, fri_trees)
}
