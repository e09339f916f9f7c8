//! first

use rigel_gpu::testing::on_each_device;
use rigel_stwo::CudaBackend;
use stwo::core::channel::Blake2sChannel;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use stwo::core::pcs::PcsConfig;
use stwo::core::poly::circle::CanonicCoset;
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleChannel;
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::backend::{BackendForChannel, Column};
use stwo::prover::poly::circle::{CircleEvaluation, PolyOps};
use stwo::prover::poly::BitReversedOrder;
use stwo::prover::{CommitmentSchemeProver, ComponentProver, prove};
use stwo_constraint_framework::{EvalAtRow, FrameworkComponent, FrameworkEval, TraceLocationAllocator};

struct Fib(u32);
impl FrameworkEval for Fib {
    fn log_size(&self) -> u32 { self.0 }
    fn max_constraint_log_degree_bound(&self) -> u32 { self.0 + 1 }
    fn evaluate<E: EvalAtRow>(&self, mut eval: E) -> E {
        let mut a = eval.next_trace_mask();
        let mut b = eval.next_trace_mask();
        for _ in 2..20 {
            let c = eval.next_trace_mask();
            eval.add_constraint(c.clone() - (a.square() + b.square()));
            a = b;
            b = c;
        }
        eval
    }
}

fn trace(log: u32) -> Vec<CircleEvaluation<SimdBackend, BaseField, BitReversedOrder>> {
    let n = 1usize << log;
    let mut cols = vec![vec![BaseField::from(0); n]; 20];
    for r in 0..n {
        cols[0][r] = BaseField::from(1);
        cols[1][r] = BaseField::from(r);
        for c in 2..20 { cols[c][r] = cols[c-2][r].square() + cols[c-1][r].square(); }
    }
    let domain = CanonicCoset::new(log).circle_domain();
    cols.into_iter().map(|c| CircleEvaluation::new(domain, c.into_iter().collect())).collect()
}

fn run<B: BackendForChannel<Blake2sMerkleChannel>>(log: u32, cols: Vec<CircleEvaluation<B, BaseField, BitReversedOrder>>) -> String
where FrameworkComponent<Fib>: ComponentProver<B> {
    let config = PcsConfig::default();
    let twiddles = B::precompute_twiddles(CanonicCoset::new(log + 1 + config.fri_config.log_blowup_factor).circle_domain().half_coset);
    let channel = &mut Blake2sChannel::default();
    let mut scheme = CommitmentSchemeProver::<B, Blake2sMerkleChannel>::new(config, &twiddles);
    let mut b = scheme.tree_builder();
    b.extend_evals(vec![]);
    b.commit(channel);
    let mut b = scheme.tree_builder();
    b.extend_evals(cols);
    b.commit(channel);
    let component = FrameworkComponent::new(&mut TraceLocationAllocator::default(), Fib(log), SecureField::default());
    let proof = prove(&[&component], channel, scheme).unwrap();
    serde_json::to_string(&proof).unwrap()
}

#[test]
fn fibonacci() {
    on_each_device(|stream| {
        for log in 4..=8 {
            let trace = trace(log);
            let expected = run::<SimdBackend>(log, trace.clone());
            let (found, report) = rigel_stwo::on(stream.device(), || rigel_stwo::measure(|| {
                run::<CudaBackend>(log, rigel_stwo::upload(&trace).unwrap())
            }).unwrap()).unwrap();
            println!("{report}");
            assert_eq!(found, expected, "{log}");
        }
    });
}
