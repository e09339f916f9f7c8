//! Quotients of openings.

use stwo::core::circle::CirclePoint;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::pcs::TreeVec;
use stwo::core::pcs::quotients::{ColumnSampleBatch, PointSample};
use stwo::core::poly::circle::CanonicCoset;
use stwo::prover::pcs::quotient_ops::compute_fri_quotients;
use stwo::prover::poly::BitReversedOrder;
use stwo::prover::poly::circle::{CircleEvaluation, PolyOps};
use stwo::prover::{AccumulationOps, QuotientOps};

use crate::random::{Cpu, Cuda, bases, elements, evaluation, on_devices, point, rng, secure};

/// Columns of some sizes, each opened at the first of two points or at both.
struct Openings {
    logs: Vec<u32>,
    columns: Vec<Vec<BaseField>>,
    samples: Vec<Vec<PointSample>>,
}

impl Openings {
    fn new(logs: &[u32]) -> Self {
        let mut rng = rng(logs.len() as u64);
        let points = [point(&mut rng), point(&mut rng)];
        let mut sample = |&point: &CirclePoint<SecureField>| PointSample { point, value: secure(&mut rng) };
        let samples = (0..logs.len()).map(|i| points[..1 + i % 2].iter().map(&mut sample).collect()).collect();
        let columns = logs.iter().enumerate().map(|(i, &log)| bases(&mut crate::random::rng(i as u64), 1 << log));
        Self { logs: logs.to_vec(), columns: columns.collect(), samples }
    }

    fn evaluations<B: PolyOps>(&self) -> Vec<CircleEvaluation<B, BaseField, BitReversedOrder>> {
        let domain = |log| CanonicCoset::new(log).circle_domain();
        self.logs.iter().zip(&self.columns).map(|(&log, values)| evaluation::<B>(domain(log), values)).collect()
    }

    /// All quotients, with the columns distributed over two trees.
    fn quotients<B: QuotientOps + AccumulationOps>(&self, log_domain: u32, log_blowup: u32) -> Vec<SecureField> {
        let evaluations = self.evaluations::<B>();
        let (first, second) = evaluations.split_at(evaluations.len() / 2);
        let (first_samples, second_samples) = self.samples.split_at(evaluations.len() / 2);
        let twiddles = B::precompute_twiddles(CanonicCoset::new(log_domain).half_coset());
        let quotients = compute_fri_quotients(
            &TreeVec(vec![first.iter().collect(), second.iter().collect()]),
            &TreeVec(vec![first_samples.to_vec(), second_samples.to_vec()]),
            SecureField::from_u32_unchecked(3, 1, 4, 1),
            log_domain,
            &twiddles,
            log_blowup,
        );
        elements(&quotients.values)
    }
}

#[test]
fn numerators_are_accumulated() {
    on_devices(|_| {
        for (log, columns, log_blowup) in [(2, 1, 1), (4, 5, 1), (9, 40, 2), (10, 3, 1)] {
            let openings = Openings::new(&vec![log; columns]);
            let coefficients = |i: usize| SecureField::from_u32_unchecked(i as u32 + 1, 5, 7, 9);
            let samples: Vec<Vec<_>> = openings
                .samples
                .iter()
                .enumerate()
                .map(|(i, samples)| samples.iter().map(|sample| (sample.clone(), coefficients(i))).collect())
                .collect();
            let batches = ColumnSampleBatch::new_vec(&samples.iter().collect::<Vec<_>>());
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            let there = openings.evaluations::<Cuda>();
            Cuda::accumulate_numerators(&there.iter().collect::<Vec<_>>(), &batches, &mut found, log_blowup);
            let here = openings.evaluations::<Cpu>();
            Cpu::accumulate_numerators(&here.iter().collect::<Vec<_>>(), &batches, &mut expected, log_blowup);
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(found.sample_point, expected.sample_point);
                assert_eq!(found.first_linear_term_acc, expected.first_linear_term_acc);
                let [found, expected] =
                    [elements(&found.partial_numerators_acc), elements(&expected.partial_numerators_acc)];
                assert_eq!(found, expected, "{columns} columns of 2^{log}");
            }
        }
    });
}

#[test]
fn quotients_of_columns_of_one_length() {
    on_devices(|_| {
        for (log, log_blowup) in [(3, 1), (5, 2), (10, 1)] {
            let openings = Openings::new(&[log; 7]);
            assert_eq!(openings.quotients::<Cuda>(log, log_blowup), openings.quotients::<Cpu>(log, log_blowup));
        }
    });
}

#[test]
fn quotients_of_columns_of_different_lengths() {
    on_devices(|_| {
        let openings = Openings::new(&[4, 9, 6, 9, 4, 5]);
        assert_eq!(openings.quotients::<Cuda>(9, 1), openings.quotients::<Cpu>(9, 1));
        assert_eq!(openings.quotients::<Cuda>(11, 2), openings.quotients::<Cpu>(11, 2));
    });
}
