//! Merkle trees against Plonky3's and Stwo's.

use p3_keccak::{Keccak256Hash, KeccakF};
use p3_matrix::dense::RowMajorMatrix;
use p3_symmetric::{CompressionFunctionFromHasher, PaddingFreeSponge, PseudoCompressionFunction};
use rand::RngExt;
use rigel_gpu::Stream;
use rigel_kernels::commit::lifted::{BLOCK, LiftedInParts};
use rigel_kernels::commit::merkle::{MerkleTree, Node};
use rigel_kernels::field::{BabyBear, Field, Goldilocks, KoalaBear, Mersenne31, Ring};
use rigel_kernels::hash::*;
use rigel_kernels::{Columns, Matrix};
use stwo::core::fields::m31::BaseField;
use stwo::core::vcs::blake2_hash::Blake2sHash;
use stwo::core::vcs_lifted::MerkleHasherLifted;
use stwo::core::vcs_lifted::blake2_merkle::{Blake2sM31MerkleHasher, Blake2sMerkleHasher};
use stwo::prover::backend::CpuBackend;
use stwo::prover::vcs_lifted::prover::MerkleProverLifted;

use crate::hashes::{Plonky3, matrices};
use crate::support::{Upstream, on_each_device, random, rng};

/// The rows as upstream's matrix.
fn row_major<F: Upstream>(rows: &[Vec<F>], columns: usize) -> RowMajorMatrix<F::P3> {
    RowMajorMatrix::new(rows.iter().flatten().map(|x| x.upstream()).collect(), columns)
}

/// Compares caps and openings of the tree over matrices of these rows and columns.
fn check_shapes<H: Plonky3<F>, F: Upstream>(stream: &Stream, shapes: &[(usize, usize)], cap_height: u32) {
    let (on_device, on_host) = matrices::<F>(stream, shapes);
    let columns: Vec<Columns<'_, F>> = on_device.iter().map(Columns::from).collect();
    let tree = MerkleTree::<H>::new(stream, &columns, cap_height).unwrap();
    let theirs = on_host.iter().zip(shapes).map(|(rows, &(_, columns))| row_major(rows, columns)).collect();

    let last = tree.leaves() - 1;
    let leaves = [last / 3, 0, last, last / 2, last / 3, (last / 2) ^ usize::from(last > 0)];
    let expected = H::commit(theirs, cap_height as usize, &leaves);
    let what = format!("{} over {}, {shapes:?}, cap {cap_height}", H::ROWS, F::NAME);
    let same = |ours: Vec<H::Digest>| ours.into_iter().map(H::theirs).collect::<Vec<_>>();
    assert_eq!(same(tree.cap(stream, cap_height).unwrap()), expected.cap, "{what}");
    let paths: Vec<_> = tree.open(stream, &leaves, cap_height).unwrap().into_iter().map(same).collect();
    assert_eq!(paths, expected.paths, "{what}");
    assert_eq!(same(tree.open_pruned(stream, &leaves, cap_height).unwrap()), expected.pruned, "{what}");
    if cap_height == 0 {
        assert_eq!(H::theirs(tree.root(stream).unwrap()), expected.cap[0], "{what}");
    }
}

fn check<H: Plonky3<F>, F: Upstream>() {
    on_each_device(|stream| {
        check_shapes::<H, F>(stream, &[(1, 5)], 0);
        check_shapes::<H, F>(stream, &[(2, 1)], 1);
        check_shapes::<H, F>(stream, &[(1024, 2)], 0);
        for cap_height in 0..=3 {
            check_shapes::<H, F>(stream, &[(8, 3), (32, 1), (8, 2), (16, 18), (1, 2), (32, 4)], cap_height);
        }
        // Below the cap, with matrices that join far above and right above the leaves.
        check_shapes::<H, F>(stream, &[(4, 3), (2, 3)], 5);
        check_shapes::<H, F>(stream, &[(512, 1), (256, 1), (2, 1)], 2);
    });
}

macro_rules! trees_equal_plonky3 {
    ($($test:ident: $hash:ty, $field:ty;)*) => { $(
        #[test]
        fn $test() {
            check::<$hash, $field>();
        }
    )* };
}
trees_equal_plonky3! {
    keccak_sponge_tree_over_koala_bear: KeccakSponge, KoalaBear;
    keccak_sponge_tree_over_goldilocks: KeccakSponge, Goldilocks;
    keccak256_tree_over_baby_bear: Keccak256, BabyBear;
    keccak256_tree_over_mersenne31: Keccak256, Mersenne31;
    poseidon2_tree_over_koala_bear_width_16: KoalaBearPoseidon2Width16, KoalaBear;
    poseidon2_tree_over_koala_bear_width_24: KoalaBearPoseidon2Width24, KoalaBear;
    poseidon2_tree_over_baby_bear_width_16: BabyBearPoseidon2Width16, BabyBear;
    poseidon2_tree_over_baby_bear_width_24: BabyBearPoseidon2Width24, BabyBear;
    poseidon2_tree_over_goldilocks_width_8: GoldilocksPoseidon2Width8, Goldilocks;
    poseidon2_tree_over_goldilocks_width_12: GoldilocksPoseidon2Width12, Goldilocks;
}

/// FRI leaves in Plonky3: `arity` adjacent elements of an extension of degree 4 are one row.
#[test]
fn packed_tree_equals_plonky3() {
    on_each_device(|stream| {
        let (on_device, on_host) = matrices::<KoalaBear>(stream, &[(256, 4)]);
        for log_arity in 1..=3 {
            let tree =
                MerkleTree::<KoalaBearPoseidon2Width16>::packed(stream, (&on_device[0]).into(), log_arity, 0);
            let theirs = row_major(&on_host[0], 4 << log_arity);
            let expected = KoalaBearPoseidon2Width16::commit(vec![theirs], 0, &[]);
            let root = KoalaBearPoseidon2Width16::theirs(tree.unwrap().root(stream).unwrap());
            assert_eq!(root, expected.cap[0]);
        }
    });
}

/// Random columns of these lengths, on the device and upstream.
fn columns(stream: &Stream, lengths: &[usize]) -> (Vec<Matrix<Mersenne31>>, Vec<Vec<BaseField>>) {
    let shapes: Vec<_> = lengths.iter().map(|&length| (length, 1)).collect();
    let (on_device, on_host) = matrices::<Mersenne31>(stream, &shapes);
    let theirs = |column: Vec<Vec<Mersenne31>>| {
        column.into_iter().flatten().map(|x| BaseField::from_u32_unchecked(x.word())).collect()
    };
    (on_device, on_host.into_iter().map(theirs).collect())
}

/// Compares every layer, and the witness of a decommitment.
fn check_stwo<H: Hash<Digest = [u8; 32]>, S: MerkleHasherLifted<Hash = Blake2sHash>>(
    stream: &Stream,
    tree: &MerkleTree<H>,
    prover: &MerkleProverLifted<CpuBackend, S>,
    columns: &[Vec<BaseField>],
) where
    CpuBackend: stwo::prover::vcs_lifted::ops::MerkleOpsLifted<S>,
{
    assert_eq!(tree.depth() as usize + 1, prover.layers.len());
    for (layer, theirs) in prover.layers.iter().rev().enumerate() {
        let theirs: Vec<[u8; 32]> = theirs.iter().map(|hash| hash.0).collect();
        assert_eq!(tree.layer(layer as u32).unwrap().to_vec(stream).unwrap(), theirs, "layer {layer}");
    }
    if !columns.is_empty() {
        let mut leaves = vec![tree.leaves() - 1, 0, tree.leaves() / 3];
        leaves.sort_unstable();
        leaves.dedup();
        let (_, decommitment) = prover.decommit(&leaves, columns.iter().collect());
        let theirs: Vec<_> = decommitment.decommitment.hash_witness.iter().map(|hash| hash.0).collect();
        assert_eq!(tree.open_pruned(stream, &leaves, 0).unwrap(), theirs);
    }
}

fn check_lifted<H: RowHash<Mersenne31, Digest = [u8; 32]> + Chained, S: MerkleHasherLifted<Hash = Blake2sHash>>()
where
    CpuBackend: stwo::prover::vcs_lifted::ops::MerkleOpsLifted<S>,
{
    on_each_device(|stream| {
        let mixed: Vec<usize> = (0..40).map(|i| 2 << (i * 5 % 8)).collect();
        // Several launches: states of 16 rows, of 2^12, and the leaves.
        let staged = [[16; 325].as_slice(), &[4096; 45], &[1 << 15; 5]].concat();
        let lengths: [(&[usize], u32); 8] = [
            (&[], 0),
            (&[2], 1),
            (&[64; 17], 6),
            (&[64; 3], 8),
            (&[4, 16, 8], 4),
            (&[128, 2, 2, 128, 16], 9),
            (&mixed, 8),
            (&staged, 15),
        ];
        for (lengths, log_size) in lengths {
            let (on_device, theirs) = columns(stream, lengths);
            let ours: Vec<Columns<'_, Mersenne31>> = on_device.iter().map(Columns::from).collect();
            let tree = MerkleTree::<H>::lifted(stream, &ours, log_size).unwrap();
            let prover = MerkleProverLifted::<CpuBackend, S>::commit(theirs.iter().collect(), log_size, 0);
            check_stwo(stream, &tree, &prover, &theirs);
            for blocks in [1, 2] {
                check_stwo(stream, &in_parts::<H>(stream, ours.clone(), log_size, blocks), &prover, &theirs);
            }
        }
    });
}

/// The lifted tree over columns that arrive a few blocks at a time.
fn in_parts<H: RowHash<Mersenne31> + Chained>(
    stream: &Stream,
    mut columns: Vec<Columns<'_, Mersenne31>>,
    log_size: u32,
    blocks: usize,
) -> MerkleTree<H> {
    columns.sort_by_key(Columns::rows);
    let mut parts = LiftedInParts::<H>::new(stream, log_size).unwrap();
    let mut rest = &columns[..];
    while rest.len() > blocks * BLOCK {
        let (part, others) = rest.split_at(blocks * BLOCK);
        parts.absorb(stream, part).unwrap();
        rest = others;
    }
    parts.finish(stream, rest).unwrap()
}

#[test]
fn lifted_parts_are_whole_blocks_of_growing_columns() {
    on_each_device(|stream| {
        let (on_device, _) = columns(stream, &[&[8; 16][..], &[4]].concat());
        let given: Vec<Columns<'_, Mersenne31>> = on_device.iter().map(Columns::from).collect();
        let parts = || LiftedInParts::<Blake2s>::new(stream, 3).unwrap();
        let refused = |result: rigel_gpu::Result<()>, why: &str| {
            let error = result.unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        refused(
            parts().absorb(stream, &given[..15]),
            "15 columns; the number must be a multiple of the block size 16",
        );
        let mut begun = parts();
        begun.absorb(stream, &given[..16]).unwrap();
        refused(begun.finish(stream, &given[16..]).map(drop), "columns of 4 rows after columns of 8");
        let mut begun = parts();
        begun.absorb(stream, &given[..16]).unwrap();
        refused(begun.finish::<Mersenne31>(stream, &[]).map(drop), "no column after 16");
    });
}

#[test]
fn columns_that_can_not_be_lifted_are_refused() {
    on_each_device(|stream| {
        let refused = |columns: &[Columns<'_, KoalaBear>], depth: u32, words: &str| {
            let tree = MerkleTree::<Blake2s>::lifted(stream, columns, depth);
            let text = tree.map(drop).unwrap_err().to_string();
            assert!(text.contains(words), "{text}");
        };
        let (m, _) = matrices::<KoalaBear>(stream, &[(8, 2), (6, 1), (1, 3)]);
        let m: Vec<Columns<'_, KoalaBear>> = m.iter().map(Columns::from).collect();
        refused(&[m[0]], 2, "8 rows lifted to 2^2");
        refused(&[m[2]], 2, "1 rows lifted");
        refused(&[m[1]], 5, "power of two");
        refused(&[], 40, "2^40 rows");
        assert_eq!(MerkleTree::<Blake2s>::lifted(stream, &[m[0]], 4).unwrap().leaves(), 16);
    });
}

#[test]
fn lifted_tree_equals_stwo() {
    check_lifted::<Blake2s, Blake2sMerkleHasher>();
}

#[test]
fn lifted_tree_equals_stwo_with_words_below_2_31() {
    check_lifted::<Blake2sM31, Blake2sM31MerkleHasher>();
}

/// Stwo's FRI commits four values of four coordinates per leaf.
#[test]
fn packed_tree_equals_stwo() {
    on_each_device(|stream| {
        let (on_device, on_host) = matrices::<Mersenne31>(stream, &[(128, 4)]);
        let theirs: Vec<Vec<BaseField>> = (0..4)
            .map(|c| on_host[0].iter().map(|row| BaseField::from_u32_unchecked(row[c].word())).collect())
            .collect();
        let tree = MerkleTree::<Blake2s>::packed(stream, (&on_device[0]).into(), 2, 0).unwrap();
        let prover = MerkleProverLifted::<CpuBackend, Blake2sMerkleHasher>::commit(
            theirs.iter().collect(),
            tree.depth(),
            2,
        );
        check_stwo(stream, &tree, &prover, &[]);
    });
}

/// A tree of enough leaves for all kinds of launches: one per layer, then two of subtrees.
#[test]
fn large_tree_of_given_leaves() {
    on_each_device(|stream| {
        let leaves = 1 << 17;
        let words: Vec<KoalaBear> = random(&mut rng(3), leaves * 8);
        let digests: Vec<[u8; 32]> =
            words.chunks(8).map(|chunk| rigel_gpu::bytes_of(chunk).try_into().unwrap()).collect();
        let tree = MerkleTree::<Blake2s>::from_leaves(stream, &stream.upload(&digests).unwrap()).unwrap();
        let mut expected = digests;
        for layer in 0..=tree.depth() {
            assert_eq!(tree.layer(layer).unwrap().to_vec(stream).unwrap(), expected, "layer {layer}");
            let node = |pair: &[[u8; 32]]| {
                Blake2sMerkleHasher::hash_children((Blake2sHash(pair[0]), Blake2sHash(pair[1]))).0
            };
            expected = expected.chunks_exact(2).map(node).collect();
        }
    });
}

/// Compares every layer of a tree of random digests of these heights, 2^h each and the largest first, with nodes
/// compressed one by one.
fn check_layers<H: Hash>(
    stream: &Stream,
    heights: &[u32],
    cap_height: u32,
    digest: impl Fn([u64; 4]) -> H::Digest,
    compress: impl Fn([H::Digest; 2]) -> H::Digest,
) {
    let mut rng = rng(u64::from(heights[0]));
    let mut random = |height: u32| (0..1 << height).map(|_| digest(rng.random())).collect::<Vec<_>>();
    let given: Vec<Vec<H::Digest>> = heights.iter().map(|&height| random(height)).collect();
    let uploaded: Vec<_> = given.iter().map(|digests| stream.upload(digests).unwrap()).collect();
    let tree = MerkleTree::<H>::from_digests(stream, &uploaded, cap_height).unwrap();
    let mut expected = given[0].clone();
    for layer in 0..=heights[0].saturating_sub(cap_height) {
        if layer > 0 {
            expected = expected.chunks_exact(2).map(|pair| compress([pair[0], pair[1]])).collect();
            if let Some(joined) = heights[1..].iter().position(|&height| height == heights[0] - layer) {
                let pairs = expected.iter().zip(&given[joined + 1]);
                expected = pairs.map(|(&node, &row)| compress([node, row])).collect();
            }
        }
        let ours = tree.layer(layer).unwrap().to_vec(stream).unwrap();
        assert_eq!(ours, expected, "{}, layer {layer} of heights {heights:?}, cap {cap_height}", H::NODES);
    }
}

/// Trees of all sizes that take up to two launches: layers with several nodes per thread pair, group and block, with
/// and without matrices that join at their borders.
fn check_small_layers<H: Hash>(
    digest: impl Fn([u64; 4]) -> H::Digest,
    compress: impl Fn([H::Digest; 2]) -> H::Digest,
) {
    on_each_device(|stream| {
        let check = |heights: &[u32], cap_height| {
            check_layers::<H>(stream, heights, cap_height, &digest, &compress);
        };
        for height in 0..=13 {
            check(&[height], 0);
        }
        for cap_height in [1, 2, 4, 7, 10, 11, 12] {
            check(&[12], cap_height);
        }
        check(&[15], 14);
        // More digests than subtrees are made of: a thread for each node.
        check(&[17, 16], 15);
        // Layers of 2^12 and 2^13 digests end and begin where groups of threads suffice.
        check(&[13, 12, 11, 10, 5, 4, 3, 0], 0);
        check(&[12, 11, 6], 5);
        check(&[9, 8, 7, 6, 5, 4, 3, 2, 1, 0], 0);
        check(&[8, 7], 0);
        check(&[5, 0], 0);
        check(&[1, 0], 0);
    });
}

#[test]
fn small_layers_of_keccak_sponge() {
    let nodes =
        CompressionFunctionFromHasher::<_, 2, 4>::new(PaddingFreeSponge::<KeccakF, 25, 17, 4>::new(KeccakF));
    check_small_layers::<KeccakSponge>(|words| words, |pair| nodes.compress(pair));
}

#[test]
fn small_layers_of_keccak256() {
    let nodes = CompressionFunctionFromHasher::<_, 2, 32>::new(Keccak256Hash);
    let digest = |words: [u64; 4]| rigel_gpu::bytes_of(&words).try_into().unwrap();
    check_small_layers::<Keccak256>(digest, |pair| nodes.compress(pair));
}

#[test]
fn small_layers_of_blake2s() {
    let compress = |[left, right]: [[u8; 32]; 2]| {
        Blake2sMerkleHasher::hash_children((Blake2sHash(left), Blake2sHash(right))).0
    };
    let digest = |words: [u64; 4]| rigel_gpu::bytes_of(&words).try_into().unwrap();
    check_small_layers::<Blake2s>(digest, compress);
}

/// One launch for each height, and none for joining.
#[test]
fn joining_takes_no_launch_of_its_own() {
    on_each_device(|stream| {
        let heights = [1 << 10, 1 << 7, 1 << 6].map(|height| stream.zeros::<[u64; 4]>(height).unwrap());
        let before = stream.device().activity().launches;
        MerkleTree::<KeccakSponge>::from_digests(stream, &heights, 0).unwrap();
        assert_eq!(stream.device().activity().launches - before, 3);
    });
}

/// Two launches for 2^16 leaves, one for any number of paths.
#[test]
fn launches_are_few() {
    on_each_device(|stream| {
        let leaves = stream.zeros::<[u8; 32]>(1 << 16).unwrap();
        let before = stream.device().activity().launches;
        let tree = MerkleTree::<Blake2s>::from_leaves(stream, &leaves).unwrap();
        assert_eq!(stream.device().activity().launches - before, 2);
        let before = stream.device().activity().launches;
        let paths = tree.open(stream, &[1, 2, 3, 60_000], 4).unwrap();
        assert_eq!(stream.device().activity().launches - before, 1);
        assert!(paths.iter().all(|path| path.len() == 12));
    });
}

#[test]
fn nodes_are_gathered_in_the_order_given() {
    on_each_device(|stream| {
        let leaves: Vec<[KoalaBear; 8]> = (0..8).map(|i| [KoalaBear::ONE.pow(i); 8]).collect();
        let tree = MerkleTree::<KoalaBearPoseidon2Width16>::from_leaves(stream, &stream.upload(&leaves).unwrap())
            .unwrap();
        let nodes = [(3, 0), (0, 7), (1, 2), (0, 7), (2, 1)].map(|(layer, index)| Node { layer, index });
        let found = tree.gather(stream, &nodes).unwrap();
        let all = tree.digests().to_vec(stream).unwrap();
        assert_eq!(found, [all[14], all[7], all[10], all[7], all[13]]);
        assert!(tree.gather(stream, &[]).unwrap().is_empty());
    });
}

/// Trees of several heights, one of which is not read, in one launch; more digests than a block copies.
#[test]
fn nodes_of_many_trees_are_gathered_in_one_launch() {
    on_each_device(|stream| {
        let mut rng = rng(11);
        let trees: Vec<MerkleTree<KeccakSponge>> = (0..7)
            .map(|log_leaves| {
                let leaves: Vec<_> = (0..1 << log_leaves).map(|_| rng.random()).collect();
                MerkleTree::from_leaves(stream, &stream.upload(&leaves).unwrap()).unwrap()
            })
            .collect();
        let (mut nodes, mut expected) = (Vec::new(), Vec::new());
        for (i, tree) in trees.iter().enumerate() {
            let all = tree.digests().to_vec(stream).unwrap();
            let mut chosen = Vec::new();
            for _ in 0..[20, 0, 1, 50, 3, 9, 17][i] {
                let layer = rng.random_range(0..=tree.depth());
                let index = rng.random_range(0..tree.leaves() >> layer);
                chosen.push(Node { layer, index });
                expected.push(all[2 * (tree.leaves() - (tree.leaves() >> layer)) + index]);
            }
            nodes.push(chosen);
        }
        let both: Vec<(&MerkleTree<KeccakSponge>, &[Node])> =
            trees.iter().zip(&nodes).map(|(tree, nodes)| (tree, &nodes[..])).collect();
        let mut room = stream.alloc(expected.len()).unwrap();
        let before = stream.device().activity().launches;
        MerkleTree::gather_all_into(stream, room.view_mut(), &both).unwrap();
        assert_eq!(stream.device().activity().launches, before + 1);
        assert_eq!(room.to_vec(stream).unwrap(), expected);
        let short = room.range_mut(1..).unwrap();
        let error = MerkleTree::gather_all_into(stream, short, &both).unwrap_err().to_string();
        assert!(error.contains("100 digests into room for 99"), "{error}");
    });
}

#[test]
fn bad_input_is_refused() {
    fn refused<T>(result: Result<T, rigel_gpu::Error>, words: &str) {
        let text = result.map(|_| ()).unwrap_err().to_string();
        assert!(text.contains(words), "{text}");
    }
    on_each_device(|stream| {
        type Tree = MerkleTree<KeccakSponge>;
        let (m, _) = matrices::<KoalaBear>(stream, &[(8, 2), (6, 1)]);
        let m: Vec<Columns<'_, KoalaBear>> = m.iter().map(Columns::from).collect();
        refused(Tree::new::<KoalaBear>(stream, &[], 0), "no matrices");
        refused(Tree::new(stream, &[m[0], m[1]], 0), "power of two");
        refused(Tree::packed(stream, m[0], 4, 0), "2^4 rows at a time");
        refused(Tree::from_leaves(stream, &stream.zeros(3).unwrap()), "power of two");
        refused(Tree::from_leaves(stream, &stream.zeros(0).unwrap()), "power of two");
        let tree = Tree::new(stream, &[m[0]], 0).unwrap();
        refused(tree.layer(4), "layer 4");
        refused(Tree::new(stream, &[m[0]], 1).unwrap().root(stream), "its cap is layer 2");
        refused(tree.gather(stream, &[Node { layer: 1, index: 4 }]), "node 4 of layer 1");
        refused(tree.gather(stream, &[Node { layer: 4, index: 0 }]), "layer 4");
        refused(tree.open(stream, &[0, 8], 0), "leaf 8");
        refused(tree.open_pruned(stream, &[8], 0), "leaf 8");
        assert_eq!(tree.open(stream, &[7], 0).unwrap()[0].len(), 3);
    });
}
