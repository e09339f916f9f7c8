//! A trace that is generated on the device and never leaves it: a user kernel writes the columns, and `prove`
//! reads them there.
//!
//! `cargo run --release -p rigel-plonky3 --example device_trace` needs a device: a GPU, or `RIGEL_DEVICE=emulated`.

use p3_air::{Air, AirBuilder, BaseAir, WindowAccess};
use p3_challenger::{HashChallenger, SerializingChallenger32};
use p3_commit::ExtensionMmcs;
use p3_dft::Radix2DitParallel;
use p3_field::PrimeCharacteristicRing;
use p3_field::extension::BinomialExtensionField;
use p3_fri::{FriParameters, TwoAdicFriPcs};
use p3_keccak::{Keccak256Hash, KeccakF};
use p3_koala_bear::KoalaBear;
use p3_merkle_tree::MerkleTreeMmcs;
use p3_symmetric::{CompressionFunctionFromHasher, PaddingFreeSponge, SerializingHasher};
use p3_uni_stark::{StarkConfig, verify};
use rigel_gpu::Device;
use rigel_kernels::code::source;
use rigel_kernels::{Matrix, field};
use rigel_plonky3::{Prover, Result, prove};

const COLUMNS: usize = 64;

/// Row i holds x = i + 1, x^2, x^4, ...
struct Squares;

impl<F> BaseAir<F> for Squares {
    fn width(&self) -> usize {
        COLUMNS
    }
}

impl<AB: AirBuilder> Air<AB> for Squares {
    fn eval(&self, builder: &mut AB) {
        let main = builder.main();
        for column in 1..COLUMNS {
            let (x, square) = (main.current(column - 1).unwrap(), main.current(column).unwrap());
            builder.assert_eq(x * x, square);
        }
        let (x, next) = (main.current(0).unwrap(), main.next(0).unwrap());
        builder.when_first_row().assert_one(x);
        builder.when_transition().assert_eq(next, x + AB::Expr::ONE);
    }
}

/// The trace of [`Squares`] in CUDA C++, with Rigel's field types: one thread per row, column-major.
const KERNEL: &str = r#"
#include "layout/slab.cuh"

__global__ void squares(KoalaBear* trace, u32 rows, u32 columns) {
    const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    KoalaBear x = KoalaBear::from_integer(row + 1);
    for (u32 column = 0; column < columns; ++column, x = x * x) trace[(u64)column * rows + row] = x;
}
"#;

fn trace(device: &Device, rows: usize) -> Result<Matrix<field::KoalaBear>> {
    let stream = device.compute()?;
    // SAFETY: the kernel writes `rows` values of each of `columns` columns, which is what the trace has.
    let text = unsafe { source("squares.cu", KERNEL) };
    let kernel = device.compile(&text.kernel("squares"))?.kernel("squares")?;
    let mut trace = Matrix::alloc(&stream, rows, COLUMNS)?;
    kernel.launch(&stream, kernel.cover(rows)?, (trace.values_mut(), rows as u32, COLUMNS as u32))?;
    // Proofs have streams of their own, which wait for this one.
    Ok(trace)
}

fn main() -> Result<()> {
    let prover = prover()?;
    let Some(device) = prover.device() else {
        println!("There is no device to generate a trace on. Try RIGEL_DEVICE=emulated.");
        return Ok(());
    };
    let rows = if device.kind() == rigel_gpu::DeviceKind::Cuda { 1 << 20 } else { 1 << 8 };
    let trace = trace(device, rows)?;
    prove(&prover, &Squares, &trace, &[])?;
    let proven = prove(&prover, &Squares, &trace, &[])?;
    verify(prover.config(), &Squares, &proven.proof, &[]).expect("upstream accepts the proof");
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
