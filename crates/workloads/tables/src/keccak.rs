//! Upstream's Keccak-f AIR: 24 rows per permutation, 2,633 columns.

use p3_keccak_air::{KeccakAir, NUM_ROUNDS, generate_trace_rows};
use p3_matrix::dense::RowMajorMatrix;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rigel_gpu::Stream;
use rigel_kernels::Matrix;
use rigel_plonky3::{DeviceField, Result, witness};

use super::single::OneTable;

impl<V: DeviceField> OneTable<V> for KeccakAir {
    fn witness(&self, log_rows: u32) -> (RowMajorMatrix<V>, Vec<V>) {
        (generate_trace_rows(inputs(log_rows), 0), Vec::new())
    }

    fn trace_on(&self, stream: &Stream, log_rows: u32) -> Result<Option<Matrix<V::Device>>> {
        witness::keccak::<V>(stream, &inputs(log_rows)).map(Some)
    }
}

/// The inputs of as many permutations as there is room for.
fn inputs(log_rows: u32) -> Vec<[u64; 25]> {
    let mut rng = SmallRng::seed_from_u64(super::SEED);
    (0..(1usize << log_rows) / NUM_ROUNDS).map(|_| rng.random()).collect()
}
