//! Proves and verifies wide Fibonacci on Stwo's SIMD backend.
//!
//! ```text
//! cargo run --release -p rigel-stwo-workloads --example wide_fibonacci -- 18
//! ```

use std::error::Error;
use std::time::Instant;

use rigel_stwo_workloads::{
    InteractionSource, Statement, VerifierKey, WideFibonacci, benchmark_config, prove, twiddles, verify,
};
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleChannel;
use stwo::prover::backend::simd::SimdBackend;

fn main() -> Result<(), Box<dyn Error>> {
    let log_rows = std::env::args().nth(1).map_or(Ok(12), |argument| argument.parse())?;
    let statement = WideFibonacci::new(log_rows, 1)?;
    println!("{}", statement.description());
    let witness = statement.witness();
    let config = benchmark_config();
    let twiddles = twiddles::<SimdBackend>(statement.log_rows(), &config);

    let start = Instant::now();
    let proof = prove::<SimdBackend, Blake2sMerkleChannel>(
        &statement,
        &witness,
        config,
        true,
        &twiddles,
        InteractionSource::Generate,
    )?;
    println!("proved in {:.3} s, about {} bytes", start.elapsed().as_secs_f64(), proof.stark.size_estimate());

    let key = VerifierKey::<Blake2sMerkleChannel>::new(&statement, config);
    let start = Instant::now();
    verify(&statement, &key, proof)?;
    println!("verified in {:.3} s", start.elapsed().as_secs_f64());
    Ok(())
}
