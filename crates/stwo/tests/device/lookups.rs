//! GKR and multilinear polynomials.

use stwo::core::channel::Blake2sChannel;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::prover::backend::Column;
use stwo::prover::lookups::gkr_prover::{GkrOps, Layer, prove_batch};
use stwo::prover::lookups::gkr_verifier::{Gate, partially_verify_batch};
use stwo::prover::lookups::mle::{Mle, MleOps};

use crate::random::{Cpu, Cuda, bases, column, on_devices, over_each, rng, secure, secures};

fn base_polynomial<B: MleOps<BaseField>>(values: &[BaseField]) -> Mle<B, BaseField> {
    Mle::new(column::<B, _>(values))
}

fn polynomial<B: MleOps<SecureField>>(values: &[SecureField]) -> Mle<B, SecureField> {
    Mle::new(column::<B, _>(values))
}

#[test]
fn variables_are_fixed() {
    on_devices(|_| {
        for log in [1, 2, 5, 10] {
            let mut rng = rng(log);
            let (values, at) = (secures(&mut rng, 1 << log), secure(&mut rng));
            let found = polynomial::<Cuda>(&values).fix_first_variable(at);
            assert_eq!(found.to_cpu(), polynomial::<Cpu>(&values).fix_first_variable(at).into_evals());
            let values = bases(&mut rng, 1 << log);
            let found = base_polynomial::<Cuda>(&values).fix_first_variable(at);
            assert_eq!(found.to_cpu(), base_polynomial::<Cpu>(&values).fix_first_variable(at).into_evals());
        }
    });
}

#[test]
fn evaluations_of_eq() {
    on_devices(|_| {
        for variables in [0, 1, 3, 9] {
            let (y, v) = (secures(&mut rng(1), variables), secure(&mut rng(2)));
            assert_eq!(Cuda::gen_eq_evals(&y, v).to_cpu(), Cpu::gen_eq_evals(&y, v).into_evals());
        }
    });
}

/// A layer of each kind.
fn layers<B: GkrOps>(log: usize) -> Vec<Layer<B>> {
    let mut rng = rng(log as u64);
    let [a, b, c, d, e] = std::array::from_fn(|_| secures(&mut rng, 1 << log));
    let multiplicities = bases(&mut rng, 1 << log);
    vec![
        Layer::GrandProduct(polynomial(&a)),
        Layer::LogUpGeneric { numerators: polynomial(&b), denominators: polynomial(&c) },
        Layer::LogUpMultiplicities { numerators: base_polynomial(&multiplicities), denominators: polynomial(&d) },
        Layer::LogUpSingles { denominators: polynomial(&e) },
    ]
}

#[test]
fn next_layers() {
    on_devices(|_| {
        for log in [1, 2, 7] {
            for (there, here) in layers::<Cuda>(log).iter().zip(&layers::<Cpu>(log)) {
                let (found, expected) = (there.next_layer().unwrap(), here.next_layer().unwrap());
                assert_eq!(format!("{:?}", found.to_cpu()), format!("{expected:?}"));
            }
        }
    });
}

/// Whole proofs are equal and verify.
#[test]
fn proofs_of_gkr() {
    on_devices(|_| {
        let prove = |log: usize| {
            let (found, artifact) = prove_batch(&mut Blake2sChannel::default(), layers::<Cuda>(log));
            let (expected, _) = prove_batch(&mut Blake2sChannel::default(), layers::<Cpu>(log));
            assert_eq!(format!("{:?}", found.sumcheck_proofs), format!("{:?}", expected.sumcheck_proofs));
            assert_eq!(found.output_claims_by_instance, expected.output_claims_by_instance);
            (found, artifact)
        };
        for log in [2, 4, 8] {
            let (proof, artifact) = prove(log);
            let gates = vec![Gate::GrandProduct, Gate::LogUp, Gate::LogUp, Gate::LogUp];
            let verified = partially_verify_batch(gates, &proof, &mut Blake2sChannel::default()).unwrap();
            assert_eq!(verified.ood_point, artifact.ood_point);
        }
    });
}

/// Numerators and products on another device than denominators and what is drawn.
#[test]
fn layers_of_several_devices() {
    let log = 4;
    let (expected, _) = prove_batch(&mut Blake2sChannel::default(), layers::<Cpu>(log));
    over_each(2, |devices| {
        let elsewhere = || rigel_stwo::on(&devices[1], || layers::<Cuda>(log));
        let mixed = layers::<Cuda>(log).into_iter().zip(elsewhere()).map(|(here, there)| match (here, there) {
            (Layer::LogUpGeneric { denominators, .. }, Layer::LogUpGeneric { numerators, .. }) => {
                Layer::LogUpGeneric { numerators, denominators }
            }
            (Layer::LogUpMultiplicities { denominators, .. }, Layer::LogUpMultiplicities { numerators, .. }) => {
                Layer::LogUpMultiplicities { numerators, denominators }
            }
            (_, there) => there,
        });
        let (found, _) = prove_batch(&mut Blake2sChannel::default(), mixed.collect());
        assert_eq!(format!("{:?}", found.sumcheck_proofs), format!("{:?}", expected.sumcheck_proofs));
        assert_eq!(found.output_claims_by_instance, expected.output_claims_by_instance);
    });
}
