//! A batch on a third of the device memory that it takes otherwise: its tables are extended, looked up and constrained
//! some columns or rows at a time, and stay on the host if not even they fit. The proof is the same.
//!
//! `cargo run --release -p rigel-plonky3 --example little_memory -- [log rows] [proofs]`

use std::time::Instant;

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
use rigel_plonky3::{BatchKey, Instance, Prover, Result, plan_batch, prove_batch, setup_batch};

/// The columns of a machine, and the numbers that it looks up in each row, in its first columns.
const WIDTH: usize = 200;
const LOOKUPS: usize = 20;
const BYTES: usize = 1 << 8;

/// The tables of the batch.
#[derive(Clone)]
enum Table {
    /// Columns that begin with bytes; each other column is the square of the one `LOOKUPS` before.
    Machine,
    /// The preprocessed bytes, and how often each is looked up.
    Bytes,
}

impl BaseAir<Value> for Table {
    fn width(&self) -> usize {
        match self {
            Self::Machine => WIDTH,
            Self::Bytes => 1,
        }
    }

    fn preprocessed_width(&self) -> usize {
        usize::from(matches!(self, Self::Bytes))
    }

    fn preprocessed_trace(&self) -> Option<RowMajorMatrix<Value>> {
        match self {
            Self::Machine => None,
            Self::Bytes => Some(RowMajorMatrix::new((0..BYTES).map(Value::from_usize).collect(), 1)),
        }
    }
}

impl<AB: AirBuilder<F = Value> + PermutationAirBuilder + InteractionBuilder> Air<AB> for Table {
    fn eval(&self, builder: &mut AB) {
        let main = builder.main();
        let cell = |column: usize| -> AB::Expr { main.current(column).unwrap().into() };
        match self {
            Self::Machine => {
                for column in LOOKUPS..WIDTH {
                    builder.assert_eq(cell(column), cell(column - LOOKUPS).square());
                }
                for column in 0..LOOKUPS {
                    builder.push_interaction("bytes", [cell(column)], Count::bounded(AB::Expr::ONE, 1));
                }
            }
            Self::Bytes => {
                let byte: AB::Expr = builder.preprocessed().current(0).unwrap().into();
                builder.push_interaction("bytes", [byte], Count::provided(-cell(0)));
            }
        }
    }
}

/// Machines of 2^`log_rows`, half as many and a quarter as many rows, and the bytes that they look up.
fn traces(log_rows: usize) -> Vec<RowMajorMatrix<Value>> {
    let mut times = vec![0usize; BYTES];
    let mut traces = Vec::new();
    for log_rows in (log_rows - 2..=log_rows).rev() {
        let mut values = Vec::with_capacity(WIDTH << log_rows);
        for row in 0..1usize << log_rows {
            for column in 0..LOOKUPS {
                let byte = (row * 31 + column * 77 + log_rows) % BYTES;
                times[byte] += 1;
                values.push(Value::from_usize(byte));
            }
            for _ in LOOKUPS..WIDTH {
                let before: Value = values[values.len() - LOOKUPS];
                values.push(before.square());
            }
        }
        traces.push(RowMajorMatrix::new(values, WIDTH));
    }
    traces.push(RowMajorMatrix::new(times.into_iter().map(Value::from_usize).collect(), 1));
    traces
}

fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).filter_map(|number| number.parse::<usize>().ok());
    let prover = prover()?;
    let Some(device) = prover.device().cloned() else {
        println!("There is no device to prove on. Try RIGEL_DEVICE=emulated.");
        return Ok(());
    };
    let on_gpu = device.kind() == rigel_gpu::DeviceKind::Cuda;
    let log_rows = numbers.next().unwrap_or(if on_gpu { 19 } else { 11 }).max(11);
    let proofs = numbers.next().unwrap_or(if on_gpu { 9 } else { 1 }).max(1);

    let airs = [Table::Machine, Table::Machine, Table::Machine, Table::Bytes];
    let key = setup_batch(&prover, &airs, &[log_rows, log_rows - 1, log_rows - 2, BYTES.ilog2() as usize])?;
    let traces = traces(log_rows);
    let plan = plan_batch(&prover, &airs, &key)?;
    println!("{} tables, the highest of 2^{log_rows} rows\n{plan}", airs.len());

    let (enough, expected) = median(&prover, &airs, &traces, &key, proofs)?;
    let limit = device.memory_stats().in_use + plan.peak().bytes / 3;
    device.set_memory_limit(Some(limit));
    println!("\non a third of that\n{}", plan_batch(&prover, &airs, &key)?);
    let (little, proof) = median(&prover, &airs, &traces, &key, proofs)?;
    assert!(proof == expected, "the proofs differ");
    println!("\n{enough:.1} ms with enough memory, {little:.1} ms on a third: {:.2} times", little / enough);
    Ok(())
}

/// The median time of some proofs in milliseconds, and their bytes.
fn median(
    prover: &Prover<Config>,
    airs: &[Table],
    traces: &[RowMajorMatrix<Value>],
    key: &BatchKey<Config>,
    proofs: usize,
) -> Result<(f64, Vec<u8>)> {
    let prove = || {
        let instances: Vec<_> =
            airs.iter().zip(traces).map(|(air, trace)| Instance::new(air, trace, vec![])).collect();
        prove_batch(prover, &instances, key)
    };
    // The first proof compiles the kernels.
    let proven = prove()?;
    verify_batch(prover.config(), airs, &proven.proof, &vec![vec![]; airs.len()], key.common())
        .expect("upstream accepts it");
    rigel_gpu::background::finish();
    let mut times = Vec::with_capacity(proofs);
    for made in 1..=proofs {
        let began = Instant::now();
        let report = prove()?.report;
        times.push(began.elapsed().as_secs_f64() * 1e3);
        if made == proofs {
            println!("{report}");
        }
    }
    times.sort_by(f64::total_cmp);
    Ok((times[proofs / 2], postcard::to_allocvec(&proven.proof).expect("a proof can be written")))
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
