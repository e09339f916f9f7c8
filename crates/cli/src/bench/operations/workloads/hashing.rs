//! Digests of rows, and Merkle trees.

use rigel_kernels::Columns;
use rigel_kernels::commit::merkle::MerkleTree;
use rigel_kernels::commit::rows;
use rigel_kernels::field::{BabyBear, Field, Goldilocks, KoalaBear, Mersenne31, Ring};
use rigel_kernels::hash::poseidon2::{
    BabyBearWidth16, BabyBearWidth24, GoldilocksWidth8, GoldilocksWidth12, HALF_FULL_ROUNDS, KoalaBearWidth16,
    KoalaBearWidth24, Poseidon2Shape,
};
use rigel_kernels::hash::{
    BabyBearPoseidon2Width16, BabyBearPoseidon2Width24, Blake2s, GoldilocksPoseidon2Width8,
    GoldilocksPoseidon2Width12, Hash, Hashing, Keccak256, KeccakSponge, KoalaBearPoseidon2Width16,
    KoalaBearPoseidon2Width24, Poseidon2, RoundConstants, RowHash,
};

use super::{count, matrix_bytes};
use crate::bench::Size;
use crate::bench::operations::instructions::{BLAKE2S, KECCAK_F, poseidon2};
use crate::bench::operations::measure::{Bar, Case, Cost, Instructions};

/// Elements absorbed per permutation, and the cost of the permutation.
#[derive(Clone, Copy)]
struct Block(usize, Instructions);

pub fn cases(size: Size) -> Vec<Case> {
    let (rows, columns) = size.pick((1 << 18, 2633), (1 << 6, 70));
    let narrow = size.pick(512, 20);
    let leaves = size.pick(1 << 22, 1 << 8);
    let koala_16 = poseidon2::<KoalaBear>(16, 20, 2);
    let koala_24 = poseidon2::<KoalaBear>(24, 23, 2);
    let baby_16 = poseidon2::<BabyBear>(16, 13, 4);
    let baby_24 = poseidon2::<BabyBear>(24, 21, 4);
    let goldilocks_8 = poseidon2::<Goldilocks>(8, 22, 4);
    let goldilocks_12 = poseidon2::<Goldilocks>(12, 22, 4);
    vec![
        hash_rows::<KeccakSponge, KoalaBear>(rows, columns, Block(34, KECCAK_F), Some(Bar::AtLeast(3.0))),
        hash_rows::<KeccakSponge, Goldilocks>(rows, columns / 2, Block(17, KECCAK_F), None),
        hash_rows::<Keccak256, KoalaBear>(rows, columns, Block(34, KECCAK_F), None),
        hash_rows::<Blake2s, Mersenne31>(rows, columns, Block(16, BLAKE2S), None),
        hash_rows::<KoalaBearPoseidon2Width16, KoalaBear>(rows, narrow, Block(8, koala_16), None),
        hash_rows::<KoalaBearPoseidon2Width24, KoalaBear>(rows, narrow, Block(16, koala_24), None),
        hash_rows::<BabyBearPoseidon2Width16, BabyBear>(rows, narrow, Block(8, baby_16), None),
        hash_rows::<BabyBearPoseidon2Width24, BabyBear>(rows, narrow, Block(16, baby_24), None),
        hash_rows::<GoldilocksPoseidon2Width8, Goldilocks>(rows, narrow / 2, Block(4, goldilocks_8), None),
        hash_rows::<GoldilocksPoseidon2Width12, Goldilocks>(rows, narrow / 2, Block(8, goldilocks_12), None),
        own_constants::<KoalaBearWidth16, KoalaBearWidth16>(rows, narrow, Block(8, koala_16)),
        own_constants::<KoalaBearWidth24, KoalaBearWidth16>(rows, narrow, Block(16, koala_24)),
        own_constants::<BabyBearWidth16, BabyBearWidth16>(rows, narrow, Block(8, baby_16)),
        own_constants::<BabyBearWidth24, BabyBearWidth16>(rows, narrow, Block(16, baby_24)),
        own_constants::<GoldilocksWidth8, GoldilocksWidth8>(rows, narrow / 2, Block(4, goldilocks_8)),
        own_constants::<GoldilocksWidth12, GoldilocksWidth8>(rows, narrow / 2, Block(8, goldilocks_12)),
        own_tree::<KoalaBearWidth16>(leaves, koala_16),
        own_tree::<BabyBearWidth16>(leaves, baby_16),
        own_tree::<GoldilocksWidth8>(leaves, goldilocks_8),
        tree::<KoalaBearPoseidon2Width16, KoalaBear>(leaves, koala_16, Some(Bar::AtLeast(0.8))),
        tree::<BabyBearPoseidon2Width16, BabyBear>(leaves, baby_16, None),
        tree::<GoldilocksPoseidon2Width8, Goldilocks>(leaves, goldilocks_8, None),
        tree::<KeccakSponge, Goldilocks>(leaves, KECCAK_F, None),
        tree::<Keccak256, Goldilocks>(leaves, KECCAK_F, None),
        tree::<Blake2s, Mersenne31>(leaves, BLAKE2S, None),
    ]
}

/// Each element is read once, and one digest per row is written.
fn hash_rows<H: RowHash<F>, F: Field>(rows: usize, columns: usize, block: Block, bar: Option<Bar>) -> Case {
    // The names of the Poseidon2 types start with their field.
    let field = if H::ROWS.starts_with(F::NAME) { String::new() } else { format!(" {}", F::NAME) };
    rows_of::<H, F>(format!("rows {}{field}", H::ROWS), None, (rows, columns), block, bar)
}

/// Hashes of rows with round constants that are given at run time.
fn own_constants<R: Poseidon2Shape, N: Poseidon2Shape<Field = R::Field>>(
    rows: usize,
    columns: usize,
    block: Block,
) -> Case {
    let hash =
        Poseidon2::<R, N>::new(&any_constants::<R>(), &any_constants::<N>()).expect("constants of the shape");
    let name = format!("rows Poseidon2 {} {} own constants", R::Field::NAME, R::WIDTH);
    rows_of::<_, R::Field>(name, Some(hash), (rows, columns), block, None)
}

fn own_tree<S: Poseidon2Shape>(leaves: usize, compression: Instructions) -> Case {
    let hash =
        Poseidon2::<S, S>::new(&any_constants::<S>(), &any_constants::<S>()).expect("constants of the shape");
    let name = format!("tree Poseidon2 {} {} own constants", S::Field::NAME, S::WIDTH);
    tree_of::<_, S::Field>(name, Some(hash), leaves, compression, None)
}

/// Some constants; which does not matter to the time.
fn any_constants<S: Poseidon2Shape>() -> RoundConstants<S::Field> {
    let rounds = |rounds: usize| vec![vec![S::Field::GENERATOR; S::WIDTH]; rounds];
    RoundConstants {
        initial: rounds(HALF_FULL_ROUNDS),
        terminal: rounds(HALF_FULL_ROUNDS),
        partial: vec![S::Field::GENERATOR; S::PARTIAL_ROUNDS],
    }
}

fn rows_of<H: RowHash<F>, F: Field>(
    name: String,
    hash: Option<H>,
    (rows, columns): (usize, usize),
    block: Block,
    bar: Option<Bar>,
) -> Case {
    Case::new(name, format!("{} x {columns}", count(rows)), move |bench| {
        let Block(elements, permutation) = block;
        let permutations = (rows * columns.div_ceil(elements)) as f64;
        let cost = Cost::bytes(matrix_bytes::<F>(rows, columns) + matrix_bytes::<H::Digest>(rows, 1))
            .instructions(permutation * permutations);
        let matrix = bench.random_matrix::<F>(rows, columns)?;
        let work = |stream: &_| {
            rows::hash::<H, F>(Hashing::new(stream, hash.as_ref()), &[Columns::from(&matrix)]).map(drop)
        };
        Ok(bench.measure(cost, permutations, "G permutations/s", work)?.bar(bar))
    })
}

/// Every node is read once and written once, including the leaves, which are copied into the tree. Random digests are
/// made of elements of `F`.
fn tree<H: Hash, F: Field>(leaves: usize, compression: Instructions, bar: Option<Bar>) -> Case {
    tree_of::<H, F>(format!("tree {}", H::NODES), None, leaves, compression, bar)
}

fn tree_of<H: Hash, F: Field>(
    name: String,
    hash: Option<H>,
    leaves: usize,
    compression: Instructions,
    bar: Option<Bar>,
) -> Case {
    Case::new(name, format!("{} leaves", count(leaves)), move |bench| {
        let compressions = (leaves - 1) as f64;
        let nodes = matrix_bytes::<H::Digest>(2 * leaves, 1);
        let cost = Cost::bytes(2.0 * nodes).instructions(compression * compressions);
        let words = leaves * size_of::<H::Digest>() / size_of::<F>();
        let digests = bench.random::<F>(words)?.cast::<H::Digest>()?;
        let build =
            |stream: &_| MerkleTree::<H>::from_leaves(Hashing::new(stream, hash.as_ref()), &digests).map(drop);
        Ok(bench.measure(cost, compressions, "G permutations/s", build)?.bar(bar))
    })
}
