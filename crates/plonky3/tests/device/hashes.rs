//! Upstream's AIRs of hash functions: wide traces and many constraints.

use p3_baby_bear::{
    BABYBEAR_POSEIDON2_HALF_FULL_ROUNDS, BABYBEAR_POSEIDON2_PARTIAL_ROUNDS_16, BABYBEAR_S_BOX_DEGREE, BabyBear,
    GenericPoseidon2LinearLayersBabyBear,
};
use p3_blake3_air::Blake3Air;
use p3_keccak_air::KeccakAir;
use p3_koala_bear::{
    GenericPoseidon2LinearLayersKoalaBear, KOALABEAR_POSEIDON2_HALF_FULL_ROUNDS,
    KOALABEAR_POSEIDON2_PARTIAL_ROUNDS_16, KOALABEAR_S_BOX_DEGREE, KoalaBear,
};
use p3_poseidon2_air::{RoundConstants, VectorizedPoseidon2Air};
use rand::RngExt;
use rigel_gpu::testing::on_each_device;

use crate::configs::{self, Fri};
use crate::support;

#[test]
fn keccak() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let input = || vec![support::rng(1).random()];
        let trace = p3_keccak_air::generate_trace_rows(input(), 0);
        support::check(stream.device(), &configs::koala_bear_sponge(fri), fri, &KeccakAir {}, &trace, &[]);
        let trace = p3_keccak_air::generate_trace_rows(input(), 0);
        support::check(stream.device(), &configs::goldilocks2_sponge(fri), fri, &KeccakAir {}, &trace, &[]);
    });
}

#[test]
fn poseidon2() {
    on_each_device(|stream| {
        let mut rng = support::rng(2);
        let fri = Fri::default();
        let air: VectorizedPoseidon2Air<
            KoalaBear,
            GenericPoseidon2LinearLayersKoalaBear,
            16,
            KOALABEAR_S_BOX_DEGREE,
            0,
            KOALABEAR_POSEIDON2_HALF_FULL_ROUNDS,
            KOALABEAR_POSEIDON2_PARTIAL_ROUNDS_16,
            2,
        > = VectorizedPoseidon2Air::new(RoundConstants::from_rng(&mut rng));
        let trace = air.generate_vectorized_trace_rows(2 * 8, 0);
        support::check(stream.device(), &configs::koala_bear_poseidon2(fri), fri, &air, &trace, &[]);

        let air: VectorizedPoseidon2Air<
            BabyBear,
            GenericPoseidon2LinearLayersBabyBear,
            16,
            BABYBEAR_S_BOX_DEGREE,
            1,
            BABYBEAR_POSEIDON2_HALF_FULL_ROUNDS,
            BABYBEAR_POSEIDON2_PARTIAL_ROUNDS_16,
            1,
        > = VectorizedPoseidon2Air::new(RoundConstants::from_rng(&mut rng));
        let trace = air.generate_vectorized_trace_rows(4, 0);
        support::check(stream.device(), &configs::baby_bear_sponge(fri), fri, &air, &trace, &[]);
    });
}

#[test]
fn blake3() {
    on_each_device(|stream| {
        let mut rng = support::rng(3);
        let fri = Fri::default();
        let inputs = (0..2).map(|_| rng.random()).collect();
        let trace = p3_blake3_air::generate_trace_rows(inputs, 0);
        support::check(stream.device(), &configs::koala_bear_sponge(fri), fri, &Blake3Air {}, &trace, &[]);
    });
}
