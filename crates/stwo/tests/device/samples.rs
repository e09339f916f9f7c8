//! Values at points of trees whose columns have many lengths, in any order.

use rand::RngExt;
use rand::rngs::SmallRng;
use rigel_stwo::{SecureColumn, in_column_batches};
use stwo::core::channel::Blake2sChannel;
use stwo::core::pcs::TreeVec;
use stwo::core::poly::circle::CanonicCoset;
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleChannel;
use stwo::prover::CommitmentSchemeProver;
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::backend::{BackendForChannel, Column};
use stwo::prover::poly::circle::{CircleCoefficients, PolyOps};

use crate::proofs::config;
use crate::random::{Cuda, bases, on_devices, point, rng};

/// The logarithm of the longest column.
const LOG_LONGEST: u32 = 9;

/// Proves the values of two trees of columns of these lengths. The second has the longest column, too, and some of its
/// columns are also opened in the row before. Offsets of a column that are a multiple of its length open it at the same
/// point.
fn opened<B: BackendForChannel<Blake2sMerkleChannel>>(logs: &[u32], offset: isize, store: bool) -> Vec<u8> {
    let config = config(1, 5, 0, 1);
    let twiddles = B::precompute_twiddles(CanonicCoset::new(LOG_LONGEST + 1).half_coset());
    let mut channel = Blake2sChannel::default();
    let mut scheme = CommitmentSchemeProver::<B, Blake2sMerkleChannel>::new(config, &twiddles);
    if store {
        scheme.set_store_polynomials_coefficients();
    }
    let at = point(&mut rng(3));
    let step = CanonicCoset::new(LOG_LONGEST).step().mul_signed(offset).into_ef();
    let second: Vec<u32> = logs.iter().copied().chain([LOG_LONGEST]).collect();
    let mut points = Vec::new();
    for (tree, logs) in [logs, &second].into_iter().enumerate() {
        let polynomial = |(i, &log): (usize, &u32)| {
            let values = bases(&mut rng((1000 * tree + i) as u64), 1 << log);
            CircleCoefficients::new(values.into_iter().collect())
        };
        let mut builder = scheme.tree_builder();
        builder.extend_polys(logs.iter().enumerate().map(polynomial));
        builder.commit(&mut channel);
        let of_column = |i: usize| if tree == 1 && i % 5 == 4 { vec![at + step, at] } else { vec![at] };
        points.push((0..logs.len()).map(of_column).collect());
    }
    postcard::to_allocvec(&scheme.prove_values(TreeVec(points), &mut channel).proof).unwrap()
}

/// Lengths of the columns of several components, shuffled.
fn lengths(rng: &mut SmallRng, count: usize) -> Vec<u32> {
    (0..count).map(|_| rng.random_range(4..LOG_LONGEST)).collect()
}

#[test]
fn trees_of_many_lengths() {
    on_devices(|_| {
        for (seed, count, offset, store) in
            [(1, 40, -1, false), (2, 33, -1, true), (3, 12, -32, false), (4, 1, 2, true)]
        {
            let logs = lengths(&mut rng(seed), count);
            let expected = opened::<SimdBackend>(&logs, offset, store);
            assert!(opened::<Cuda>(&logs, offset, store) == expected, "seed {seed}");
            let in_batches = in_column_batches(5 << 10, || opened::<Cuda>(&logs, offset, store));
            assert!(in_batches == expected, "seed {seed} in batches");
        }
    });
}

/// Copies back do not grow with the number of columns, lengths and changes of length. Upstream asks with one thread
/// here: with several, a short column may be asked for before the longest, and their values are then copied twice.
#[test]
fn copies_do_not_grow_with_columns() {
    let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    on_devices(|stream| {
        let copies = |logs: &[u32]| {
            let before = stream.device().activity().downloads;
            one_thread.install(|| rigel_stwo::on(stream.device(), || opened::<Cuda>(logs, -1, false)));
            stream.device().activity().downloads - before
        };
        // The longest first: then one copy for each tree and point, and one for the longest of the second tree.
        let one = copies(&[8; 8]);
        let shuffled: Vec<u32> = [8].into_iter().chain(lengths(&mut rng(5), 119)).collect();
        let many = copies(&shuffled);
        assert!(many <= one + 2, "{many} copies for 120 columns of five lengths, {one} for 8 of one");
    });
}

/// Weights that are not those of a point are used as they are.
#[test]
fn weights_of_their_own() {
    on_devices(|_| {
        let (values, at) = (bases(&mut rng(6), 64), point(&mut rng(7)));
        let domain = CanonicCoset::new(6);
        let column = crate::random::evaluation::<Cuda>(domain.circle_domain(), &values);
        let mut weights = Cuda::barycentric_weights(domain, at);
        let value = column.barycentric_eval_at_point(&weights);
        let first = weights.at(0);
        weights.set(0, first + first);
        assert_eq!(column.barycentric_eval_at_point(&weights), value + first * values[0]);
        let copied: SecureColumn = weights.to_cpu().into_iter().collect();
        assert_eq!(column.barycentric_eval_at_point(&copied), value + first * values[0]);
    });
}
