//! Commits to a trace as a STARK prover does: low-degree extension, then a Merkle tree over its rows.
//!
//! `cargo run --release -p rigel-kernels --example commit` uses the first CUDA device, or the emulated one if there is
//! none.

use rigel_gpu::{Device, Result, Selector};
use rigel_kernels::commit::merkle::MerkleTree;
use rigel_kernels::field::{Field, KoalaBear};
use rigel_kernels::hash::KeccakSponge;
use rigel_kernels::transform::ntt::{self, Order};
use rigel_kernels::{Columns, Matrix};

fn main() -> Result<()> {
    let device = Device::from_env().or_else(|reason| {
        println!("{reason}\nRunning on the emulated device instead.");
        Device::open(Selector::Emulated(0))
    })?;
    let stream = device.compute()?;

    // 2^10 rows of 8 columns, column by column.
    let (rows, columns) = (1 << 10, 8);
    let trace: Vec<KoalaBear> = (0..rows * columns).map(|_| KoalaBear::from_u64(rand::random())).collect();
    let trace = Matrix::upload(&stream, &trace, rows)?;

    // Evaluations on a coset of twice as many points, in the order in which Plonky3 commits to them.
    let extended = ntt::extend(&stream, &trace, 1, KoalaBear::GENERATOR, Order::Natural, Order::BitReversed)?;
    let tree = MerkleTree::<KeccakSponge>::new(&stream, &[Columns::from(&extended)], 0)?;

    println!("{}: {tree:?}", device.properties().name);
    for digest in tree.cap(&stream, 2)? {
        println!("  {}", digest.map(|word| format!("{word:016x}")).join(" "));
    }
    Ok(())
}
