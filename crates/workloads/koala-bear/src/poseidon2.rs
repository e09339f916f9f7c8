//! Upstream's Poseidon2 AIR of width 16.

use p3_koala_bear::{
    GenericPoseidon2LinearLayersKoalaBear, KOALABEAR_POSEIDON2_HALF_FULL_ROUNDS,
    KOALABEAR_POSEIDON2_PARTIAL_ROUNDS_16, KOALABEAR_S_BOX_DEGREE, KoalaBear,
};
use p3_poseidon2_air::VectorizedPoseidon2Air;
use rigel_workloads_tables::{PERMUTATIONS, poseidon2_air};

type Air = VectorizedPoseidon2Air<
    KoalaBear,
    GenericPoseidon2LinearLayersKoalaBear,
    16,
    KOALABEAR_S_BOX_DEGREE,
    0,
    KOALABEAR_POSEIDON2_HALF_FULL_ROUNDS,
    KOALABEAR_POSEIDON2_PARTIAL_ROUNDS_16,
    PERMUTATIONS,
>;

pub(super) fn air() -> Air {
    poseidon2_air()
}
