//! A proof whose columns do not fit on the device: a plan of its memory, and columns that the host keeps.
//!
//! The device is limited to less than the plan says, as if it were smaller. The same proof is made twice.

use rigel_gpu::Device;
use rigel_stwo::{ComponentSize, CudaBackend, ProofSize, on, or_fail, plan, upload};
use stwo::core::channel::Blake2sChannel;
use stwo::core::fields::FieldExpOps;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::pcs::PcsConfig;
use stwo::core::poly::circle::CanonicCoset;
use stwo::core::proof::StarkProof;
use stwo::core::vcs_lifted::blake2_merkle::{Blake2sMerkleChannel, Blake2sMerkleHasher};
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::poly::BitReversedOrder;
use stwo::prover::poly::circle::{CircleEvaluation, PolyOps};
use stwo::prover::{CommitmentSchemeProver, prove};
use stwo_constraint_framework::{EvalAtRow, FrameworkComponent, FrameworkEval, TraceLocationAllocator};

type Trace = Vec<CircleEvaluation<SimdBackend, BaseField, BitReversedOrder>>;

/// The number of columns.
const COLUMNS: usize = 64;

/// Each column is the square of the one before.
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

fn component(log_size: u32) -> FrameworkComponent<Squares> {
    FrameworkComponent::new(&mut TraceLocationAllocator::default(), Squares { log_size }, SecureField::default())
}

/// The proof, from the upload on.
fn prove_squares(trace: &Trace, log_size: u32, config: PcsConfig) -> StarkProof<Blake2sMerkleHasher> {
    let twiddles = CudaBackend::precompute_twiddles(CanonicCoset::new(log_size + 1).half_coset());
    let mut channel = Blake2sChannel::default();
    let mut scheme = CommitmentSchemeProver::<CudaBackend, Blake2sMerkleChannel>::new(config, &twiddles);
    scheme.tree_builder().commit(&mut channel);
    let mut tree = scheme.tree_builder();
    tree.extend_evals(or_fail(upload(trace), "upload the trace"));
    tree.commit(&mut channel);
    prove(&[&component(log_size)], &mut channel, scheme).expect("the trace is right")
}

fn main() -> rigel_gpu::Result<()> {
    let log_size = 10;
    let domain = CanonicCoset::new(log_size).circle_domain();
    let mut column: Vec<BaseField> = (0..1 << log_size).map(BaseField::from_u32_unchecked).collect();
    let mut trace = Trace::new();
    for _ in 0..COLUMNS {
        trace.push(CircleEvaluation::new(domain, column.iter().copied().collect()));
        column.iter_mut().for_each(|value| *value = value.square());
    }

    let (device, config) = (Device::from_env()?, PcsConfig::default());
    let size = || ProofSize {
        config,
        preprocessed: Vec::new(),
        components: vec![ComponentSize::of(&device, &component(log_size))],
        store_coefficients: false,
    };
    let whole = plan(&device, &size())?;
    println!("{whole}");
    let (proof, report) = on(&device, || whole.run(|| prove_squares(&trace, log_size, config)))?;
    println!("  {} bytes were taken\n", report.peak_bytes);

    device.set_memory_limit(Some(device.memory_stats().in_use + whole.peak().bytes * 4 / 5));
    let batches = plan(&device, &size())?;
    println!("{batches}");
    let (same, report) = on(&device, || batches.run(|| prove_squares(&trace, log_size, config)))?;
    println!("  {} bytes were taken", report.peak_bytes);
    for fallback in &report.fallbacks {
        println!("  {} ran on the {}: {}", fallback.part, fallback.ran_on, fallback.reason);
    }
    assert_eq!(same.commitments.0, proof.commitments.0);
    Ok(())
}
