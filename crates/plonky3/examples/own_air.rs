//! A user-defined AIR, proved on the GPU (or on the CPU if there is none) and verified by upstream.
//!
//! `cargo run --release -p rigel-plonky3 --example own_air`

use p3_air::{Air, AirBuilder, BaseAir, WindowAccess};
use p3_challenger::{HashChallenger, SerializingChallenger32};
use p3_commit::ExtensionMmcs;
use p3_dft::Radix2DitParallel;
use p3_field::PrimeCharacteristicRing;
use p3_field::extension::BinomialExtensionField;
use p3_fri::{FriParameters, TwoAdicFriPcs};
use p3_keccak::{Keccak256Hash, KeccakF};
use p3_koala_bear::KoalaBear;
use p3_matrix::dense::RowMajorMatrix;
use p3_merkle_tree::MerkleTreeMmcs;
use p3_symmetric::{CompressionFunctionFromHasher, PaddingFreeSponge, SerializingHasher};
use p3_uni_stark::{StarkConfig, verify};
use rigel_plonky3::{Prover, Result, prove};

/// `x, y -> y, x y + 1`, from public values to a public result.
struct Recurrence;

impl<F> BaseAir<F> for Recurrence {
    fn width(&self) -> usize {
        2
    }

    fn num_public_values(&self) -> usize {
        3
    }
}

impl<AB: AirBuilder> Air<AB> for Recurrence {
    fn eval(&self, builder: &mut AB) {
        let publics: Vec<AB::Expr> = builder.public_values().iter().map(|&value| value.into()).collect();
        let main = builder.main();
        let [x, y] = [0, 1].map(|column| main.current(column).unwrap());
        let [next_x, next_y] = [0, 1].map(|column| main.next(column).unwrap());
        builder.when_first_row().assert_eq(x, publics[0].clone());
        builder.when_first_row().assert_eq(y, publics[1].clone());
        builder.when_transition().assert_eq(next_x, y);
        builder.when_transition().assert_eq(next_y, x * y + AB::Expr::ONE);
        builder.when_last_row().assert_eq(y, publics[2].clone());
    }
}

fn main() -> Result<()> {
    let rows = 1 << 12;
    let mut values = vec![Value::from_u64(3), Value::from_u64(5)];
    for row in 1..rows {
        let (x, y) = (values[2 * row - 2], values[2 * row - 1]);
        values.extend([y, x * y + Value::ONE]);
    }
    let public_values = [values[0], values[1], values[2 * rows - 1]];
    let trace = RowMajorMatrix::new(values, 2);

    let prover = prover()?;
    // The first proof compiles the constraint kernels and caches them on disk.
    prove(&prover, &Recurrence, &trace, &public_values)?;
    let proven = prove(&prover, &Recurrence, &trace, &public_values)?;
    verify(prover.config(), &Recurrence, &proven.proof, &public_values).expect("upstream accepts the proof");
    println!("verified; {}", proven.report);
    Ok(())
}

type Value = KoalaBear;
type Challenge = BinomialExtensionField<Value, 4>;
type Sponge = PaddingFreeSponge<KeccakF, 25, 17, 4>;
type Mmcs = MerkleTreeMmcs<
    [Value; p3_keccak::VECTOR_LEN],
    [u64; p3_keccak::VECTOR_LEN],
    SerializingHasher<Sponge>,
    CompressionFunctionFromHasher<Sponge, 2, 4>,
    2,
    4,
>;
type Pcs = TwoAdicFriPcs<Value, Radix2DitParallel<Value>, Mmcs, ExtensionMmcs<Value, Challenge, Mmcs>>;
type Challenger = SerializingChallenger32<Value, HashChallenger<u8, Keccak256Hash, 32>>;
type Config = StarkConfig<Pcs, Challenge, Challenger>;

/// An ordinary Plonky3 configuration, on the available device.
fn prover() -> Result<Prover<Config>> {
    const CAP_HEIGHT: usize = 3;
    let sponge = Sponge::new(KeccakF {});
    let mmcs = Mmcs::new(SerializingHasher::new(sponge), CompressionFunctionFromHasher::new(sponge), CAP_HEIGHT);
    let fri = FriParameters::new_benchmark_high_arity(ExtensionMmcs::new(mmcs.clone()));
    let pcs = Pcs::new(Radix2DitParallel::default(), mmcs, fri.clone());
    let config = Config::new(pcs, Challenger::from_hasher(vec![], Keccak256Hash {}));
    Prover::open(config, &fri, CAP_HEIGHT)
}
