//! Proofs whose columns are in host memory, and are on the device a few at a time.

use rigel_stwo::{in_column_batches, measure};
use rigel_stwo_workloads::{Workload, benchmark_config};
use stwo::core::vcs_lifted::blake2_merkle::{Blake2sM31MerkleChannel, Blake2sMerkleChannel};
use stwo::prover::backend::simd::SimdBackend;

use crate::proofs::{config, made};
use crate::random::{Cuda, on_devices};

#[test]
fn proofs_in_batches_are_the_same() {
    on_devices(|_| {
        // One column or one block of the hash at a time, a few, and all.
        for (workload, log_size, bytes) in [
            (Workload::WideFibonacci, 7, 0),
            (Workload::WideFibonacci, 6, 40 << 10),
            (Workload::Plonk, 6, 0),
            (Workload::StateMachine, 7, 3 << 10),
            (Workload::Xor, 5, 0),
            (Workload::Poseidon2, 8, 1 << 30),
        ] {
            let config = benchmark_config();
            let expected = made::<SimdBackend, Blake2sMerkleChannel>(workload, log_size, config, false);
            let prove = || made::<Cuda, Blake2sMerkleChannel>(workload, log_size, config, false);
            let found = in_column_batches(bytes, prove);
            assert!(found == expected, "{workload} of 2^{log_size} in batches of {bytes} bytes");
        }
    });
}

#[test]
fn other_configurations_in_batches() {
    on_devices(|_| {
        for (log_blowup, store) in [(2, false), (1, true), (3, true)] {
            let config = config(log_blowup, 10, 0, 2);
            let expected = made::<SimdBackend, Blake2sM31MerkleChannel>(Workload::StateMachine, 6, config, store);
            let prove = || made::<Cuda, Blake2sM31MerkleChannel>(Workload::StateMachine, 6, config, store);
            assert!(in_column_batches(1 << 10, prove) == expected, "blowup 2^{log_blowup}, stored {store}");
        }
    });
}

#[test]
fn batches_take_less_memory() {
    on_devices(|_| {
        let config = benchmark_config();
        let prove = || made::<Cuda, Blake2sMerkleChannel>(Workload::WideFibonacci, 10, config, false);
        let (_, whole) = measure(prove).unwrap();
        let (_, batches) = measure(|| in_column_batches(64 << 10, prove)).unwrap();
        let [whole, batches] = [whole.peak_bytes, batches.peak_bytes];
        // 100 columns of 2^11 values are 800 KiB; the trees are 128 KiB each.
        assert!(batches + (600 << 10) < whole, "{batches} bytes in batches, {whole} at once");
    });
}
