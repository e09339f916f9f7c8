//! Upstream's Blake3 AIR: one compression per row.

use p3_blake3_air::{Blake3Air, generate_trace_rows};
use p3_matrix::dense::RowMajorMatrix;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rigel_plonky3::DeviceField;

use super::single::OneTable;

impl<V: DeviceField> OneTable<V> for Blake3Air {
    fn witness(&self, log_rows: u32) -> (RowMajorMatrix<V>, Vec<V>) {
        let mut rng = SmallRng::seed_from_u64(super::SEED);
        let inputs = (0..1usize << log_rows).map(|_| rng.random()).collect();
        (generate_trace_rows(inputs, 0), Vec::new())
    }
}
