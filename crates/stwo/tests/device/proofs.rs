//! Whole proofs equal those of upstream's SIMD backend, byte for byte.

use rigel_gpu::testing::are_pooled;
use rigel_stwo_workloads::{
    AllWorkloads, InteractionSource, VerifierKey, Workload, benchmark_config, compile, prove, twiddles, verify,
};
use serde::Serialize;
use stwo::core::channel::MerkleChannel;
use stwo::core::fri::FriConfig;
use stwo::core::pcs::PcsConfig;
use stwo::core::vcs_lifted::blake2_merkle::{Blake2sM31MerkleChannel, Blake2sMerkleChannel};
use stwo::prover::backend::BackendForChannel;
use stwo::prover::backend::simd::SimdBackend;

use crate::random::{Cuda, on_devices};

/// A proof's bytes.
fn bytes(proof: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(proof).unwrap()
}

/// The proof of a workload on a backend.
pub(crate) fn made<B, MC>(workload: Workload, log_size: u32, config: PcsConfig, store: bool) -> Vec<u8>
where
    B: AllWorkloads + BackendForChannel<MC>,
    MC: MerkleChannel<H: Serialize>,
    SimdBackend: BackendForChannel<MC>,
{
    let statement = B::statement(workload, log_size, 5).unwrap();
    let lifted = config.lifting_log_size.map(|log_size| log_size - config.fri_config.log_blowup_factor);
    let twiddles = twiddles::<B>(lifted.unwrap_or(statement.log_rows()), &config);
    let witness = statement.witness();
    let proof =
        prove::<B, MC>(&*statement, &witness, config, store, &twiddles, InteractionSource::Generate).unwrap();
    let bytes = bytes(&proof);
    verify(&*statement, &VerifierKey::<MC>::new(&*statement, config), proof).unwrap();
    bytes
}

/// Checks that both backends make the same proof, and that the verifier accepts it.
fn check<MC: MerkleChannel<H: Serialize>>(workload: Workload, log_size: u32, config: PcsConfig, store: bool)
where
    SimdBackend: BackendForChannel<MC>,
    Cuda: BackendForChannel<MC>,
{
    let expected = made::<SimdBackend, MC>(workload, log_size, config, store);
    let found = made::<Cuda, MC>(workload, log_size, config, store);
    assert_eq!(found, expected, "{workload} of 2^{log_size}, coefficients stored: {store}");
}

fn check_sizes(workload: Workload, sizes: impl IntoIterator<Item = u32>) {
    let sizes: Vec<u32> = sizes.into_iter().collect();
    on_devices(|stream| {
        for &log_size in &sizes {
            check::<Blake2sMerkleChannel>(workload, log_size, benchmark_config(), log_size % 2 == 1);
        }
        // The last one again makes no new allocations of the driver's, once its memory is there: upstream's threads ask
        // for columns in any order, so that memory may be divided differently in the first repetitions.
        let device = stream.device();
        let calls = || device.memory_stats().driver_calls + device.pinned_stats().driver_calls;
        let last = sizes[sizes.len() - 1];
        let launches = device.activity().launches;
        let is_steady = |_| {
            let before = calls();
            made::<Cuda, Blake2sMerkleChannel>(workload, last, benchmark_config(), last % 2 == 1);
            calls() == before
        };
        let is_ever_steady = (0..8).any(is_steady);
        assert!(is_ever_steady || !are_pooled(), "{workload} of 2^{last} allocates in each proof");
        assert!(device.activity().launches > launches, "on {device}");
    });
}

#[test]
fn wide_fibonacci() {
    check_sizes(Workload::WideFibonacci, 4..=12);
}

/// A proof whose columns travel in parts, on the emulated device.
#[test]
fn wide_fibonacci_in_parts() {
    on_devices(|_| check::<Blake2sMerkleChannel>(Workload::WideFibonacci, 14, benchmark_config(), false));
}

#[test]
fn poseidon2() {
    check_sizes(Workload::Poseidon2, [7, 8, 9, 10]);
}

#[test]
fn plonk() {
    check_sizes(Workload::Plonk, 4..=12);
}

#[test]
fn state_machine() {
    check_sizes(Workload::StateMachine, 5..=12);
}

#[test]
fn xor() {
    check_sizes(Workload::Xor, 4..=12);
}

#[test]
fn blake2s() {
    on_devices(|stream| {
        let statement = Cuda::statement(Workload::Blake2s, 4, 5).unwrap();
        assert!(compile(&*statement, stream.device()).unwrap() > 12);
    });
    check_sizes(Workload::Blake2s, [4]);
}

#[test]
fn with_reduced_digests() {
    on_devices(|_| {
        for workload in [Workload::WideFibonacci, Workload::Plonk, Workload::StateMachine] {
            check::<Blake2sM31MerkleChannel>(workload, 6, benchmark_config(), false);
        }
    });
}

pub(crate) fn config(log_blowup: u32, queries: usize, log_last: u32, fold: u32) -> PcsConfig {
    PcsConfig {
        pow_bits: 5,
        fri_config: FriConfig::new(log_last, log_blowup, queries, fold),
        lifting_log_size: None,
    }
}

#[test]
fn blowups() {
    on_devices(|_| {
        for log_blowup in 1..=3 {
            for store in [false, true] {
                check::<Blake2sMerkleChannel>(Workload::StateMachine, 7, config(log_blowup, 10, 0, 1), store);
                check::<Blake2sMerkleChannel>(Workload::WideFibonacci, 6, config(log_blowup, 10, 0, 1), store);
            }
        }
    });
}

#[test]
fn folds_and_last_layers() {
    on_devices(|_| {
        for (log_last, fold) in [(0, 2), (0, 3), (1, 1), (2, 2), (3, 4), (1, 5)] {
            check::<Blake2sMerkleChannel>(Workload::Plonk, 9, config(1, 12, log_last, fold), false);
        }
    });
}

#[test]
fn few_queries_and_many() {
    on_devices(|_| {
        for queries in [1, 3, 64, 65, 200] {
            check::<Blake2sMerkleChannel>(Workload::WideFibonacci, 8, config(1, queries, 0, 1), false);
        }
    });
}

#[test]
fn trees_lifted_beyond_their_columns() {
    on_devices(|_| {
        let lifted = PcsConfig { lifting_log_size: Some(8), ..config(1, 20, 0, 1) };
        check::<Blake2sMerkleChannel>(Workload::Plonk, 6, lifted, false);
    });
}

#[test]
fn one_wrong_cell_is_refused() {
    on_devices(|_| {
        let statement = Cuda::statement(Workload::WideFibonacci, 5, 1).unwrap();
        let config = benchmark_config();
        let twiddles = twiddles::<Cuda>(statement.log_rows(), &config);
        let mut witness = statement.witness();
        witness.corrupt(rigel_stwo_workloads::Tree::Trace, 50, 7);
        let refused = prove::<Cuda, Blake2sMerkleChannel>(
            &*statement,
            &witness,
            config,
            false,
            &twiddles,
            InteractionSource::Generate,
        );
        assert_eq!(refused.unwrap_err(), rigel_stwo_workloads::Unproved::Constraints);
    });
}

/// The number of copies does not depend on the number of columns and queries. Upstream asks with one thread, so that
/// the order of lengths does not depend on who is faster.
#[test]
fn copies_back_are_few() {
    let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    on_devices(|stream| {
        let made = |workload, log_size, queries| {
            let config = config(1, queries, 0, 1);
            let statement = Cuda::statement(workload, log_size, 1).unwrap();
            let twiddles = twiddles::<Cuda>(statement.log_rows(), &config);
            let witness = statement.witness();
            let prove = || {
                let source = InteractionSource::Generate;
                prove::<Cuda, Blake2sMerkleChannel>(&*statement, &witness, config, false, &twiddles, source)
                    .unwrap()
            };
            let (_, report) = rigel_stwo::measure(prove).unwrap();
            report.downloads
        };
        let copies = |workload, log_size, queries| {
            let device = stream.device();
            one_thread.install(|| rigel_stwo::on(device, || made(workload, log_size, queries)))
        };
        // Roots and FRI folds for each halving, openings at points for each tree, and the queries.
        for queries in [3, 60, 200] {
            let few = copies(Workload::WideFibonacci, 8, queries);
            assert!(few <= 40, "{few} copies for {queries} queries");
        }
        let wide = copies(Workload::Poseidon2, 8, 20);
        assert!(wide <= 24, "{wide} copies for 2,400 columns");
        // One copy for the sums of all components, and a few for the values of columns of two lengths at two points.
        let many = copies(Workload::Blake2s, 4, 20);
        assert!(many <= 40, "{many} copies for 4,353 columns of twelve components");
    });
}

/// A tree that is committed to once and borrowed by proofs on several threads needs no more copies in each of
/// them.
#[test]
fn a_tree_of_several_proofs() {
    use stwo::core::channel::Blake2sChannel;
    use stwo::core::poly::circle::CanonicCoset;
    use stwo::core::utils::MaybeOwned;
    use stwo::prover::mempool::BaseColumnPool;
    use stwo::prover::poly::circle::{CircleCoefficients, PolyOps};
    use stwo::prover::{CommitmentSchemeProver, CommitmentTreeProver};

    use crate::random::{bases, point, rng};

    fn open<B: BackendForChannel<Blake2sMerkleChannel>>(
        tree: &CommitmentTreeProver<B, Blake2sMerkleChannel>,
        twiddles: &stwo::prover::poly::twiddles::TwiddleTree<B>,
    ) -> Vec<u8> {
        let mut channel = Blake2sChannel::default();
        let mut scheme = CommitmentSchemeProver::<B, Blake2sMerkleChannel>::new(config(1, 20, 0, 1), twiddles);
        scheme.commit_tree(MaybeOwned::Borrowed(tree), &mut channel);
        let points = vec![vec![point(&mut rng(3))]; tree.polynomials.len()];
        bytes(&scheme.prove_values(stwo::core::pcs::TreeVec(vec![points]), &mut channel).proof)
    }

    fn tree<B: BackendForChannel<Blake2sMerkleChannel>>(
        twiddles: &stwo::prover::poly::twiddles::TwiddleTree<B>,
    ) -> CommitmentTreeProver<B, Blake2sMerkleChannel> {
        let polynomial = |seed| CircleCoefficients::new(bases(&mut rng(seed), 1 << 9).into_iter().collect());
        let polynomials = (0..70).map(polynomial).collect();
        CommitmentTreeProver::new(polynomials, 1, twiddles, false, None, &BaseColumnPool::new())
    }

    let coset = CanonicCoset::new(10).half_coset();
    let host = SimdBackend::precompute_twiddles(coset);
    let expected = open(&tree::<SimdBackend>(&host), &host);
    on_devices(|stream| {
        let twiddles = Cuda::precompute_twiddles(coset);
        let tree = tree::<Cuda>(&twiddles);
        let proof = || {
            let before = stream.device().activity().downloads;
            let proof = rigel_stwo::on(stream.device(), || open(&tree, &twiddles));
            assert_eq!(proof, expected);
            stream.device().activity().downloads - before
        };
        let copies = proof();
        assert!(copies < 40, "{copies} copies");
        assert!(proof() <= copies + 2);
        let elsewhere = std::thread::scope(|scope| scope.spawn(proof).join()).unwrap();
        assert!(elsewhere <= copies + 4, "{elsewhere} copies on another thread, {copies} on the first");
        // Concurrent proofs may compute values at points for each other and discard them again. Without
        // prefetching, each proof would make a copy for each of 70 columns and 20 queries.
        let before = stream.device().activity().downloads;
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| assert_eq!(rigel_stwo::on(stream.device(), || open(&tree, &twiddles)), expected));
            }
        });
        let together = stream.device().activity().downloads - before;
        assert!(together <= 3 * 2 * copies, "{together} copies of three proofs at once, {copies} of one");
    });
}
