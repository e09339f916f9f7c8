//! Proves columns that a user kernel generated on the device: only the kernel's arguments are uploaded.
//!
//! `cargo run --release -p rigel-stwo --example device_columns`, on the GPU if there is one, else on the emulated
//! device.

use rigel_gpu::{Device, Error, Selector, Shape};
use rigel_kernels::field::Mersenne31;
use rigel_stwo::{BaseColumn, CudaBackend};
use stwo::core::channel::Blake2sChannel;
use stwo::core::fields::FieldExpOps;
use stwo::core::fields::qm31::SecureField;
use stwo::core::pcs::{CommitmentSchemeVerifier, PcsConfig};
use stwo::core::poly::circle::CanonicCoset;
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleChannel;
use stwo::core::verifier::verify;
use stwo::prover::poly::circle::{CircleEvaluation, PolyOps};
use stwo::prover::{CommitmentSchemeProver, prove};
use stwo_constraint_framework::{EvalAtRow, FrameworkComponent, FrameworkEval, TraceLocationAllocator};

const COLUMNS: usize = 8;

/// Each column is the square of the previous one.
struct Squares {
    log_size: u32,
}

impl FrameworkEval for Squares {
    fn log_size(&self) -> u32 {
        self.log_size
    }

    fn max_constraint_log_degree_bound(&self) -> u32 {
        self.log_size + 1
    }

    fn evaluate<E: EvalAtRow>(&self, mut eval: E) -> E {
        let mut last = eval.next_trace_mask();
        for _ in 1..COLUMNS {
            let next = eval.next_trace_mask();
            eval.add_constraint(next.clone() - last.square());
            last = next;
        }
        eval
    }
}

/// One thread per row; column c begins at element c * rows.
const KERNEL: &str = r#"
#include "field/mersenne31.cuh"

__global__ void squares(Mersenne31* columns, u32 rows, u32 count) {
    const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    Mersenne31 x = Mersenne31::from_word(row + 2);
    for (u32 c = 0; c < count; ++c) {
        columns[(u64)c * rows + row] = x;
        x = x * x;
    }
}
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = match Device::open(Selector::Auto) {
        Err(Error::Unavailable { .. }) => Device::open(Selector::Emulated(0))?,
        opened => opened?,
    };
    let log_size = if device.kind() == rigel_gpu::DeviceKind::Cuda { 20 } else { 8 };
    let rows = 1usize << log_size;

    // All columns are contiguous, so that each step of the proof processes them together.
    let stream = device.compute()?;
    // SAFETY: the kernel accesses `rows` values of each column, which is what the columns have.
    let text = unsafe { rigel_kernels::code::source("squares.cu", KERNEL) };
    let kernel = device.compile(&text.kernel("squares"))?;
    let mut words = stream.alloc::<Mersenne31>(COLUMNS * rows)?;
    let arguments = (&mut words, rows as u32, COLUMNS as u32);
    kernel.kernel("squares")?.launch(&stream, Shape::cover(rows, 256)?, arguments)?;
    let domain = CanonicCoset::new(log_size).circle_domain();
    let mut columns = Vec::new();
    for part in words.split(&[rows; COLUMNS])? {
        columns.push(CircleEvaluation::new(domain, BaseColumn::from_buffer(part)?));
    }

    let component = FrameworkComponent::new(
        &mut TraceLocationAllocator::default(),
        Squares { log_size },
        SecureField::default(),
    );
    let config = PcsConfig::default();
    let proof = rigel_stwo::on(&device, || {
        let twiddles = CudaBackend::precompute_twiddles(CanonicCoset::new(log_size + 1).half_coset());
        let mut channel = Blake2sChannel::default();
        let mut scheme = CommitmentSchemeProver::<CudaBackend, Blake2sMerkleChannel>::new(config, &twiddles);
        scheme.tree_builder().commit(&mut channel);
        let mut tree = scheme.tree_builder();
        tree.extend_evals(columns);
        tree.commit(&mut channel);
        let (proof, report) = rigel_stwo::measure(|| prove(&[&component], &mut channel, scheme))?;
        print!("2^{log_size} rows of {COLUMNS} columns, from the commitment to the proof: {report}");
        Ok::<_, Error>(proof)
    })??;

    let mut channel = Blake2sChannel::default();
    let mut scheme = CommitmentSchemeVerifier::<Blake2sMerkleChannel>::new(config);
    scheme.commit(proof.commitments[0], &[], &mut channel);
    scheme.commit(proof.commitments[1], &[log_size; COLUMNS], &mut channel);
    verify(&[&component], &mut channel, &mut scheme, proof)?;
    println!("verified by Stwo");
    Ok(())
}
