//! Proofs for several clients: each is a thread that submits traces to one queue and waits for its own. `RIGEL_DEVICE`
//! names the device, or several: `all`, or a list such as `cuda:0,cuda:1`.
//!
//! `cargo run --release -p rigel-plonky3 --example serve -- [clients] [proofs of each] [log rows] [at once]`

use std::sync::Arc;
use std::time::Instant;

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
use rigel_gpu::Selectors;
use rigel_plonky3::{Prover, Queue, Result, prove};

/// `COLUMNS` sequences `x -> x^2 + column`.
struct Sequences;

const COLUMNS: usize = 256;

impl<F> BaseAir<F> for Sequences {
    fn width(&self) -> usize {
        COLUMNS
    }
}

impl<AB: AirBuilder> Air<AB> for Sequences {
    fn eval(&self, builder: &mut AB) {
        let main = builder.main();
        for column in 0..COLUMNS {
            let (x, next) = (main.current(column).unwrap(), main.next(column).unwrap());
            builder.when_transition().assert_eq(next, x * x + AB::Expr::from_usize(column));
        }
    }
}

fn trace(first: usize, rows: usize) -> RowMajorMatrix<KoalaBear> {
    let mut values: Vec<_> = (0..COLUMNS).map(|column| KoalaBear::from_usize(first + column)).collect();
    for i in COLUMNS..rows * COLUMNS {
        let before = values[i - COLUMNS];
        values.push(before * before + KoalaBear::from_usize(i % COLUMNS));
    }
    RowMajorMatrix::new(values, COLUMNS)
}

fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).filter_map(|number| number.parse::<usize>().ok());
    let mut next = |default| numbers.next().unwrap_or(default);
    let provers = provers()?;
    let prover = &provers[0];
    let (clients, each) = (next(4), next(8));
    let on_gpu = prover.device().is_some_and(|device| device.kind() == rigel_gpu::DeviceKind::Cuda);
    let (log_rows, at_once) = (next(if on_gpu { 15 } else { 6 }), next(3));
    let air = Arc::new(Sequences);
    let queue = Queue::over(&provers, at_once)?;

    // The first proof compiles the constraint kernels.
    for prover in &provers {
        prove(prover, &*air, trace(0, 1 << log_rows), &[])?;
    }
    let began = Instant::now();
    for i in 0..each {
        prove(prover, &*air, trace(i, 1 << log_rows), &[])?;
    }
    let alone = each as f64 / began.elapsed().as_secs_f64();

    let began = Instant::now();
    std::thread::scope(|scope| {
        for client in 0..clients {
            let (queue, air) = (&queue, &air);
            scope.spawn(move || {
                let make = |i: usize| queue.prove(air, trace(client * each + i, 1 << log_rows), vec![]);
                let tickets: Vec<_> = (0..each).map(make).collect();
                for ticket in tickets {
                    let proven = queue.wait(ticket).expect("it was submitted here").expect("it fits");
                    verify(prover.config(), &**air, &proven.proof, &[]).expect("upstream accepts the proof");
                }
            });
        }
    });
    let served = (clients * each) as f64 / began.elapsed().as_secs_f64();
    println!("{} proofs of 2^{log_rows} x {COLUMNS}, {at_once} at once: {served:.1} a second", clients * each);
    for share in queue.shares() {
        println!("  {}: {} proofs", share.device, share.jobs);
    }
    println!("one after the other: {alone:.1} a second (both with making the traces)");
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

/// An ordinary Plonky3 configuration, on the available devices.
fn provers() -> Result<Vec<Arc<Prover<Config>>>> {
    const CAP_HEIGHT: usize = 3;
    let sponge = Sponge::new(KeccakF {});
    let mmcs = Mmcs::new(SerializingHasher::new(sponge), CompressionFunctionFromHasher::new(sponge), CAP_HEIGHT);
    let fri = FriParameters::new_benchmark_high_arity(ExtensionMmcs::new(mmcs.clone()));
    let pcs = Pcs::new(Radix2DitParallel::default(), mmcs, fri.clone());
    let config = Config::new(pcs, Challenger::from_hasher(vec![], Keccak256Hash {}));
    let selectors = Selectors::from_env()?;
    if selectors.single().is_some() {
        return Ok(vec![Arc::new(Prover::open(config, &fri, CAP_HEIGHT)?)]);
    }
    let prover = |device| Ok(Arc::new(Prover::new(device, config.clone(), &fri, CAP_HEIGHT)?));
    selectors.open()?.into_iter().map(prover).collect()
}
