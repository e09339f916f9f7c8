//! The configuration whose proofs hide the trace.

use p3_commit::ExtensionMmcs;
use p3_dft::Radix2DitParallel;
use p3_fri::HidingFriPcs;
use p3_keccak::{Keccak256Hash, KeccakF};
use p3_koala_bear::KoalaBear;
use p3_merkle_tree::MerkleTreeHidingMmcs;
use p3_symmetric::{CompressionFunctionFromHasher, SerializingHasher};
use p3_uni_stark::StarkConfig;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rigel_workloads_tables::Fri;
use rigel_workloads_tables::configs::{CODEWORDS, Challenger32, HIDING_SEEDS, Sponge};

use super::Extension;

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
    ExtensionMmcs<KoalaBear, Extension, HidingMmcs>,
    StdRng,
>;

pub(super) fn config(fri: &Fri) -> StarkConfig<HidingPcs, Extension, Challenger32<KoalaBear>> {
    let sponge = Sponge::new(KeccakF {});
    let (rows, nodes) = (SerializingHasher::new(sponge), CompressionFunctionFromHasher::new(sponge));
    let (salts, columns) = HIDING_SEEDS;
    let mmcs = HidingMmcs::new(rows, nodes, fri.cap_height, StdRng::seed_from_u64(salts));
    let parameters = fri.parameters(ExtensionMmcs::new(mmcs.clone()));
    let (dft, rng) = (Radix2DitParallel::default(), StdRng::seed_from_u64(columns));
    let pcs = HidingPcs::new(dft, mmcs, parameters, CODEWORDS, rng);
    StarkConfig::new(pcs, Challenger32::from_hasher(vec![], Keccak256Hash {}))
}
