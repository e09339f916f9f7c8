//! Proofs over several devices equal those of upstream's SIMD backend, byte for byte.

use rand::RngExt;
use rigel_gpu::testing::groups;
use rigel_gpu::{Device, Emulation, Error, Options};
use rigel_stwo_workloads::{Workload, benchmark_config};
use stwo::core::channel::Blake2sChannel;
use stwo::core::pcs::{PcsConfig, TreeVec};
use stwo::core::poly::circle::CanonicCoset;
use stwo::core::utils::MaybeOwned;
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleChannel;
use stwo::prover::backend::BackendForChannel;
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::mempool::BaseColumnPool;
use stwo::prover::poly::circle::CircleCoefficients;
use stwo::prover::{CommitmentSchemeProver, CommitmentTreeProver};

use crate::proofs::{config, made};
use crate::random::{Cpu, Cuda, bases, emulated, over_each, point, rng};

/// Proofs over each of these numbers of devices equal upstream's.
fn check(workload: Workload, log_size: u32, config: PcsConfig, store: bool, counts: &[u32]) {
    let expected = made::<SimdBackend, Blake2sMerkleChannel>(workload, log_size, config, store);
    for &count in counts {
        over_each(count, |_| {
            let found = made::<Cuda, Blake2sMerkleChannel>(workload, log_size, config, store);
            assert!(found == expected, "{workload} of 2^{log_size} over {count} devices, stored: {store}");
        });
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

#[test]
fn poseidon2() {
    // Over four in `memory_adds_up`.
    check(Workload::Poseidon2, 8, benchmark_config(), false, &[2]);
}

#[test]
fn blake2s() {
    check(Workload::Blake2s, 4, config(1, 6, 0, 1), false, &[2, 4]);
}

/// A device of several has its part of the memory, and nothing is gathered on the first one.
#[test]
fn memory_adds_up() {
    // The lookups of Poseidon2 read the trace again, in blocks of rows.
    assert!(share_of_memory(Workload::WideFibonacci, 12) < 0.3);
    assert!(share_of_memory(Workload::Poseidon2, 10) < 0.35);
}

/// The peak memory of a device of four, as a part of that of one alone.
fn share_of_memory(workload: Workload, log_size: u32) -> f64 {
    let proof = || made::<Cuda, Blake2sMerkleChannel>(workload, log_size, benchmark_config(), false);
    let expected = made::<SimdBackend, Blake2sMerkleChannel>(workload, log_size, benchmark_config(), false);
    let peak = |count: u32| {
        let devices = emulated(count);
        let (found, report) = rigel_stwo::over(&devices, || rigel_stwo::measure(proof)).unwrap().unwrap();
        assert!(found == expected, "{workload} over {count} devices");
        assert!(report.fallbacks.is_empty(), "{report}");
        if count > 1 {
            assert_eq!(report.devices.len(), count as usize);
            assert!(report.devices.iter().all(|device| device.bytes_sent > 0), "{report}");
        }
        report.peak_bytes
    };
    let (one, four) = (peak(1), peak(4));
    println!("{workload}: {one} bytes on one device, {four} on each of four");
    four as f64 / one as f64
}

/// Two threads prove over the same devices at once.
#[test]
fn several_threads() {
    let proofs = [(Workload::WideFibonacci, 6), (Workload::Plonk, 6)];
    let expected = proofs.map(|(workload, log_size)| {
        made::<SimdBackend, Blake2sMerkleChannel>(workload, log_size, benchmark_config(), false)
    });
    for devices in groups(2).unwrap() {
        let prove = |(workload, log_size): (Workload, u32)| {
            let proof = || made::<Cuda, Blake2sMerkleChannel>(workload, log_size, benchmark_config(), false);
            rigel_stwo::over(&devices, proof).unwrap()
        };
        std::thread::scope(|scope| {
            let threads = proofs.map(|proof| scope.spawn(move || (prove(proof), prove(proof))));
            for (thread, expected) in threads.into_iter().zip(&expected) {
                let (first, second) = thread.join().unwrap();
                assert!(first == *expected && second == *expected);
            }
        });
    }
}

/// Memory of the second device that runs out at several points of a proof is an error, and all of it is free again. The
/// next proofs on the same thread, over both devices and on each of them, are as always.
#[test]
fn memory_that_runs_out() {
    let proof = || made::<Cuda, Blake2sMerkleChannel>(Workload::Plonk, 6, benchmark_config(), false);
    let expected = made::<SimdBackend, Blake2sMerkleChannel>(Workload::Plonk, 6, benchmark_config(), false);
    for devices in groups(2).unwrap() {
        let over = || rigel_stwo::over(&devices, || rigel_stwo::measure(proof)).unwrap().unwrap();
        over();
        let (found, report) = over();
        assert!(found == expected);
        let in_use = || devices.iter().map(|device| device.memory_stats().in_use).collect::<Vec<_>>();
        let (before, peak) = (in_use(), report.devices[1].peak_bytes);
        for part in [1, 2, 3] {
            devices[1].set_memory_limit(Some(before[1] + peak * part / 4));
            let made = rigel_stwo::over(&devices, || rigel_stwo::catch(proof)).unwrap();
            let error = made.map(|proof| proof.len()).unwrap_err();
            assert!(matches!(error, Error::OutOfMemory { .. }), "at {part} quarters of {peak} bytes: {error}");
            assert_eq!(in_use(), before, "at {part} quarters");
        }
        devices[1].set_memory_limit(None);
        assert!(over().0 == expected);
        for device in &devices {
            let (found, report) = rigel_stwo::on(device, || rigel_stwo::measure(proof)).unwrap();
            assert!(found == expected && report.device == device.to_string(), "{report}");
            assert!(report.devices.is_empty() && report.bytes_sent == 0, "{report}");
        }
    }
}

#[test]
fn a_device_that_is_lost() {
    for after in [5, 30, 60] {
        let lost = Emulation { devices: 2, lost_after: Some(after), lost_device: Some(1), ..Emulation::default() };
        let devices = Device::emulated(&lost, &Options::from_env().unwrap()).unwrap();
        let proof = || made::<Cuda, Blake2sMerkleChannel>(Workload::WideFibonacci, 6, benchmark_config(), false);
        let made = rigel_stwo::over(&devices, || rigel_stwo::catch(proof)).unwrap();
        let error = made.map(|proof| proof.len()).unwrap_err();
        assert!(matches!(error, Error::DeviceLost { .. }), "after {after} launches: {error}");
    }
}

#[test]
fn devices_that_can_not_share() {
    let devices = emulated(3);
    let refused = |devices: &[Device]| rigel_stwo::over(devices, || ()).unwrap_err().to_string();
    assert!(refused(&[]).contains("at least one"));
    assert!(refused(&devices).contains("power of two"), "{}", refused(&devices));
    let twice = [devices[0].clone(), devices[0].clone()];
    assert!(refused(&twice).contains("twice"), "{}", refused(&twice));
    // More devices than rows.
    let proof = || made::<Cuda, Blake2sMerkleChannel>(Workload::WideFibonacci, 4, benchmark_config(), false);
    let made = rigel_stwo::over(&emulated(32), || rigel_stwo::catch(proof)).unwrap();
    let error = made.map(|proof| proof.len()).unwrap_err().to_string();
    assert!(error.contains("32 devices for 16 rows"), "{error}");
    // The report says that so small a proof is made by the first device.
    let made = rigel_stwo::over(&emulated(4), || rigel_stwo::measure(proof)).unwrap().unwrap();
    assert!(made.1.fallbacks.iter().any(|fallback| fallback.part == "the proof"), "{}", made.1);
    // Columns in host memory are for one device.
    let batches = || rigel_stwo::in_column_batches(1 << 20, proof);
    let made = rigel_stwo::over(&emulated(2), || rigel_stwo::catch(batches)).unwrap();
    let error = made.map(|proof| proof.len()).unwrap_err().to_string();
    assert!(error.contains("in_column_batches"), "{error}");
}

/// Runs work within the scope of some devices.
type Scope<'a> = &'a dyn Fn(&mut dyn FnMut());

/// Opens a tree of random columns of these lengths.
fn opened<B: BackendForChannel<Blake2sMerkleChannel>>(log_sizes: &[u32], config: PcsConfig) -> Vec<u8> {
    opened_in::<B>(&[(&|work| work(), log_sizes)], config)
}

/// Opens trees of random columns of these lengths, each committed to within its scope, twiddles made within the first.
fn opened_in<B: BackendForChannel<Blake2sMerkleChannel>>(
    trees: &[(Scope<'_>, &[u32])],
    config: PcsConfig,
) -> Vec<u8> {
    let longest = trees.iter().flat_map(|(_, log_sizes)| *log_sizes).max().unwrap();
    let longest = CanonicCoset::new(longest + config.fri_config.log_blowup_factor).half_coset();
    let mut twiddles = None;
    trees[0].0(&mut || twiddles = Some(B::precompute_twiddles(longest)));
    let twiddles = twiddles.unwrap();
    let polynomial = |(seed, &log_size): (u64, &u32)| {
        CircleCoefficients::new(bases(&mut rng(seed), 1usize << log_size).into_iter().collect())
    };
    let mut channel = Blake2sChannel::default();
    let mut scheme = CommitmentSchemeProver::<B, Blake2sMerkleChannel>::new(config, &twiddles);
    let mut points = Vec::new();
    for (scope, log_sizes) in trees {
        scope(&mut || {
            let polynomials = (1..).zip(*log_sizes).map(polynomial).collect();
            let (blowup, pool) = (config.fri_config.log_blowup_factor, BaseColumnPool::new());
            let tree = CommitmentTreeProver::new(polynomials, blowup, &twiddles, false, None, &pool);
            scheme.commit_tree(MaybeOwned::Owned(tree), &mut channel);
        });
        points.push(log_sizes.iter().zip(3..).map(|(_, seed)| vec![point(&mut rng(seed % 2))]).collect());
    }
    postcard::to_allocvec(&scheme.prove_values(TreeVec(points), &mut channel).proof).unwrap()
}

/// Columns of any lengths: in blocks, too short for that, and with fewer rows than there are devices.
#[test]
fn trees_of_random_columns() {
    for (seed, count) in [(1, 2), (2, 4), (3, 8), (4, 8)] {
        let mut random = rng(seed);
        let log_sizes: Vec<u32> = (0..20).map(|_| random.random_range(1..=8)).chain([8]).collect();
        let config = config(1 + (seed % 2) as u32, 6, 0, 1 + (seed % 3) as u32);
        let expected = opened::<Cpu>(&log_sizes, config);
        over_each(count, |_| {
            assert!(opened::<Cuda>(&log_sizes, config) == expected, "{log_sizes:?} over {count} devices");
        });
    }
}

/// Trees that were committed to over several devices are opened together with a tree of one device or of another number
/// of devices, which has the longest columns: on one device and over all.
#[test]
fn trees_of_another_scope() {
    let here: Scope<'_> = &|work| work();
    let config = config(1, 6, 0, 1);
    for (first, last) in [(&[5][..], 6), (&[6], 6), (&[6, 5, 2], 7)] {
        let expected = opened_in::<Cpu>(&[(here, first), (here, &[last])], config);
        for devices in groups(4).unwrap() {
            let over: Scope<'_> = &|work| rigel_stwo::over(&devices, work).unwrap();
            for count in [1, 2] {
                let over_some: Scope<'_> = &|work| rigel_stwo::over(&devices[..count], work).unwrap();
                for opening in [1, 4] {
                    let open = || opened_in::<Cuda>(&[(over, first), (over_some, &[last])], config);
                    let found = rigel_stwo::over(&devices[..opening], open).unwrap();
                    assert!(found == expected, "{first:?} over 4 devices, {last} over {count}, over {opening}");
                }
            }
        }
    }
}
