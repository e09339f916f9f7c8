//! Keccak permutations proven from their inputs: the trace is generated on the device.
//!
//! `cargo run --release -p rigel-plonky3 --example keccak_inputs -- [log rows] [proofs]`

use std::time::Instant;

use p3_challenger::{HashChallenger, SerializingChallenger32};
use p3_commit::ExtensionMmcs;
use p3_dft::Radix2DitParallel;
use p3_field::extension::BinomialExtensionField;
use p3_fri::{FriParameters, TwoAdicFriPcs};
use p3_keccak::{Keccak256Hash, KeccakF};
use p3_keccak_air::KeccakAir;
use p3_koala_bear::KoalaBear;
use p3_merkle_tree::MerkleTreeMmcs;
use p3_symmetric::{CompressionFunctionFromHasher, PaddingFreeSponge, SerializingHasher};
use p3_uni_stark::{StarkConfig, verify};
use rigel_plonky3::{Prover, Result, prove, witness};

fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).filter_map(|number| number.parse::<usize>().ok());
    let prover = prover()?;
    let Some(device) = prover.device() else {
        println!("There is no device to generate a trace on. Try RIGEL_DEVICE=emulated.");
        return Ok(());
    };
    let on_gpu = device.kind() == rigel_gpu::DeviceKind::Cuda;
    let log_rows = numbers.next().unwrap_or(if on_gpu { 17 } else { 5 });
    let proofs = numbers.next().unwrap_or(if on_gpu { 10 } else { 1 });
    let permutations = ((1usize << log_rows) / 24).max(1);
    let inputs = |first: usize| -> Vec<[u64; 25]> {
        (0..permutations).map(|i| std::array::from_fn(|word| (first + i * 25 + word) as u64)).collect()
    };
    let stream = device.compute()?;

    // The first proof compiles the kernels.
    let trace = witness::keccak::<KoalaBear>(&stream, &inputs(0))?;
    let proven = prove(&prover, &KeccakAir {}, &trace, &[])?;
    verify(prover.config(), &KeccakAir {}, &proven.proof, &[]).expect("upstream accepts the proof");
    let began = Instant::now();
    for _ in 0..proofs {
        prove(&prover, &KeccakAir {}, &trace, &[])?;
    }
    let resident = began.elapsed().as_secs_f64() / proofs as f64;
    drop(trace);

    let all: Vec<_> = (0..proofs).map(inputs).collect();
    let began = Instant::now();
    for inputs in &all {
        let trace = witness::keccak::<KoalaBear>(&stream, inputs)?;
        prove(&prover, &KeccakAir {}, &trace, &[])?;
    }
    let from_inputs = began.elapsed().as_secs_f64() / proofs as f64;
    println!(
        "KeccakAir 2^{log_rows}: {:.2} ms from inputs, {:.2} ms from the trace on the device; {:.0} permutations \
         proven a second",
        from_inputs * 1e3,
        resident * 1e3,
        permutations as f64 / from_inputs,
    );
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
