//! Poseidon2 with round constants of the caller's own, of every shape, against upstream's permutations.

use p3_baby_bear::Poseidon2BabyBear;
use p3_challenger::{CanObserve, DuplexChallenger, GrindingChallenger};
use p3_commit::Mmcs;
use p3_field::{PrimeCharacteristicRing, PrimeField64};
use p3_goldilocks::Poseidon2Goldilocks;
use p3_koala_bear::Poseidon2KoalaBear;
use p3_matrix::dense::RowMajorMatrix;
use p3_merkle_tree::MerkleTreeMmcs;
use p3_poseidon2::ExternalLayerConstants;
use p3_symmetric::{PaddingFreeSponge, TruncatedPermutation};
use rigel_kernels::Columns;
use rigel_kernels::commit::merkle::MerkleTree;
use rigel_kernels::commit::rows::{self, RowsInParts};
use rigel_kernels::field::{BabyBear, Field, Goldilocks, KoalaBear};
use rigel_kernels::fri::grind;
use rigel_kernels::hash::poseidon2::*;
use rigel_kernels::hash::{KoalaBearPoseidon2Width16, Poseidon2, RoundConstants};

use crate::hashes::matrices;
use crate::oracle::assert_says;
use crate::support::{Upstream, on_each_device, random, rng};

/// Random constants of a shape.
fn constants<S: Poseidon2Shape>(seed: u64) -> RoundConstants<S::Field> {
    let mut rng = rng(seed);
    let mut full = || (0..HALF_FULL_ROUNDS).map(|_| random(&mut rng, S::WIDTH)).collect();
    let (initial, terminal) = (full(), full());
    RoundConstants { initial, terminal, partial: random(&mut rng, S::PARTIAL_ROUNDS) }
}

/// Upstream's form of the same constants.
fn upstream<F: Upstream, const WIDTH: usize>(
    constants: &RoundConstants<F>,
) -> (ExternalLayerConstants<F::P3, WIDTH>, Vec<F::P3>) {
    let rounds = |rounds: &[Vec<F>]| {
        rounds.iter().map(|round| std::array::from_fn(|i| round[i].upstream())).collect::<Vec<[F::P3; WIDTH]>>()
    };
    let external = ExternalLayerConstants::new(rounds(&constants.initial), rounds(&constants.terminal));
    (external, constants.partial.iter().map(|x| x.upstream()).collect())
}

macro_rules! equal_plonky3 {
    ($($test:ident: $field:ident, $permutation:ident, rows $rows:ident $width:literal / $rate:literal,
        nodes $nodes:ident $node:literal, digest $digest:literal;)*) => { $(
        #[test]
        fn $test() {
            type F = $field;
            type Theirs = <F as Upstream>::P3;
            type Packed = <Theirs as p3_field::Field>::Packing;
            type H = Poseidon2<$rows, $nodes>;
            let (rows, nodes) = (constants::<$rows>($width), constants::<$nodes>(100 + $node));
            let hash = H::new(&rows, &nodes).unwrap();
            let (external, internal) = upstream::<F, $width>(&rows);
            let row_permutation = $permutation::<$width>::new(external, internal);
            let (external, internal) = upstream::<F, $node>(&nodes);
            let node_permutation = $permutation::<$node>::new(external, internal);
            let mmcs = MerkleTreeMmcs::<Packed, Packed, _, _, 2, $digest>::new(
                PaddingFreeSponge::<_, $width, $rate, $digest>::new(row_permutation.clone()),
                TruncatedPermutation::<_, 2, $digest, $node>::new(node_permutation),
                0,
            );
            on_each_device(|stream| {
                let several = vec![(16, 1), (8, 5), (16, 2), (2, 3)];
                for shapes in [vec![(4, $rate)], vec![(64, $rate + 3)], several] {
                    let shapes = &shapes[..];
                    let (on_device, on_host) = matrices::<F>(stream, shapes);
                    let columns: Vec<Columns<'_, F>> = on_device.iter().map(Columns::from).collect();
                    let tree = MerkleTree::<H>::new((stream, &hash), &columns, 0).unwrap();
                    let theirs = on_host.iter().zip(shapes).map(|(rows, &(_, columns))| {
                        let values = rows.iter().flatten().map(|x| x.upstream()).collect();
                        RowMajorMatrix::new(values, columns)
                    });
                    let root = mmcs.commit(theirs.collect()).0.into_roots()[0];
                    assert_eq!(tree.root(stream).unwrap().map(Upstream::upstream), root, "{shapes:?}");
                }
                // In parts, and packed.
                let (on_device, _) = matrices::<F>(stream, &[(8, 2 * $rate + 1)]);
                let whole = MerkleTree::<H>::new((stream, &hash), &[(&on_device[0]).into()], 0).unwrap();
                let mut parts = RowsInParts::<H>::new((stream, &hash), 8).unwrap();
                let columns = |first, end| Columns::new(on_device[0].column_range(first, end).unwrap(), 8).unwrap();
                parts.absorb(stream, columns(0, $rate)).unwrap();
                let tree = MerkleTree::from_parts(stream, parts, columns($rate, 2 * $rate + 1), 0).unwrap();
                assert_eq!(tree.root(stream).unwrap(), whole.root(stream).unwrap());
                let (on_device, on_host) = matrices::<F>(stream, &[(8, 3)]);
                let packed = rows::hash_packed::<H, F>((stream, &hash), (&on_device[0]).into(), 1).unwrap();
                let pairs = on_host[0].chunks(2).flatten().flatten().map(|x| x.upstream()).collect();
                let root = mmcs.commit(vec![RowMajorMatrix::new(pairs, 6)]).0.into_roots()[0];
                let tree = MerkleTree::<H>::from_leaves((stream, &hash), &packed).unwrap();
                assert_eq!(tree.root(stream).unwrap().map(Upstream::upstream), root);

                // Proof of work.
                let mut challenger =
                    DuplexChallenger::<Theirs, _, $width, $rate>::new(row_permutation.clone());
                challenger.observe(Theirs::from_u32(77));
                let mut state = challenger.sponge_state;
                state[0] = challenger.input_buffer[0];
                state[$rate] += Theirs::from_u32(2);
                let state = state.map(|x| F::from_u64(x.as_canonical_u64()));
                let found = grind::duplex::<H>((stream, &hash), &state, 1, $rate - 1, 6).unwrap().unwrap();
                let accepts = |i: u64| challenger.clone().check_witness(6, Theirs::from_u64(i));
                assert_eq!((0..).find(|&i| accepts(i)), Some(found));
            });
        }
    )* };
}

equal_plonky3! {
    koala_bear_16: KoalaBear, Poseidon2KoalaBear, rows KoalaBearWidth16 16 / 8, nodes KoalaBearWidth16 16, digest 8;
    koala_bear_24: KoalaBear, Poseidon2KoalaBear, rows KoalaBearWidth24 24 / 16, nodes KoalaBearWidth16 16, digest 8;
    koala_bear_24_8: KoalaBear, Poseidon2KoalaBear, rows KoalaBearWidth24Rate8 24 / 8, nodes KoalaBearWidth24 24,
        digest 8;
    koala_bear_32: KoalaBear, Poseidon2KoalaBear, rows KoalaBearWidth32 32 / 24, nodes KoalaBearWidth32 32, digest 8;
    baby_bear_16: BabyBear, Poseidon2BabyBear, rows BabyBearWidth16 16 / 8, nodes BabyBearWidth16 16, digest 8;
    baby_bear_24: BabyBear, Poseidon2BabyBear, rows BabyBearWidth24 24 / 16, nodes BabyBearWidth24 24, digest 8;
    baby_bear_32: BabyBear, Poseidon2BabyBear, rows BabyBearWidth32Rate16 32 / 16, nodes BabyBearWidth32 32, digest 8;
    goldilocks_8: Goldilocks, Poseidon2Goldilocks, rows GoldilocksWidth8 8 / 4, nodes GoldilocksWidth8 8, digest 4;
    goldilocks_12: Goldilocks, Poseidon2Goldilocks, rows GoldilocksWidth12 12 / 8, nodes GoldilocksWidth12 12, digest 4;
    goldilocks_16: Goldilocks, Poseidon2Goldilocks, rows GoldilocksWidth16 16 / 12, nodes GoldilocksWidth16 16,
        digest 4;
}

#[test]
fn constants_of_another_shape_are_refused() {
    type H = Poseidon2<KoalaBearWidth24, KoalaBearWidth16>;
    let (wide, narrow) = (constants::<KoalaBearWidth24>(1), constants::<KoalaBearWidth16>(2));
    H::new(&wide, &narrow).unwrap();
    assert_says(H::new(&narrow, &narrow), &["width 16", "20 partial", "width 24", "23 partial"]);
    let mut short = wide.clone();
    short.partial.pop();
    assert_says(H::new(&short, &narrow), &["22 partial", "23 partial"]);
    let mut short = narrow.clone();
    short.terminal.pop();
    assert_says(H::new(&wide, &short), &["4 + 3 full", "4 + 4 full"]);
}

#[test]
fn a_hash_without_its_constants_is_refused() {
    on_each_device(|stream| {
        let (on_device, _) = matrices::<KoalaBear>(stream, &[(4, 3)]);
        let matrices = [(&on_device[0]).into()];
        let made = MerkleTree::<Poseidon2<KoalaBearWidth16, KoalaBearWidth16>>::new(stream, &matrices, 0);
        assert_says(made.map(|_| ()), &["constants of its own"]);
        MerkleTree::<KoalaBearPoseidon2Width16>::new(stream, &matrices, 0).unwrap();
    });
}
