//! Upstream configurations, each with the parameters that it hides.

use p3_baby_bear::{BabyBear, Poseidon2BabyBear, default_babybear_poseidon2_16, default_babybear_poseidon2_24};
use p3_challenger::{DuplexChallenger, HashChallenger, SerializingChallenger32, SerializingChallenger64};
use p3_commit::ExtensionMmcs;
use p3_dft::Radix2DitParallel;
use p3_field::Field;
use p3_field::extension::{BinomialExtensionField, CubicTrinomialExtensionField};
use p3_fri::{FriParameters, HidingFriPcs, TwoAdicFriPcs};
use p3_goldilocks::{
    Goldilocks, Poseidon2Goldilocks, default_goldilocks_poseidon2_8, default_goldilocks_poseidon2_12,
};
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

/// FRI's parameters, with small defaults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fri {
    pub(crate) log_blowup: usize,
    pub(crate) log_final_poly_len: usize,
    pub(crate) max_log_arity: usize,
    pub(crate) num_queries: usize,
    pub(crate) pow_bits: [usize; 3],
    pub(crate) cap_height: usize,
}

impl Default for Fri {
    fn default() -> Self {
        Self {
            log_blowup: 1,
            log_final_poly_len: 0,
            max_log_arity: 3,
            num_queries: 9,
            pow_bits: [3, 0, 4],
            cap_height: 2,
        }
    }
}

impl Fri {
    pub(crate) fn parameters<M>(self, mmcs: M) -> FriParameters<M> {
        FriParameters {
            log_blowup: self.log_blowup,
            log_final_poly_len: self.log_final_poly_len,
            max_log_arity: self.max_log_arity,
            num_queries: self.num_queries,
            batch_proof_of_work_bits: self.pow_bits[0],
            commit_proof_of_work_bits: self.pow_bits[1],
            query_proof_of_work_bits: self.pow_bits[2],
            mmcs,
        }
    }
}

type Config<V, E, M, C> = StarkConfig<TwoAdicFriPcs<V, Radix2DitParallel<V>, M, ExtensionMmcs<V, E, M>>, E, C>;

fn config<V, E, M, C>(mmcs: M, challenger: C, fri: Fri) -> Config<V, E, M, C>
where
    V: p3_field::TwoAdicField + Ord,
    E: Clone,
    M: Clone,
    C: Clone,
{
    let parameters = fri.parameters(ExtensionMmcs::new(mmcs.clone()));
    StarkConfig::new(TwoAdicFriPcs::new(Radix2DitParallel::default(), mmcs, parameters), challenger)
}

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
pub(crate) type Challenger32<V> = SerializingChallenger32<V, HashChallenger<u8, Keccak256Hash, 32>>;
pub(crate) type Challenger64<V> = SerializingChallenger64<V, HashChallenger<u8, Keccak256Hash, 32>>;

pub(crate) type KoalaBear4 = BinomialExtensionField<KoalaBear, 4>;
pub(crate) type BabyBear4 = BinomialExtensionField<BabyBear, 4>;
pub(crate) type Goldilocks2 = BinomialExtensionField<Goldilocks, 2>;
pub(crate) type Goldilocks3 = CubicTrinomialExtensionField<Goldilocks>;

fn sponge_mmcs<V>(fri: Fri) -> SpongeMmcs<V> {
    let sponge = Sponge::new(KeccakF {});
    SpongeMmcs::new(SerializingHasher::new(sponge), CompressionFunctionFromHasher::new(sponge), fri.cap_height)
}

fn bytes_mmcs<V>(fri: Fri) -> BytesMmcs<V> {
    BytesMmcs::new(
        SerializingHasher::new(Keccak256Hash {}),
        CompressionFunctionFromHasher::new(Keccak256Hash {}),
        fri.cap_height,
    )
}

macro_rules! keccak {
    ($($name:ident: $field:ty, $extension:ty, $mmcs:ident = $make:ident, $challenger:ident;)*) => { $(
        pub(crate) fn $name(fri: Fri) -> Config<$field, $extension, $mmcs<$field>, $challenger<$field>> {
            config($make(fri), $challenger::from_hasher(vec![], Keccak256Hash {}), fri)
        }
    )* };
}
keccak! {
    koala_bear_sponge: KoalaBear, KoalaBear4, SpongeMmcs = sponge_mmcs, Challenger32;
    koala_bear_bytes: KoalaBear, KoalaBear4, BytesMmcs = bytes_mmcs, Challenger32;
    baby_bear_sponge: BabyBear, BabyBear4, SpongeMmcs = sponge_mmcs, Challenger32;
    baby_bear_bytes: BabyBear, BabyBear4, BytesMmcs = bytes_mmcs, Challenger32;
    goldilocks2_sponge: Goldilocks, Goldilocks2, SpongeMmcs = sponge_mmcs, Challenger64;
    goldilocks2_bytes: Goldilocks, Goldilocks2, BytesMmcs = bytes_mmcs, Challenger64;
    goldilocks3_sponge: Goldilocks, Goldilocks3, SpongeMmcs = sponge_mmcs, Challenger64;
}

// Poseidon2.

type Packed<V> = <V as Field>::Packing;

macro_rules! poseidon2 {
    ($($name:ident: $field:ty, $extension:ty, $permutation:ident, rows $width:literal / $rate:literal = $rows:expr,
        nodes $nodes:literal = $compress:expr, digest $digest:literal;)*) => { $(
        pub(crate) fn $name(fri: Fri) -> Config<
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
    koala_bear_poseidon2: KoalaBear, KoalaBear4, Poseidon2KoalaBear, rows 16 / 8 = default_koalabear_poseidon2_16(),
        nodes 16 = default_koalabear_poseidon2_16(), digest 8;
    koala_bear_poseidon2_wide: KoalaBear, KoalaBear4, Poseidon2KoalaBear,
        rows 24 / 16 = default_koalabear_poseidon2_24(), nodes 16 = default_koalabear_poseidon2_16(), digest 8;
    baby_bear_poseidon2: BabyBear, BabyBear4, Poseidon2BabyBear, rows 24 / 16 = default_babybear_poseidon2_24(),
        nodes 16 = default_babybear_poseidon2_16(), digest 8;
    baby_bear_poseidon2_narrow: BabyBear, BabyBear4, Poseidon2BabyBear, rows 16 / 8 = default_babybear_poseidon2_16(),
        nodes 16 = default_babybear_poseidon2_16(), digest 8;
    goldilocks2_poseidon2: Goldilocks, Goldilocks2, Poseidon2Goldilocks, rows 8 / 4 = default_goldilocks_poseidon2_8(),
        nodes 8 = default_goldilocks_poseidon2_8(), digest 4;
    goldilocks3_poseidon2: Goldilocks, Goldilocks3, Poseidon2Goldilocks, rows 8 / 4 = default_goldilocks_poseidon2_8(),
        nodes 8 = default_goldilocks_poseidon2_8(), digest 4;
    goldilocks3_poseidon2_wide: Goldilocks, Goldilocks3, Poseidon2Goldilocks,
        rows 12 / 8 = default_goldilocks_poseidon2_12(), nodes 8 = default_goldilocks_poseidon2_8(), digest 4;
}

/// Configurations with Poseidon2 of any constants: permutations for the trees' rows and nodes, and for the challenger.
macro_rules! poseidon2_of {
    ($($name:ident: $field:ty, $extension:ty, $permutation:ident, rows $width:literal / $rate:literal,
        nodes $nodes:literal, digest $digest:literal, challenger $wide:literal / $absorbed:literal;)*) => { $(
        pub(crate) fn $name(
            rows: &$permutation<$width>,
            nodes: &$permutation<$nodes>,
            challenger: &$permutation<$wide>,
            fri: Fri,
        ) -> Config<
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
            DuplexChallenger<$field, $permutation<$wide>, $wide, $absorbed>,
        > {
            let mmcs = MerkleTreeMmcs::new(
                PaddingFreeSponge::new(rows.clone()),
                TruncatedPermutation::new(nodes.clone()),
                fri.cap_height,
            );
            config(mmcs, DuplexChallenger::new(challenger.clone()), fri)
        }
    )* };
}
poseidon2_of! {
    koala_bear_poseidon2_of: KoalaBear, KoalaBear4, Poseidon2KoalaBear, rows 16 / 8, nodes 16, digest 8,
        challenger 16 / 8;
    koala_bear_poseidon2_wide_of: KoalaBear, KoalaBear4, Poseidon2KoalaBear, rows 32 / 24, nodes 24, digest 8,
        challenger 24 / 16;
    baby_bear_poseidon2_of: BabyBear, BabyBear4, Poseidon2BabyBear, rows 24 / 16, nodes 16, digest 8,
        challenger 16 / 8;
    goldilocks_poseidon2_of: Goldilocks, Goldilocks2, Poseidon2Goldilocks, rows 12 / 8, nodes 8, digest 4,
        challenger 8 / 4;
}

// Proofs that hide the trace.

/// Random columns of each matrix, as many as the largest extension has coefficients.
const CODEWORDS: usize = 4;

type HidingConfig<V, E, M, C> =
    StarkConfig<HidingFriPcs<V, Radix2DitParallel<V>, M, ExtensionMmcs<V, E, M>, StdRng>, E, C>;

fn hiding<V, E, M, C>(mmcs: M, challenger: C, fri: Fri) -> HidingConfig<V, E, M, C>
where
    V: p3_field::TwoAdicField + Ord,
    E: Clone,
    M: Clone,
    C: Clone,
{
    let parameters = fri.parameters(ExtensionMmcs::new(mmcs.clone()));
    let pcs =
        HidingFriPcs::new(Radix2DitParallel::default(), mmcs, parameters, CODEWORDS, StdRng::seed_from_u64(11));
    StarkConfig::new(pcs, challenger)
}

/// The generators of the configurations below.
pub(crate) fn streams() -> Hiding {
    let mut trees = Keystream::seed_from_u64(12);
    let fri_trees = trees.fork();
    Hiding::new(CODEWORDS, Keystream::seed_from_u64(11), trees, fri_trees)
}

type SpongeHidingMmcs<V, const SALTS: usize> = MerkleTreeHidingMmcs<
    [V; p3_keccak::VECTOR_LEN],
    [u64; p3_keccak::VECTOR_LEN],
    SerializingHasher<Sponge>,
    CompressionFunctionFromHasher<Sponge, 2, 4>,
    StdRng,
    2,
    4,
    SALTS,
>;

macro_rules! hiding_keccak {
    ($($name:ident: $field:ty, $extension:ty, salts $salts:literal, $challenger:ident;)*) => { $(
        pub(crate) fn $name(
            fri: Fri,
        ) -> HidingConfig<$field, $extension, SpongeHidingMmcs<$field, $salts>, $challenger<$field>> {
            let sponge = Sponge::new(KeccakF {});
            let (rows, nodes) = (SerializingHasher::new(sponge), CompressionFunctionFromHasher::new(sponge));
            let mmcs = MerkleTreeHidingMmcs::new(rows, nodes, fri.cap_height, StdRng::seed_from_u64(12));
            hiding(mmcs, $challenger::from_hasher(vec![], Keccak256Hash {}), fri)
        }
    )* };
}
hiding_keccak! {
    koala_bear_hiding: KoalaBear, KoalaBear4, salts 4, Challenger32;
    koala_bear_unsalted: KoalaBear, KoalaBear4, salts 0, Challenger32;
    goldilocks_hiding: Goldilocks, Goldilocks2, salts 2, Challenger64;
}

type BabyBearHidingMmcs = MerkleTreeHidingMmcs<
    Packed<BabyBear>,
    Packed<BabyBear>,
    PaddingFreeSponge<Poseidon2BabyBear<16>, 16, 8, 8>,
    TruncatedPermutation<Poseidon2BabyBear<16>, 2, 8, 16>,
    StdRng,
    2,
    8,
    4,
>;

/// Poseidon2 with round constants of its own, which are read from the configuration.
pub(crate) fn baby_bear_hiding(
    fri: Fri,
) -> HidingConfig<BabyBear, BabyBear4, BabyBearHidingMmcs, DuplexChallenger<BabyBear, Poseidon2BabyBear<16>, 16, 8>>
{
    let permutation = Poseidon2BabyBear::<16>::new_from_rng_128(&mut StdRng::seed_from_u64(13));
    let (rows, nodes) =
        (PaddingFreeSponge::new(permutation.clone()), TruncatedPermutation::new(permutation.clone()));
    let mmcs = MerkleTreeHidingMmcs::new(rows, nodes, fri.cap_height, StdRng::seed_from_u64(12));
    hiding(mmcs, DuplexChallenger::new(permutation), fri)
}
