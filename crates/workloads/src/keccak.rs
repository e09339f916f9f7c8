//! Upstream's Keccak-f AIR: 24 rows per permutation, 2,633 columns.

use p3_field::PrimeField64;
use p3_keccak_air::{KeccakAir, NUM_ROUNDS, generate_trace_rows};
use p3_matrix::dense::RowMajorMatrix;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::single::OneTable;

impl<V: PrimeField64> OneTable<V> for KeccakAir {
    fn witness(&self, log_rows: u32) -> (RowMajorMatrix<V>, Vec<V>) {
        let mut rng = SmallRng::seed_from_u64(super::SEED);
        let permutations = (1usize << log_rows) / NUM_ROUNDS;
        let inputs = (0..permutations).map(|_| rng.random()).collect();
        (generate_trace_rows(inputs, 0), Vec::new())
    }
}
