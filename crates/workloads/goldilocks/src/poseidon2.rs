//! Upstream's Poseidon2 AIR of width 8, with one register for each S-box.

use p3_goldilocks::{
    GOLDILOCKS_POSEIDON2_HALF_FULL_ROUNDS, GOLDILOCKS_POSEIDON2_PARTIAL_ROUNDS_8,
    GenericPoseidon2LinearLayersGoldilocks, Goldilocks,
};
use p3_poseidon2_air::VectorizedPoseidon2Air;
use rigel_workloads_tables::{PERMUTATIONS, poseidon2_air};

type Air = VectorizedPoseidon2Air<
    Goldilocks,
    GenericPoseidon2LinearLayersGoldilocks,
    8,
    7,
    1,
    GOLDILOCKS_POSEIDON2_HALF_FULL_ROUNDS,
    GOLDILOCKS_POSEIDON2_PARTIAL_ROUNDS_8,
    PERMUTATIONS,
>;

pub(super) fn air() -> Air {
    poseidon2_air()
}
