//! Upstream's configurations: a field and its extension, a tree hash, a challenger.

// Only a full build uses all of them; generic functions that nothing calls cost no time.
#![cfg_attr(not(feature = "full"), allow(dead_code))]

use p3_baby_bear::{BabyBear, Poseidon2BabyBear, default_babybear_poseidon2_16, default_babybear_poseidon2_24};
use p3_challenger::{DuplexChallenger, HashChallenger, SerializingChallenger32, SerializingChallenger64};
use p3_commit::ExtensionMmcs;
use p3_dft::Radix2DitParallel;
use p3_field::Field;
use p3_field::extension::{BinomialExtensionField, CubicTrinomialExtensionField};
use p3_fri::{HidingFriPcs, TwoAdicFriPcs};
use p3_goldilocks::{Goldilocks, Poseidon2Goldilocks, default_goldilocks_poseidon2_8};
use p3_keccak::{Keccak256Hash, KeccakF};
use p3_koala_bear::{
    KoalaBear, Poseidon2KoalaBear, default_koalabear_poseidon2_16, default_koalabear_poseidon2_24,
};
use p3_merkle_tree::{MerkleTreeHidingMmcs, MerkleTreeMmcs};
use p3_symmetric::{CompressionFunctionFromHasher, PaddingFreeSponge, SerializingHasher, TruncatedPermutation};
use p3_uni_stark::StarkConfig;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rigel_plonky3::{Hiding, Keystream};

use super::fri::Fri;

type Config<V, E, M, C> = StarkConfig<TwoAdicFriPcs<V, Radix2DitParallel<V>, M, ExtensionMmcs<V, E, M>>, E, C>;

fn config<V, E, M, C>(mmcs: M, challenger: C, fri: &Fri) -> Config<V, E, M, C>
where
    V: p3_field::TwoAdicField + Ord,
    E: Clone,
    M: Clone,
    C: Clone,
{
    let parameters = fri.parameters(ExtensionMmcs::new(mmcs.clone()));
    StarkConfig::new(TwoAdicFriPcs::new(Radix2DitParallel::default(), mmcs, parameters), challenger)
}

type KoalaBear4 = BinomialExtensionField<KoalaBear, 4>;
type BabyBear4 = BinomialExtensionField<BabyBear, 4>;
type Goldilocks2 = BinomialExtensionField<Goldilocks, 2>;
type Goldilocks3 = CubicTrinomialExtensionField<Goldilocks>;

// Keccak.

type Sponge = PaddingFreeSponge<KeccakF, 25, 17, 4>;
type SpongeMmcs<V> = MerkleTreeMmcs<
    [V; p3_keccak::VECTOR_LEN],
    [u64; p3_keccak::VECTOR_LEN],
    SerializingHasher<Sponge>,
    CompressionFunctionFromHasher<Sponge, 2, 4>,
    2,
    4,
>;
type BytesMmcs<V> = MerkleTreeMmcs<
    V,
    u8,
    SerializingHasher<Keccak256Hash>,
    CompressionFunctionFromHasher<Keccak256Hash, 2, 32>,
    2,
    32,
>;
type Challenger32<V> = SerializingChallenger32<V, HashChallenger<u8, Keccak256Hash, 32>>;
type Challenger64<V> = SerializingChallenger64<V, HashChallenger<u8, Keccak256Hash, 32>>;

fn sponge_mmcs<V>(fri: &Fri) -> SpongeMmcs<V> {
    let sponge = Sponge::new(KeccakF {});
    SpongeMmcs::new(SerializingHasher::new(sponge), CompressionFunctionFromHasher::new(sponge), fri.cap_height)
}

fn bytes_mmcs<V>(fri: &Fri) -> BytesMmcs<V> {
    BytesMmcs::new(
        SerializingHasher::new(Keccak256Hash {}),
        CompressionFunctionFromHasher::new(Keccak256Hash {}),
        fri.cap_height,
    )
}

macro_rules! keccak {
    ($($name:ident: $field:ty, $extension:ty, $mmcs:ident = $make:ident, $challenger:ident;)*) => { $(
        pub(crate) fn $name(fri: &Fri) -> Config<$field, $extension, $mmcs<$field>, $challenger<$field>> {
            config($make(fri), $challenger::from_hasher(vec![], Keccak256Hash {}), fri)
        }
    )* };
}
keccak! {
    koala_bear_keccak: KoalaBear, KoalaBear4, SpongeMmcs = sponge_mmcs, Challenger32;
    koala_bear_keccak256: KoalaBear, KoalaBear4, BytesMmcs = bytes_mmcs, Challenger32;
    baby_bear_keccak: BabyBear, BabyBear4, SpongeMmcs = sponge_mmcs, Challenger32;
    goldilocks_keccak: Goldilocks, Goldilocks2, SpongeMmcs = sponge_mmcs, Challenger64;
    goldilocks3_keccak: Goldilocks, Goldilocks3, SpongeMmcs = sponge_mmcs, Challenger64;
}

// Poseidon2.

type Packed<V> = <V as Field>::Packing;

macro_rules! poseidon2 {
    ($($name:ident: $field:ty, $extension:ty, $permutation:ident, rows $width:literal / $rate:literal = $rows:expr,
        nodes $nodes:literal = $compress:expr, digest $digest:literal;)*) => { $(
        pub(crate) fn $name(fri: &Fri) -> Config<
            $field,
            $extension,
            MerkleTreeMmcs<
                Packed<$field>,
                Packed<$field>,
                PaddingFreeSponge<$permutation<$width>, $width, $rate, $digest>,
                TruncatedPermutation<$permutation<$nodes>, 2, $digest, $nodes>,
                2,
                $digest,
            >,
            DuplexChallenger<$field, $permutation<$width>, $width, $rate>,
        > {
            let mmcs = MerkleTreeMmcs::new(
                PaddingFreeSponge::new($rows),
                TruncatedPermutation::new($compress),
                fri.cap_height,
            );
            config(mmcs, DuplexChallenger::new($rows), fri)
        }
    )* };
}
poseidon2! {
    koala_bear_poseidon2: KoalaBear, KoalaBear4, Poseidon2KoalaBear, rows 24 / 16 = default_koalabear_poseidon2_24(),
        nodes 16 = default_koalabear_poseidon2_16(), digest 8;
    baby_bear_poseidon2: BabyBear, BabyBear4, Poseidon2BabyBear, rows 24 / 16 = default_babybear_poseidon2_24(),
        nodes 16 = default_babybear_poseidon2_16(), digest 8;
    goldilocks_poseidon2: Goldilocks, Goldilocks2, Poseidon2Goldilocks, rows 8 / 4 = default_goldilocks_poseidon2_8(),
        nodes 8 = default_goldilocks_poseidon2_8(), digest 4;
}

// Proofs that hide the trace. Their randomness comes from fixed seeds, as the witnesses do, so that every proof of a
// statement is the same and can be compared with upstream's.

/// The random columns of each matrix: as many as the extension has coefficients, which is the least.
const CODEWORDS: usize = 4;
/// The random elements of each leaf: 124 bits.
const SALTS: usize = 4;

type HidingMmcs = MerkleTreeHidingMmcs<
    [KoalaBear; p3_keccak::VECTOR_LEN],
    [u64; p3_keccak::VECTOR_LEN],
    SerializingHasher<Sponge>,
    CompressionFunctionFromHasher<Sponge, 2, 4>,
    StdRng,
    2,
    4,
    SALTS,
>;
type HidingPcs = HidingFriPcs<
    KoalaBear,
    Radix2DitParallel<KoalaBear>,
    HidingMmcs,
    ExtensionMmcs<KoalaBear, KoalaBear4, HidingMmcs>,
    StdRng,
>;

pub(crate) fn koala_bear_hiding(fri: &Fri) -> StarkConfig<HidingPcs, KoalaBear4, Challenger32<KoalaBear>> {
    let sponge = Sponge::new(KeccakF {});
    let (rows, nodes) = (SerializingHasher::new(sponge), CompressionFunctionFromHasher::new(sponge));
    let mmcs = HidingMmcs::new(rows, nodes, fri.cap_height, StdRng::seed_from_u64(1));
    let parameters = fri.parameters(ExtensionMmcs::new(mmcs.clone()));
    let (dft, rng) = (Radix2DitParallel::default(), StdRng::seed_from_u64(2));
    let pcs = HidingPcs::new(dft, mmcs, parameters, CODEWORDS, rng);
    StarkConfig::new(pcs, Challenger32::from_hasher(vec![], Keccak256Hash {}))
}

/// The generators of [`koala_bear_hiding`].
pub(crate) fn hiding_streams() -> Hiding {
    let mut trees = Keystream::seed_from_u64(1);
    let fri_trees = trees.fork();
    Hiding::new(CODEWORDS, Keystream::seed_from_u64(2), trees, fri_trees)
}
