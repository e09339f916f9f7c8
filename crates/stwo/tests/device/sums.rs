//! Sums of columns, and powers.

use num_traits::Zero;
use stwo::core::fields::qm31::SecureField;
use stwo::prover::AccumulationOps;
use stwo::prover::backend::Column;
use stwo::prover::secure_column::SecureColumnByCoords;

use crate::random::{Cpu, Cuda, coordinates, elements, on_devices, rng, secure, secures};

#[test]
fn columns_are_added() {
    on_devices(|_| {
        for n in [1, 2, 16, 1024, 4096] {
            let (a, b) = (secures(&mut rng(1), n), secures(&mut rng(2), n));
            let mut sum = coordinates::<Cuda>(&a);
            Cuda::accumulate(&mut sum, &coordinates::<Cuda>(&b));
            let expected: Vec<SecureField> = a.iter().zip(&b).map(|(&a, &b)| a + b).collect();
            assert_eq!(elements(&sum), expected);
        }
    });
}

#[test]
fn a_sum_leaves_clones_as_they_are() {
    on_devices(|_| {
        let (a, b) = (secures(&mut rng(3), 64), secures(&mut rng(4), 64));
        let mut sum = coordinates::<Cuda>(&a);
        // The coordinates of a sum are contiguous.
        Cuda::accumulate(&mut sum, &coordinates::<Cuda>(&b));
        let before = elements(&sum);
        let mut clone = sum.clone();
        Cuda::accumulate(&mut clone, &coordinates::<Cuda>(&b));
        let expected: Vec<SecureField> = before.iter().zip(&b).map(|(&a, &b)| a + b).collect();
        assert_eq!((elements(&sum), elements(&clone)), (before, expected));
    });
}

#[test]
fn zeros_are_added() {
    on_devices(|_| {
        let a = secures(&mut rng(1), 64);
        let mut sum = SecureColumnByCoords::<Cuda>::zeros(64);
        Cuda::accumulate(&mut sum, &coordinates::<Cuda>(&a));
        Cuda::accumulate(&mut sum, &SecureColumnByCoords::zeros(64));
        assert_eq!(elements(&sum), a);
        assert!(!sum.at(3).is_zero() && sum.columns[0].len() == 64);
    });
}

#[test]
fn columns_are_lifted_and_added() {
    on_devices(|_| {
        for logs in [vec![5], vec![1, 2], vec![2, 3, 7], vec![1, 10]] {
            let values: Vec<_> = logs.iter().map(|&log| secures(&mut rng(log), 1 << log)).collect();
            let found =
                Cuda::lift_and_accumulate(values.iter().map(|v| coordinates::<Cuda>(v)).collect()).unwrap();
            let expected =
                Cpu::lift_and_accumulate(values.iter().map(|v| coordinates::<Cpu>(v)).collect()).unwrap();
            assert_eq!(elements(&found), elements(&expected), "2^{logs:?}");
        }
        assert!(Cuda::lift_and_accumulate(Vec::new()).is_none());
    });
}

#[test]
fn powers() {
    on_devices(|_| {
        let x = secure(&mut rng(3));
        for n in [0, 1, 2, 17, 100] {
            assert_eq!(Cuda::generate_secure_powers(x, n), Cpu::generate_secure_powers(x, n));
        }
    });
}
