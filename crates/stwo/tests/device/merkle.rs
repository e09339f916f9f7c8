//! Lifted trees.

use rigel_gpu::Device;
use rigel_gpu::testing::groups;
use stwo::core::fields::m31::BaseField;
use stwo::core::poly::circle::CanonicCoset;
use stwo::core::vcs_lifted::blake2_merkle::{
    Blake2sM31MerkleHasher, Blake2sMerkleHasher, Blake2sMerkleHasherGeneric,
};
use stwo::prover::backend::{Col, Column, CpuBackend};
use stwo::prover::poly::circle::CircleCoefficients;
use stwo::prover::vcs_lifted::ops::{MerkleOpsLifted, PackLeavesOps};
use stwo::prover::vcs_lifted::prover::MerkleProverLifted;

use crate::random::{Cpu, Cuda, bases, column, on_devices, rng};

type Hasher<const M31: bool> = Blake2sMerkleHasherGeneric<M31>;

/// Commits on both backends, and opens some leaves.
fn check<const M31: bool>(logs: &[u32], log_leaves: u32, log_packed: u32) {
    let values: Vec<Vec<BaseField>> =
        logs.iter().enumerate().map(|(i, &log)| bases(&mut rng(i as u64), 1 << log)).collect();
    let there: Vec<Col<Cuda, BaseField>> = values.iter().map(|values| column::<Cuda, _>(values)).collect();
    let found = MerkleProverLifted::<Cuda, Hasher<M31>>::commit(there.iter().collect(), log_leaves, log_packed);
    let expected = MerkleProverLifted::<Cpu, Hasher<M31>>::commit(values.iter().collect(), log_leaves, log_packed);
    assert_eq!(found.layers.len(), expected.layers.len());
    for (found, expected) in found.layers.iter().zip(&expected.layers) {
        assert_eq!(&found.to_cpu(), expected, "columns of {logs:?} under 2^{log_leaves} leaves");
    }
    assert_eq!(found.root(), expected.root());
    let last = (1usize << log_leaves) - 1;
    let mut queries = vec![0, last / 3, last / 2, last];
    queries.dedup();
    let (columns, host): (Vec<_>, Vec<_>) =
        if log_packed > 0 { (Vec::new(), Vec::new()) } else { (there.iter().collect(), values.iter().collect()) };
    let (values, opening) = found.decommit(&queries, columns);
    let (expected_values, expected_opening) = expected.decommit(&queries, host);
    assert_eq!(values, expected_values);
    assert_eq!(opening.decommitment.hash_witness, expected_opening.decommitment.hash_witness);
}

#[test]
fn trees_of_columns_of_one_length() {
    on_devices(|_| {
        for log in [1, 2, 5, 9] {
            check::<false>(&[log; 3], log, 0);
            check::<true>(&[log; 20], log, 0);
        }
    });
}

#[test]
fn trees_of_columns_of_different_lengths() {
    on_devices(|_| {
        check::<false>(&[3, 8, 5, 8, 1, 5], 8, 0);
        check::<true>(&[4, 4, 6, 3], 9, 0);
    });
}

/// Columns of several scopes: in two blocks, in four, in four on devices in another order, and whole.
#[test]
fn trees_of_columns_of_several_scopes() {
    let polynomial = |seed: u64, log_size: u32| bases(&mut rng(seed), 1 << log_size);
    let on_domain = |log_size: u32| CanonicCoset::new(log_size + 1).circle_domain();
    let logs = [6, 5, 6, 6, 4, 5, 6];
    let expected: Vec<Vec<BaseField>> = (0..)
        .zip(logs)
        .map(|(seed, log)| CircleCoefficients::<Cpu>::new(polynomial(seed, log)).evaluate(on_domain(log)).values)
        .collect();
    for devices in groups(4).unwrap() {
        let reversed: Vec<Device> = devices.iter().rev().cloned().collect();
        let scopes = [&devices[..2], &devices, &reversed, &devices[..1], &devices[2..3], &devices[..2], &devices];
        let columns = (0..).zip(logs).zip(scopes).map(|((seed, log), scope)| {
            let evaluate = || {
                let polynomial = CircleCoefficients::<Cuda>::new(column::<Cuda, _>(&polynomial(seed, log)));
                polynomial.evaluate(on_domain(log)).values
            };
            rigel_stwo::over(scope, evaluate).unwrap()
        });
        let columns: Vec<_> = columns.collect();
        let commit = || {
            let log_leaves = 7;
            let found = MerkleProverLifted::<Cuda, Hasher<false>>::commit(columns.iter().collect(), log_leaves, 0);
            let host = MerkleProverLifted::<Cpu, Hasher<false>>::commit(expected.iter().collect(), log_leaves, 0);
            assert_eq!(found.root(), host.root());
            let queries = [0, 31, 64, 127];
            let (values, opening) = found.decommit(&queries, columns.iter().collect());
            let (host_values, host_opening) = host.decommit(&queries, expected.iter().collect());
            assert_eq!(values, host_values);
            assert_eq!(opening.decommitment.hash_witness, host_opening.decommitment.hash_witness);
        };
        rigel_stwo::over(&devices, commit).unwrap();
        rigel_stwo::on(&devices[0], commit);
    }
}

#[test]
fn trees_of_packed_leaves() {
    on_devices(|_| {
        for log in [3, 4, 8] {
            check::<false>(&[log; 4], log - 2, 2);
            check::<true>(&[log; 4], log - 2, 2);
        }
    });
}

#[test]
fn a_tree_of_nothing() {
    on_devices(|_| {
        let found = MerkleProverLifted::<Cuda, Blake2sMerkleHasher>::commit(Vec::new(), 0, 0);
        let expected = MerkleProverLifted::<CpuBackend, Blake2sMerkleHasher>::commit(Vec::new(), 0, 0);
        assert_eq!(found.root(), expected.root());
    });
}

#[test]
fn layers_one_by_one() {
    on_devices(|_| {
        let values = bases(&mut rng(8), 64);
        let there = column::<Cuda, _>(&values);
        type Hasher = Blake2sM31MerkleHasher;
        let leaves = <Cuda as MerkleOpsLifted<Hasher>>::build_leaves(&[&there], 6);
        let host = <Cpu as MerkleOpsLifted<Hasher>>::build_leaves(&[&values], 6);
        let expected = <Cpu as MerkleOpsLifted<Hasher>>::build_next_layer(&host);
        // The layer that was built with the leaves, the same layer built again, and the layer of a copy.
        for leaves in [&leaves, &leaves, &leaves.clone()] {
            let next = <Cuda as MerkleOpsLifted<Hasher>>::build_next_layer(leaves);
            assert_eq!(next.to_cpu(), expected);
        }
        // With the other hash.
        let next = <Cuda as MerkleOpsLifted<Blake2sMerkleHasher>>::build_next_layer(&leaves);
        assert_eq!(next.to_cpu(), <Cpu as MerkleOpsLifted<Blake2sMerkleHasher>>::build_next_layer(&host));
    });
}

#[test]
fn packed_leaves() {
    on_devices(|_| {
        for n in [4, 8, 64, 1024] {
            let values: Vec<Vec<BaseField>> = (0..4).map(|i| bases(&mut rng(i), n)).collect();
            let there: Vec<_> = values.iter().map(|values| column::<Cuda, _>(values)).collect();
            let found = Cuda::pack_leaves_input(&std::array::from_fn(|i| &there[i]));
            let expected = Cpu::pack_leaves_input(&std::array::from_fn(|i| &values[i]));
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(&found.to_cpu(), expected);
            }
        }
    });
}
