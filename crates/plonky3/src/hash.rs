//! Maps upstream's tree hashes to kernels.

use p3_baby_bear::{BabyBear, Poseidon2BabyBear};
use p3_goldilocks::{Goldilocks, Poseidon2Goldilocks};
use p3_keccak::{Keccak256Hash, KeccakF};
use p3_koala_bear::{KoalaBear, Poseidon2KoalaBear};
use p3_symmetric::{CompressionFunctionFromHasher, PaddingFreeSponge, SerializingHasher, TruncatedPermutation};
use rigel_kernels::hash::{
    BabyBearPoseidon2Width16, BabyBearPoseidon2Width24, GoldilocksPoseidon2Width8, GoldilocksPoseidon2Width12,
    Hash, Keccak256, KeccakSponge, KoalaBearPoseidon2Width16, KoalaBearPoseidon2Width24, RowHash, Sponge,
};

use crate::field::DeviceField;

/// A pair of upstream types, a hash of rows of `V` and a compression of two digests, for which there is a
/// tree-hash kernel.
///
/// The Poseidon2 kernels use the constants of upstream's default instances. A configuration with other constants
/// has the same type; [`Prover::new`](crate::Prover::new) detects it by committing to a small matrix on both
/// sides.
pub trait TreeHash<V: DeviceField, Digest> {
    /// The kernel type.
    type Kernel: RowHash<V::Device> + Sponge;

    /// Converts a digest to upstream's type.
    fn digest(digest: <Self::Kernel as Hash>::Digest) -> Digest;
}

type KeccakFSponge = PaddingFreeSponge<KeccakF, 25, 17, 4>;

impl<V: DeviceField> TreeHash<V, [u64; 4]>
    for (SerializingHasher<KeccakFSponge>, CompressionFunctionFromHasher<KeccakFSponge, 2, 4>)
where
    KeccakSponge: RowHash<V::Device>,
{
    type Kernel = KeccakSponge;

    fn digest(digest: [u64; 4]) -> [u64; 4] {
        digest
    }
}

impl<V: DeviceField> TreeHash<V, [u8; 32]>
    for (SerializingHasher<Keccak256Hash>, CompressionFunctionFromHasher<Keccak256Hash, 2, 32>)
where
    Keccak256: RowHash<V::Device>,
{
    type Kernel = Keccak256;

    fn digest(digest: [u8; 32]) -> [u8; 32] {
        digest
    }
}

macro_rules! poseidon2 {
    ($(
        $field:ident, $permutation:ident: rows $width:literal / $rate:literal, nodes $nodes:literal,
        digest $digest:literal => $kernel:ident;
    )*) => { $(
        impl TreeHash<$field, [$field; $digest]>
            for (
                PaddingFreeSponge<$permutation<$width>, $width, $rate, $digest>,
                TruncatedPermutation<$permutation<$nodes>, 2, $digest, $nodes>,
            )
        {
            type Kernel = $kernel;

            fn digest(digest: <$kernel as Hash>::Digest) -> [$field; $digest] {
                digest.map(|word| $field::from_device(&[word])[0])
            }
        }
    )* };
}

poseidon2! {
    KoalaBear, Poseidon2KoalaBear: rows 16 / 8, nodes 16, digest 8 => KoalaBearPoseidon2Width16;
    KoalaBear, Poseidon2KoalaBear: rows 24 / 16, nodes 16, digest 8 => KoalaBearPoseidon2Width24;
    BabyBear, Poseidon2BabyBear: rows 16 / 8, nodes 16, digest 8 => BabyBearPoseidon2Width16;
    BabyBear, Poseidon2BabyBear: rows 24 / 16, nodes 16, digest 8 => BabyBearPoseidon2Width24;
    Goldilocks, Poseidon2Goldilocks: rows 8 / 4, nodes 8, digest 4 => GoldilocksPoseidon2Width8;
    Goldilocks, Poseidon2Goldilocks: rows 12 / 8, nodes 8, digest 4 => GoldilocksPoseidon2Width12;
}
