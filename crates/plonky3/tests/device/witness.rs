//! Traces that the device generates, against upstream's.

use p3_baby_bear::{BabyBear, GenericPoseidon2LinearLayersBabyBear, Poseidon2BabyBear};
use p3_field::PrimeField64;
use p3_goldilocks::{GenericPoseidon2LinearLayersGoldilocks, Goldilocks, Poseidon2Goldilocks};
use p3_keccak_air::{KeccakAir, generate_trace_rows};
use p3_koala_bear::{GenericPoseidon2LinearLayersKoalaBear, KoalaBear, Poseidon2KoalaBear};
use p3_matrix::Matrix as _;
use p3_matrix::dense::RowMajorMatrix;
use p3_poseidon2::ExternalLayerConstants;
use p3_poseidon2_air::{RoundConstants, generate_vectorized_trace_rows};
use rand::RngExt;
use rigel_gpu::Stream;
use rigel_gpu::testing::on_each_device;
use rigel_kernels::Matrix;
use rigel_plonky3::witness::Poseidon2Rows;
use rigel_plonky3::{DeviceField, Error, prove, round_constants, witness};

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
    assert_same(stream, &made, &expected);
}

fn assert_same<V: DeviceField>(stream: &Stream, made: &Matrix<V::Device>, expected: &RowMajorMatrix<V>) {
    assert_eq!((made.rows(), made.columns()), (expected.height(), expected.width()));
    let columns = made.to_vec(stream).unwrap();
    let same = V::from_device(&columns) == expected.transpose().values;
    assert!(same, "{} rows of {} columns", made.rows(), made.columns());
}

#[test]
fn blake3_traces_equal_upstreams() {
    fn check<V: DeviceField + PrimeField64>(stream: &Stream, rows: usize) {
        let mut rng = support::rng(rows as u64);
        let mut inputs: Vec<[u32; 24]> = (0..rows).map(|_| rng.random()).collect();
        inputs[0] = [u32::MAX; 24];
        let made = witness::blake3::<V>(stream, &inputs).unwrap();
        assert_same::<V>(stream, &made, &p3_blake3_air::generate_trace_rows(inputs, 0));
    }
    on_each_device(|stream| {
        check::<KoalaBear>(stream, 1);
        check::<KoalaBear>(stream, 8);
        check::<BabyBear>(stream, 2);
        check::<Goldilocks>(stream, 2);
        let refused = witness::blake3::<KoalaBear>(stream, &[[0; 24]; 3]).err();
        assert!(matches!(refused, Some(Error::Height { rows: 3, .. })), "{refused:?}");
    });
}

#[test]
fn poseidon2_traces_equal_upstreams() {
    macro_rules! check {
        ($stream:expr, $field:ty, $permutation:ty, $layers:ty, width $width:literal, degree $degree:literal,
            registers $registers:literal, partial rounds $partial:literal, $per_row:literal per row,
            $rows:literal) => {{
            let mut rng = support::rng($width);
            let inputs: Vec<[$field; $width]> = (0..$rows * $per_row).map(|_| rng.random()).collect();
            let [initial, terminal]: [[[$field; $width]; 4]; 2] = rng.random();
            let partial: [$field; $partial] = std::array::from_fn(|_| rng.random());
            let shape = Poseidon2Rows { permutations: $per_row, registers: $registers };
            let constants =
                round_constants(&ExternalLayerConstants::new(initial.to_vec(), terminal.to_vec()), &partial);
            let made =
                witness::poseidon2::<$field, $permutation, $width>($stream, &inputs, &constants, shape).unwrap();
            let theirs = RoundConstants::new(initial, partial, terminal);
            let expected = generate_vectorized_trace_rows::<
                $field,
                $layers,
                $width,
                $degree,
                $registers,
                4,
                $partial,
                $per_row,
            >(inputs, &theirs, 0);
            assert_same::<$field>($stream, &made, &expected);
            constants
        }};
    }
    on_each_device(|stream| {
        let constants = check!(stream, KoalaBear, Poseidon2KoalaBear<16>, GenericPoseidon2LinearLayersKoalaBear,
            width 16, degree 3, registers 0, partial rounds 20, 8 per row, 4);
        check!(stream, KoalaBear, Poseidon2KoalaBear<24>, GenericPoseidon2LinearLayersKoalaBear,
            width 24, degree 3, registers 0, partial rounds 23, 1 per row, 2);
        check!(stream, BabyBear, Poseidon2BabyBear<16>, GenericPoseidon2LinearLayersBabyBear,
            width 16, degree 7, registers 1, partial rounds 13, 2 per row, 256);
        check!(stream, BabyBear, Poseidon2BabyBear<16>, GenericPoseidon2LinearLayersBabyBear,
            width 16, degree 7, registers 0, partial rounds 13, 1 per row, 1);
        check!(stream, Goldilocks, Poseidon2Goldilocks<8>, GenericPoseidon2LinearLayersGoldilocks,
            width 8, degree 7, registers 1, partial rounds 22, 3 per row, 8);

        let inputs = [[KoalaBear::default(); 16]; 6];
        let made = |registers, permutations| {
            let shape = Poseidon2Rows { permutations, registers };
            witness::poseidon2::<KoalaBear, Poseidon2KoalaBear<16>, 16>(stream, &inputs, &constants, shape).err()
        };
        assert!(matches!(made(0, 2), Some(Error::Height { rows: 3, .. })));
        assert!(made(1, 3).unwrap().to_string().contains("at most 0 registers"));
    });
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
