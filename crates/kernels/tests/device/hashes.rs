//! The hashes and their Plonky3 counterparts.

use std::fmt::Debug;

use p3_baby_bear::{default_babybear_poseidon2_16, default_babybear_poseidon2_24};
use p3_commit::Mmcs;
use p3_goldilocks::{default_goldilocks_poseidon2_8, default_goldilocks_poseidon2_12};
use p3_keccak::{Keccak256Hash, KeccakF, VECTOR_LEN};
use p3_koala_bear::{default_koalabear_poseidon2_16, default_koalabear_poseidon2_24};
use p3_matrix::dense::RowMajorMatrix;
use p3_merkle_tree::MerkleTreeMmcs;
use p3_symmetric::{
    CompressionFunctionFromHasher, CryptographicHasher, PaddingFreeSponge, SerializingHasher, TruncatedPermutation,
};
use rigel_gpu::Stream;
use rigel_kernels::Matrix;
use rigel_kernels::field::{BabyBear, Goldilocks, KoalaBear, Mersenne31};
use rigel_kernels::hash::*;

use crate::support::{Upstream, random, rng};

/// A commitment and openings, computed upstream.
pub(crate) struct Committed<D> {
    pub(crate) cap: Vec<D>,
    /// The siblings of each opened leaf.
    pub(crate) paths: Vec<Vec<D>>,
    /// The siblings of all opened leaves at once.
    pub(crate) pruned: Vec<D>,
}

/// A hash that also exists in Plonky3.
pub(crate) trait Plonky3<F: Upstream>: RowHash<F> {
    /// Upstream's digest.
    type Theirs: Clone + Debug + PartialEq;

    /// Converts a digest to upstream's type.
    fn theirs(digest: Self::Digest) -> Self::Theirs;

    /// The hash of a row.
    fn row(row: Vec<F::P3>) -> Self::Theirs;

    /// Commits to matrices and opens leaves.
    fn commit(
        matrices: Vec<RowMajorMatrix<F::P3>>,
        cap_height: usize,
        leaves: &[usize],
    ) -> Committed<Self::Theirs>;
}

macro_rules! plonky3 {
    ($hash:ty, $field:ty, $theirs:ty, $words:literal, $packed:ty, $packed_words:ty,
     $convert:expr, $rows:expr, $nodes:expr) => {
        impl Plonky3<$field> for $hash {
            type Theirs = $theirs;

            fn theirs(digest: Self::Digest) -> $theirs {
                $convert(digest)
            }

            fn row(row: Vec<<$field as Upstream>::P3>) -> $theirs {
                $rows.hash_iter(row)
            }

            fn commit(
                matrices: Vec<RowMajorMatrix<<$field as Upstream>::P3>>,
                cap_height: usize,
                leaves: &[usize],
            ) -> Committed<$theirs> {
                let mmcs =
                    MerkleTreeMmcs::<$packed, $packed_words, _, _, 2, $words>::new($rows, $nodes, cap_height);
                let (cap, tree) = mmcs.commit(matrices);
                Committed {
                    cap: cap.into_roots(),
                    paths: leaves.iter().map(|&leaf| mmcs.open_batch(leaf, &tree).opening_proof).collect(),
                    pruned: mmcs.open_multi_batch(leaves, &tree).1.sibling_hashes,
                }
            }
        }
    };
}

macro_rules! keccak {
    ($($field:ty)*) => { $(
        plonky3!(
            KeccakSponge, $field, [u64; 4], 4, [<$field as Upstream>::P3; VECTOR_LEN], [u64; VECTOR_LEN],
            |digest| digest,
            SerializingHasher::new(PaddingFreeSponge::<KeccakF, 25, 17, 4>::new(KeccakF)),
            CompressionFunctionFromHasher::<_, 2, 4>::new(PaddingFreeSponge::<KeccakF, 25, 17, 4>::new(KeccakF))
        );
        plonky3!(
            Keccak256, $field, [u8; 32], 32, <$field as Upstream>::P3, u8,
            |digest| digest,
            SerializingHasher::new(Keccak256Hash),
            CompressionFunctionFromHasher::<_, 2, 32>::new(Keccak256Hash)
        );
    )* };
}
keccak!(BabyBear KoalaBear Mersenne31 Goldilocks);

macro_rules! poseidon2 {
    ($hash:ty, $field:ty, $words:literal, $width:literal / $rate:literal: $rows:expr,
     $node:literal: $nodes:expr) => {
        plonky3!(
            $hash,
            $field,
            [<$field as Upstream>::P3; $words],
            $words,
            <<$field as Upstream>::P3 as p3_field::Field>::Packing,
            <<$field as Upstream>::P3 as p3_field::Field>::Packing,
            |digest: [$field; $words]| digest.map(Upstream::upstream),
            PaddingFreeSponge::<_, $width, $rate, $words>::new($rows),
            TruncatedPermutation::<_, 2, $words, $node>::new($nodes)
        );
    };
}
poseidon2!(
    KoalaBearPoseidon2Width16, KoalaBear, 8,
    16 / 8: default_koalabear_poseidon2_16(), 16: default_koalabear_poseidon2_16()
);
poseidon2!(
    KoalaBearPoseidon2Width24, KoalaBear, 8,
    24 / 16: default_koalabear_poseidon2_24(), 16: default_koalabear_poseidon2_16()
);
poseidon2!(
    BabyBearPoseidon2Width16, BabyBear, 8,
    16 / 8: default_babybear_poseidon2_16(), 16: default_babybear_poseidon2_16()
);
poseidon2!(
    BabyBearPoseidon2Width24, BabyBear, 8,
    24 / 16: default_babybear_poseidon2_24(), 16: default_babybear_poseidon2_16()
);
poseidon2!(
    GoldilocksPoseidon2Width8, Goldilocks, 4,
    8 / 4: default_goldilocks_poseidon2_8(), 8: default_goldilocks_poseidon2_8()
);
poseidon2!(
    GoldilocksPoseidon2Width12, Goldilocks, 4,
    12 / 8: default_goldilocks_poseidon2_12(), 8: default_goldilocks_poseidon2_8()
);

/// Random matrices of these rows and columns, on the device and as rows.
pub(crate) fn matrices<F: Upstream>(
    stream: &Stream,
    shapes: &[(usize, usize)],
) -> (Vec<Matrix<F>>, Vec<Vec<Vec<F>>>) {
    let mut rng = rng(shapes.iter().map(|&(rows, columns)| (rows + 31 * columns) as u64).sum());
    shapes
        .iter()
        .map(|&(rows, columns)| {
            let values: Vec<F> = random(&mut rng, rows * columns);
            let row = |r: usize| (0..columns).map(|c| values[c * rows + r]).collect();
            let matrix = Matrix::new(stream.upload(&values).unwrap(), rows, columns).unwrap();
            (matrix, (0..rows).map(row).collect())
        })
        .unzip()
}
