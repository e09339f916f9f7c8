//! Upstream's Poseidon2 AIR, 8 permutations per row, over each field's own Poseidon2.
//!
//! S-boxes of degree 7 use one register each, so that all constraints have degree 3 and a blowup of 2 is enough.

use p3_goldilocks::{
    GOLDILOCKS_POSEIDON2_HALF_FULL_ROUNDS, GOLDILOCKS_POSEIDON2_PARTIAL_ROUNDS_8,
    GenericPoseidon2LinearLayersGoldilocks, Goldilocks,
};
use p3_koala_bear::{
    GenericPoseidon2LinearLayersKoalaBear, KOALABEAR_POSEIDON2_HALF_FULL_ROUNDS,
    KOALABEAR_POSEIDON2_PARTIAL_ROUNDS_16, KOALABEAR_S_BOX_DEGREE, KoalaBear,
};
use p3_matrix::dense::RowMajorMatrix;
use p3_poseidon2_air::{RoundConstants, VectorizedPoseidon2Air};
use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::single::OneTable;

/// Permutations per row.
const PERMUTATIONS: usize = 8;

/// A Poseidon2 AIR that generates its own round constants.
pub(crate) trait WithConstants {
    /// The AIR with round constants from the seed of all workloads.
    fn with_constants() -> Self;
}

macro_rules! airs {
    ($($name:ident: $field:ty, $layers:ty, width $width:literal, degree $degree:expr, registers $registers:literal,
        rounds $full:expr, $partial:expr;)*) => { $(
        #[doc = concat!("Poseidon2 over ", stringify!($field), ".")]
        pub(crate) type $name = VectorizedPoseidon2Air<
            $field, $layers, $width, { $degree }, $registers, { $full }, { $partial }, PERMUTATIONS
        >;

        impl WithConstants for $name {
            fn with_constants() -> Self {
                Self::new(RoundConstants::from_rng(&mut SmallRng::seed_from_u64(super::SEED)))
            }
        }

        impl OneTable<$field> for $name {
            fn witness(&self, log_rows: u32) -> (RowMajorMatrix<$field>, Vec<$field>) {
                (self.generate_vectorized_trace_rows(PERMUTATIONS << log_rows, 0), Vec::new())
            }
        }
    )* };
}
airs! {
    KoalaBearAir: KoalaBear, GenericPoseidon2LinearLayersKoalaBear, width 16,
        degree KOALABEAR_S_BOX_DEGREE, registers 0,
        rounds KOALABEAR_POSEIDON2_HALF_FULL_ROUNDS, KOALABEAR_POSEIDON2_PARTIAL_ROUNDS_16;
    GoldilocksAir: Goldilocks, GenericPoseidon2LinearLayersGoldilocks, width 8, degree 7, registers 1,
        rounds GOLDILOCKS_POSEIDON2_HALF_FULL_ROUNDS, GOLDILOCKS_POSEIDON2_PARTIAL_ROUNDS_8;
}
