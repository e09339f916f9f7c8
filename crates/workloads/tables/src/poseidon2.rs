//! Upstream's Poseidon2 AIR, 8 permutations per row, over each field's own Poseidon2.
//!
//! S-boxes of degree 7 use one register each, so that all constraints have degree 3 and a blowup of 2 is enough.

use p3_field::PrimeField;
use p3_poseidon2::GenericPoseidon2LinearLayers;
use p3_poseidon2_air::{RoundConstants, VectorizedPoseidon2Air};
use rand::SeedableRng;
use rand::distr::{Distribution, StandardUniform};
use rand::rngs::SmallRng;
use rigel_plonky3::DeviceField;

use super::SEED;
use super::single::{OneTable, Witness};

/// Permutations per row.
pub const PERMUTATIONS: usize = 8;

/// The AIR over a field, with round constants from the seed of all workloads.
pub fn poseidon2_air<
    V,
    L,
    const WIDTH: usize,
    const DEGREE: u64,
    const REGISTERS: usize,
    const HALF_FULL: usize,
    const PARTIAL: usize,
>() -> VectorizedPoseidon2Air<V, L, WIDTH, DEGREE, REGISTERS, HALF_FULL, PARTIAL, PERMUTATIONS>
where
    V: PrimeField,
    L: GenericPoseidon2LinearLayers<WIDTH>,
    StandardUniform: Distribution<V> + Distribution<[V; WIDTH]>,
{
    VectorizedPoseidon2Air::new(RoundConstants::from_rng(&mut SmallRng::seed_from_u64(SEED)))
}

impl<
    V,
    L,
    const WIDTH: usize,
    const DEGREE: u64,
    const REGISTERS: usize,
    const HALF_FULL: usize,
    const PARTIAL: usize,
> OneTable<V> for VectorizedPoseidon2Air<V, L, WIDTH, DEGREE, REGISTERS, HALF_FULL, PARTIAL, PERMUTATIONS>
where
    V: DeviceField,
    L: GenericPoseidon2LinearLayers<WIDTH>,
    StandardUniform: Distribution<[V; WIDTH]>,
{
    fn witness(&self, log_rows: u32) -> Witness<V> {
        (self.generate_vectorized_trace_rows(PERMUTATIONS << log_rows, 0), Vec::new())
    }
}
