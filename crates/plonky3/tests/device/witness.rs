//! Traces that the device generates, against upstream's.

use p3_baby_bear::BabyBear;
use p3_field::PrimeField64;
use p3_goldilocks::Goldilocks;
use p3_keccak_air::{KeccakAir, generate_trace_rows};
use p3_koala_bear::KoalaBear;
use p3_matrix::Matrix as _;
use rand::RngExt;
use rigel_gpu::Stream;
use rigel_gpu::testing::on_each_device;
use rigel_plonky3::{DeviceField, prove, witness};

use crate::configs::{self, Fri};
use crate::support::{self, bytes};

fn check_keccak<V: DeviceField + PrimeField64>(stream: &Stream, permutations: usize) {
    let mut rng = support::rng(permutations as u64);
    let mut inputs: Vec<[u64; 25]> = (0..permutations).map(|_| rng.random()).collect();
    if let Some(last) = inputs.last_mut() {
        *last = [u64::MAX; 25];
    }
    let made = witness::keccak::<V>(stream, &inputs).unwrap();
    let expected = generate_trace_rows::<V>(inputs, 0);
    assert_eq!((made.rows(), made.columns()), (expected.height(), expected.width()));
    let columns = made.to_vec(stream).unwrap();
    let same = V::from_device(&columns) == expected.transpose().values;
    assert!(same, "{permutations} permutations");
}

#[test]
fn keccak_traces_equal_upstreams() {
    on_each_device(|stream| {
        for permutations in [0, 1, 2, 3, 11] {
            check_keccak::<KoalaBear>(stream, permutations);
        }
        check_keccak::<BabyBear>(stream, 5);
        check_keccak::<Goldilocks>(stream, 2);
    });
}

#[test]
fn a_proof_from_inputs_equals_upstreams() {
    on_each_device(|stream| {
        let fri = Fri::default();
        let prover = support::prover(stream.device(), &configs::koala_bear_sponge(fri), fri);
        let inputs = vec![support::rng(1).random()];
        let trace = witness::keccak::<KoalaBear>(stream, &inputs).unwrap();
        let proven = prove(&prover, &KeccakAir {}, &trace, &[]).unwrap();
        let expected = support::expected(prover.config(), &KeccakAir {}, &generate_trace_rows(inputs, 0), &[]);
        assert!(bytes(&proven.proof) == expected);
        assert!(proven.report.bytes_up < 1 << 20, "{}", proven.report);
    });
}
