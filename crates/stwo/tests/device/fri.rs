//! Folding, and proof of work.

use stwo::core::channel::{Blake2sChannelGeneric, Channel};
use stwo::core::circle::Coset;
use stwo::core::poly::circle::CanonicCoset;
use stwo::core::poly::line::LineDomain;
use stwo::core::proof_of_work::GrindOps;
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::fri::FriOps;
use stwo::prover::line::LineEvaluation;
use stwo::prover::poly::circle::PolyOps;

use crate::random::{Cpu, Cuda, coordinates, elements, on_devices, rng, secure, secure_evaluation, secures};

#[test]
fn circles_are_folded() {
    on_devices(|_| {
        for log_size in 1..=11 {
            let (values, alpha) = (secures(&mut rng(log_size.into()), 1 << log_size), secure(&mut rng(77)));
            let domain = CanonicCoset::new(log_size).circle_domain();
            for log_tower in [log_size, log_size + 2] {
                let coset = CanonicCoset::new(log_tower).half_coset();
                let there = secure_evaluation::<Cuda>(domain, &values);
                let found = Cuda::fold_circle_into_line(&there, alpha, &Cuda::precompute_twiddles(coset));
                let here = secure_evaluation::<Cpu>(domain, &values);
                let expected = Cpu::fold_circle_into_line(&here, alpha, &Cpu::precompute_twiddles(coset));
                assert_eq!(found.domain().coset(), expected.domain().coset());
                assert_eq!(elements(&found.values), elements(&expected.values), "2^{log_size}");
            }
        }
    });
}

#[test]
fn lines_are_folded() {
    on_devices(|_| {
        for (log_size, steps) in [(1, 1), (2, 1), (2, 2), (5, 1), (6, 3), (9, 2), (9, 5), (11, 4), (11, 11)] {
            let (values, alpha) = (secures(&mut rng(log_size.into()), 1 << log_size), secure(&mut rng(78)));
            let coset = Coset::half_odds(log_size);
            let domain = LineDomain::new(coset);
            let there = LineEvaluation::new(domain, coordinates::<Cuda>(&values));
            let found = Cuda::fold_line(&there, alpha, &Cuda::precompute_twiddles(coset), steps);
            let here = LineEvaluation::new(domain, coordinates::<Cpu>(&values));
            let expected = Cpu::fold_line(&here, alpha, &Cpu::precompute_twiddles(coset), steps);
            assert_eq!(found.domain().coset(), expected.domain().coset());
            assert_eq!(elements(&found.values), elements(&expected.values), "2^{log_size} by 2^{steps}");
        }
    });
}

#[test]
fn polynomials_are_decomposed() {
    on_devices(|_| {
        for log_size in [2, 3, 6, 10] {
            let values = secures(&mut rng(log_size.into()), 1 << log_size);
            let domain = CanonicCoset::new(log_size).circle_domain();
            let (found, lambda) = Cuda::decompose(&secure_evaluation::<Cuda>(domain, &values));
            let (expected, expected_lambda) = Cpu::decompose(&secure_evaluation::<Cpu>(domain, &values));
            assert_eq!(lambda, expected_lambda);
            assert_eq!(elements(&found.values), elements(&expected.values), "2^{log_size}");
        }
    });
}

fn check_work<const M31: bool>()
where
    SimdBackend: GrindOps<Blake2sChannelGeneric<M31>>,
{
    for bits in [0, 1, 5, 8, 12] {
        let mut channel = Blake2sChannelGeneric::<M31>::default();
        channel.mix_u32s(&[bits, 7]);
        let nonce = Cuda::grind(&channel, bits);
        assert_eq!(nonce, SimdBackend::grind(&channel, bits), "{bits} bits");
        assert!(channel.verify_pow_nonce(bits, nonce));
    }
}

#[test]
fn proof_of_work() {
    on_devices(|_| check_work::<false>());
}

#[test]
fn proof_of_work_with_reduced_digests() {
    on_devices(|_| check_work::<true>());
}

#[test]
fn proof_of_work_of_too_many_bits_gives_an_error() {
    on_devices(|_| {
        let channel = Blake2sChannelGeneric::<false>::default();
        let error = rigel_stwo::catch(|| Cuda::grind(&channel, 33)).unwrap_err().to_string();
        assert!(error.contains("33 bits"), "{error}");
    });
}
