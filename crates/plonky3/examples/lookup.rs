//! Two tables connected by a lookup: one sends pairs `(k, k^2)`, the other has a preprocessed table of all of
//! them.
//!
//! `cargo run --release -p rigel-plonky3 --example lookup`

use p3_air::{Air, AirBuilder, BaseAir, PermutationAirBuilder, WindowAccess};
use p3_batch_stark::verify_batch;
use p3_challenger::{HashChallenger, SerializingChallenger32};
use p3_commit::ExtensionMmcs;
use p3_dft::Radix2DitParallel;
use p3_field::PrimeCharacteristicRing;
use p3_field::extension::BinomialExtensionField;
use p3_fri::{FriParameters, TwoAdicFriPcs};
use p3_keccak::{Keccak256Hash, KeccakF};
use p3_koala_bear::KoalaBear;
use p3_lookup::{Count, InteractionBuilder};
use p3_matrix::dense::RowMajorMatrix;
use p3_merkle_tree::MerkleTreeMmcs;
use p3_symmetric::{CompressionFunctionFromHasher, PaddingFreeSponge, SerializingHasher};
use p3_uni_stark::StarkConfig;
use rigel_plonky3::{Instance, Prover, Result, prove_batch, setup_batch};

const SQUARES: usize = 1 << 10;

/// The tables of the batch.
#[derive(Clone)]
enum Table {
    /// Columns k and s, with the claim that s is the square of k.
    Claims,
    /// Preprocessed columns k and k^2, and the multiplicity of each row.
    Squares,
}

impl BaseAir<Value> for Table {
    fn width(&self) -> usize {
        match self {
            Self::Claims => 2,
            Self::Squares => 1,
        }
    }

    fn preprocessed_width(&self) -> usize {
        match self {
            Self::Claims => 0,
            Self::Squares => 2,
        }
    }

    fn preprocessed_trace(&self) -> Option<RowMajorMatrix<Value>> {
        let row = |k: usize| [Value::from_usize(k), Value::from_usize(k * k)];
        match self {
            Self::Claims => None,
            Self::Squares => Some(RowMajorMatrix::new((0..SQUARES).flat_map(row).collect(), 2)),
        }
    }
}

impl<AB: AirBuilder<F = Value> + PermutationAirBuilder + InteractionBuilder> Air<AB> for Table {
    fn eval(&self, builder: &mut AB) {
        let main = builder.main();
        let cell = |column: usize| -> AB::Expr { main.current(column).unwrap().into() };
        match self {
            Self::Claims => {
                builder.push_interaction("squares", [cell(0), cell(1)], Count::bounded(AB::Expr::ONE, 1));
            }
            Self::Squares => {
                let preprocessed = builder.preprocessed();
                let pair = [0, 1].map(|column| AB::Expr::from(preprocessed.current(column).unwrap()));
                builder.push_interaction("squares", pair, Count::provided(-cell(0)));
            }
        }
    }
}

fn main() -> Result<()> {
    let rows = 1 << 14;
    let mut times = vec![0; SQUARES];
    let mut claims = Vec::with_capacity(2 * rows);
    for row in 0..rows {
        let k = (row * 7 + 3) % SQUARES;
        times[k] += 1;
        claims.extend([Value::from_usize(k), Value::from_usize(k * k)]);
    }
    let claims = RowMajorMatrix::new(claims, 2);
    let times = RowMajorMatrix::new(times.into_iter().map(Value::from_usize).collect(), 1);

    let prover = prover()?;
    let airs = [Table::Claims, Table::Squares];
    // Done once for all proofs of these tables at these heights.
    let key = setup_batch(&prover, &airs, &[14, 10])?;
    let instances = [Instance::new(&airs[0], &claims, vec![]), Instance::new(&airs[1], &times, vec![])];
    let proven = prove_batch(&prover, &instances, &key)?;
    verify_batch(prover.config(), &airs, &proven.proof, &[vec![], vec![]], key.common())
        .expect("upstream accepts it");
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
