//! Proofs over several devices equal those of upstream's SIMD backend, byte for byte.

use rigel_gpu::{Device, Emulation, Options};
use rigel_stwo_workloads::{Workload, benchmark_config};
use stwo::core::pcs::PcsConfig;
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleChannel;
use stwo::prover::backend::simd::SimdBackend;

use crate::proofs::{config, made};
use crate::random::Cuda;

/// Emulated devices.
fn devices(count: u32) -> Vec<Device> {
    let emulation = Emulation { devices: count, ..Emulation::default() };
    Device::emulated(&emulation, &Options::from_env().unwrap()).unwrap()
}

/// Proofs over each of these numbers of devices equal upstream's.
fn check(workload: Workload, log_size: u32, config: PcsConfig, store: bool, counts: &[u32]) {
    let expected = made::<SimdBackend, Blake2sMerkleChannel>(workload, log_size, config, store);
    for &count in counts {
        let found = rigel_stwo::over(&devices(count), || {
            made::<Cuda, Blake2sMerkleChannel>(workload, log_size, config, store)
        });
        assert!(found.unwrap() == expected, "{workload} of 2^{log_size} over {count} devices, stored: {store}");
    }
}

#[test]
fn wide_fibonacci() {
    check(Workload::WideFibonacci, 6, benchmark_config(), false, &[2, 4, 8]);
    check(Workload::WideFibonacci, 5, benchmark_config(), true, &[2, 4]);
}

#[test]
fn plonk() {
    check(Workload::Plonk, 6, benchmark_config(), false, &[2, 4, 8]);
}

#[test]
fn state_machine() {
    check(Workload::StateMachine, 7, config(2, 10, 0, 1), false, &[2, 4]);
}

#[test]
fn xor() {
    check(Workload::Xor, 6, benchmark_config(), false, &[2, 4]);
}

/// Layers that are folded by more than two, leaves of several rows, and blowups for which quotients and constraints are
/// on some of the devices.
#[test]
fn folds_and_blowups() {
    check(Workload::Plonk, 7, config(1, 10, 1, 3), false, &[2, 4]);
    check(Workload::Plonk, 6, config(2, 10, 0, 2), true, &[2, 4]);
    check(Workload::WideFibonacci, 5, config(3, 10, 0, 1), false, &[4]);
}

/// Constraints on a domain of their own, because the components' degrees differ from the blowup.
#[test]
fn constraints_beyond_the_committed_domain() {
    check(Workload::StateMachine, 7, config(1, 10, 0, 1), true, &[2, 4, 8]);
}
