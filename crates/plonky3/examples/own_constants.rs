//! Poseidon2 with round constants of your own: they are read from your configuration, and reach the kernels as
//! parameters. Nothing else changes.
//!
//! `cargo run --release -p rigel-plonky3 --example own_constants -- [log rows] [proofs]`

use std::time::Instant;

use p3_challenger::DuplexChallenger;
use p3_commit::ExtensionMmcs;
use p3_dft::Radix2DitParallel;
use p3_field::Field;
use p3_field::extension::BinomialExtensionField;
use p3_fri::{FriParameters, TwoAdicFriPcs};
use p3_keccak_air::KeccakAir;
use p3_koala_bear::{KoalaBear, Poseidon2KoalaBear, default_koalabear_poseidon2_16};
use p3_merkle_tree::MerkleTreeMmcs;
use p3_symmetric::{PaddingFreeSponge, TruncatedPermutation};
use p3_uni_stark::{StarkConfig, verify};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rigel_plonky3::{Prover, Result, prove, witness};

type Value = KoalaBear;
type Challenge = BinomialExtensionField<Value, 4>;
type Permutation = Poseidon2KoalaBear<16>;
type Sponge = PaddingFreeSponge<Permutation, 16, 8, 8>;
type Compress = TruncatedPermutation<Permutation, 2, 8, 16>;
type Packing = <Value as Field>::Packing;
type Mmcs = MerkleTreeMmcs<Packing, Packing, Sponge, Compress, 2, 8>;
type Pcs = TwoAdicFriPcs<Value, Radix2DitParallel<Value>, Mmcs, ExtensionMmcs<Value, Challenge, Mmcs>>;
type Config = StarkConfig<Pcs, Challenge, DuplexChallenger<Value, Permutation, 16, 8>>;

fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).filter_map(|number| number.parse::<usize>().ok());
    // As upstream's tests do. A project has constants of its own.
    let own = Permutation::new_from_rng_128(&mut SmallRng::seed_from_u64(1));
    let provers = [("default", prover(&default_koalabear_poseidon2_16())?), ("own", prover(&own)?)];
    let Some(device) = provers[0].1.device() else {
        println!("There is no device to prove on. Try RIGEL_DEVICE=emulated.");
        return Ok(());
    };
    let on_gpu = device.kind() == rigel_gpu::DeviceKind::Cuda;
    let log_rows = numbers.next().unwrap_or(if on_gpu { 17 } else { 5 });
    let proofs = numbers.next().unwrap_or(if on_gpu { 10 } else { 1 }).max(1);
    let inputs: Vec<[u64; 25]> = (0..((1usize << log_rows) / 24).max(1))
        .map(|i| std::array::from_fn(|word| (i * 25 + word) as u64))
        .collect();
    for (name, prover) in &provers {
        let device = prover.device().expect("both have one");
        let trace = witness::keccak::<Value>(&device.compute()?, &inputs)?;
        // The first proof compiles the kernels.
        let proven = prove(prover, &KeccakAir {}, &trace, &[])?;
        verify(prover.config(), &KeccakAir {}, &proven.proof, &[]).expect("upstream accepts the proof");
        rigel_gpu::background::finish();
        prove(prover, &KeccakAir {}, &trace, &[])?;
        let mut times = Vec::with_capacity(proofs);
        for _ in 0..proofs {
            let began = Instant::now();
            prove(prover, &KeccakAir {}, &trace, &[])?;
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        println!("KeccakAir 2^{log_rows}, {name} constants: {:.2} ms", times[proofs / 2]);
    }
    Ok(())
}

/// An ordinary Plonky3 configuration with this permutation, on the available device.
fn prover(permutation: &Permutation) -> Result<Prover<Config>> {
    const CAP_HEIGHT: usize = 3;
    let mmcs = Mmcs::new(Sponge::new(permutation.clone()), Compress::new(permutation.clone()), CAP_HEIGHT);
    let fri = FriParameters::new_benchmark_high_arity(ExtensionMmcs::new(mmcs.clone()));
    let pcs = Pcs::new(Radix2DitParallel::default(), mmcs, fri.clone());
    Prover::open(Config::new(pcs, DuplexChallenger::new(permutation.clone())), &fri, CAP_HEIGHT)
}
