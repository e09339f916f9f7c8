//! Digests of rows against upstream's hashes.

use rigel_gpu::{Error, Stream, bytes_of};
use rigel_kernels::Columns;
use rigel_kernels::commit::merkle::MerkleTree;
use rigel_kernels::commit::rows::{self, RowsInParts};
use rigel_kernels::field::{BabyBear, Field, Goldilocks, KoalaBear, Mersenne31};
use rigel_kernels::hash::*;
use stwo::core::vcs::blake2_hash::{Blake2sHasher, Blake2sM31Hasher};

use crate::hashes::{Plonky3, matrices};
use crate::support::{Upstream, on_each_device};

/// Compares the digests of the rows of several matrices of one height.
fn check_joined<H: RowHash<F>, F: Upstream, D: PartialEq + std::fmt::Debug>(
    shapes: &[(usize, usize)],
    ours: impl Fn(H::Digest) -> D,
    theirs: impl Fn(Vec<F>) -> D,
) {
    on_each_device(|stream| compare::<H, F, D>(stream, shapes, &ours, &theirs));
}

fn compare<H: RowHash<F>, F: Upstream, D: PartialEq + std::fmt::Debug>(
    stream: &Stream,
    shapes: &[(usize, usize)],
    ours: impl Fn(H::Digest) -> D,
    theirs: impl Fn(Vec<F>) -> D,
) {
    let (on_device, on_host) = matrices::<F>(stream, shapes);
    let columns: Vec<Columns<'_, F>> = on_device.iter().map(Columns::from).collect();
    let digests = rows::hash::<H, F>(stream, &columns).unwrap().to_vec(stream).unwrap();
    assert_eq!(digests.len(), shapes[0].0);
    for (r, digest) in digests.into_iter().enumerate() {
        let row = on_host.iter().flat_map(|rows| rows[r].clone()).collect();
        assert_eq!(ours(digest), theirs(row), "{} over {}, {shapes:?}, row {r}", H::ROWS, F::NAME);
    }
}

/// The number of rows from which on each has a thread of its own, though the hash has a type for few rows.
fn many_rows(stream: &Stream) -> usize {
    128 * stream.device().properties().multiprocessors.next_power_of_two() as usize
}

/// Widths around the message blocks of every hash, and heights below, at and above a thread block.
fn check_shapes<H: RowHash<F>, F: Upstream, D: PartialEq + std::fmt::Debug>(
    ours: impl Fn(H::Digest) -> D + Copy,
    theirs: impl Fn(Vec<F>) -> D + Copy,
) {
    for columns in [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 18, 31, 33, 34, 35, 51, 67, 68, 69] {
        check_joined::<H, F, D>(&[(4, columns)], ours, theirs);
    }
    for (rows, columns) in [(1, 3), (2, 19), (16, 35), (64, 5), (128, 3), (256, 2), (1024, 9)] {
        check_joined::<H, F, D>(&[(rows, columns)], ours, theirs);
    }
    if H::ROW_PAIRS.is_some() {
        on_each_device(|stream| {
            for columns in [0, 1, 16, 17, 18, 33, 34, 35, 68, 69] {
                compare::<H, F, D>(stream, &[(many_rows(stream), columns)], ours, theirs);
            }
            let joined = [3, 35, 0, 1].map(|columns| (many_rows(stream), columns));
            compare::<H, F, D>(stream, &joined, ours, theirs);
        });
    }
}

fn check<H: Plonky3<F>, F: Upstream>() {
    check_shapes::<H, F, H::Theirs>(H::theirs, |row| H::row(row.into_iter().map(F::upstream).collect()));
}

macro_rules! rows_equal_plonky3 {
    ($($test:ident: $hash:ty, $field:ty;)*) => { $(
        #[test]
        fn $test() {
            check::<$hash, $field>();
        }
    )* };
}
rows_equal_plonky3! {
    keccak_sponge_of_baby_bear: KeccakSponge, BabyBear;
    keccak_sponge_of_koala_bear: KeccakSponge, KoalaBear;
    keccak_sponge_of_mersenne31: KeccakSponge, Mersenne31;
    keccak_sponge_of_goldilocks: KeccakSponge, Goldilocks;
    keccak256_of_baby_bear: Keccak256, BabyBear;
    keccak256_of_koala_bear: Keccak256, KoalaBear;
    keccak256_of_mersenne31: Keccak256, Mersenne31;
    keccak256_of_goldilocks: Keccak256, Goldilocks;
    poseidon2_of_koala_bear_width_16: KoalaBearPoseidon2Width16, KoalaBear;
    poseidon2_of_koala_bear_width_24: KoalaBearPoseidon2Width24, KoalaBear;
    poseidon2_of_baby_bear_width_16: BabyBearPoseidon2Width16, BabyBear;
    poseidon2_of_baby_bear_width_24: BabyBearPoseidon2Width24, BabyBear;
    poseidon2_of_goldilocks_width_8: GoldilocksPoseidon2Width8, Goldilocks;
    poseidon2_of_goldilocks_width_12: GoldilocksPoseidon2Width12, Goldilocks;
}

#[test]
fn blake2s_of_31_bit_fields() {
    let blake2s = |bytes: &[u8]| Blake2sHasher::hash(bytes).0;
    check_shapes::<Blake2s, Mersenne31, _>(|digest| digest, |row| blake2s(bytes_of(&row)));
    check_shapes::<Blake2s, KoalaBear, _>(|digest| digest, |row| blake2s(bytes_of(&row)));
    check_joined::<Blake2s, BabyBear, _>(&[(8, 21)], |digest| digest, |row| blake2s(bytes_of(&row)));
}

#[test]
fn blake2s_with_words_below_2_31() {
    let blake2s = |row: Vec<Mersenne31>| Blake2sM31Hasher::hash(bytes_of(&row)).0;
    check_shapes::<Blake2sM31, Mersenne31, _>(|digest| digest, blake2s);
}

/// Several matrices are hashed as one whose rows are the concatenation of theirs; there may be more than one launch can
/// list, and some without columns.
#[test]
fn rows_across_matrices() {
    fn check_several<H: Plonky3<F>, F: Upstream>() {
        let theirs = |row: Vec<F>| H::row(row.into_iter().map(F::upstream).collect());
        let many: Vec<_> = (0..35).map(|i| (8, i * 7 % 5)).collect();
        let shapes: [&[_]; 5] = [
            &[(128, 3), (128, 1)],
            &[(4, 0), (4, 35), (4, 0)],
            &[(4, 0), (4, 0)],
            &[(1, 33), (1, 150), (1, 2)],
            &many,
        ];
        for shapes in shapes {
            check_joined::<H, F, _>(shapes, H::theirs, theirs);
        }
    }
    check_several::<KeccakSponge, KoalaBear>();
    check_several::<Keccak256, Goldilocks>();
    check_several::<KoalaBearPoseidon2Width16, KoalaBear>();
}

/// A range of a matrix's columns is hashed like a matrix.
#[test]
fn rows_of_a_range_of_columns() {
    on_each_device(|stream| {
        let (on_device, on_host) = matrices::<KoalaBear>(stream, &[(16, 9)]);
        let range = Columns::new(on_device[0].column_range(2, 7).unwrap(), 16).unwrap();
        let digests = rows::hash::<KeccakSponge, _>(stream, &[range]).unwrap().to_vec(stream).unwrap();
        for (row, digest) in on_host[0].iter().zip(digests) {
            let row = row[2..7].iter().map(|x| x.upstream()).collect();
            assert_eq!(digest, <KeccakSponge as Plonky3<KoalaBear>>::row(row));
        }
    });
}

#[test]
fn packed_rows() {
    fn check_packed<H: Plonky3<F>, F: Upstream>(rows: usize, columns: usize, log_packed: u32) {
        on_each_device(|stream| {
            let (on_device, on_host) = matrices::<F>(stream, &[(rows, columns)]);
            let digests = rows::hash_packed::<H, F>(stream, (&on_device[0]).into(), log_packed).unwrap();
            let digests = digests.to_vec(stream).unwrap();
            assert_eq!(digests.len(), rows >> log_packed);
            for (rows, digest) in on_host[0].chunks(1 << log_packed).zip(digests) {
                assert_eq!(H::theirs(digest), H::row(rows.iter().flatten().map(|x| x.upstream()).collect()));
            }
        });
    }
    for log_packed in 0..=4 {
        check_packed::<KeccakSponge, KoalaBear>(256, 4, log_packed);
    }
    check_packed::<KoalaBearPoseidon2Width16, KoalaBear>(64, 4, 3);
    check_packed::<GoldilocksPoseidon2Width8, Goldilocks>(64, 2, 2);
    check_packed::<KeccakSponge, Goldilocks>(8, 3, 3);
}

#[test]
fn digests_of_goldilocks_are_canonical() {
    on_each_device(|stream| {
        let (on_device, _) = matrices::<Goldilocks>(stream, &[(1024, 4)]);
        let digests = rows::hash::<GoldilocksPoseidon2Width8, _>(stream, &[(&on_device[0]).into()]).unwrap();
        let digests = digests.to_vec(stream).unwrap();
        assert!(digests.iter().flatten().all(|word| word.word() == word.to_u64()));
    });
}

/// Each kind of row with each kind of wrong input.
#[test]
fn bad_input_is_refused() {
    on_each_device(|stream| {
        let refused = |result: Result<rigel_gpu::Buffer<[u64; 4]>, Error>, words: &str| {
            let text = result.map(|_| ()).unwrap_err().to_string();
            assert!(text.contains(words), "{text}");
        };
        let (m, _) = matrices::<KoalaBear>(stream, &[(8, 2), (4, 2), (6, 1), (8, 40), (1, 3)]);
        let m: Vec<Columns<'_, KoalaBear>> = m.iter().map(Columns::from).collect();
        refused(rows::hash::<KeccakSponge, KoalaBear>(stream, &[]), "no matrices");
        refused(rows::hash::<KeccakSponge, _>(stream, &[m[0], m[1]]), "8 and of 4 rows");
        refused(rows::hash::<KeccakSponge, _>(stream, &[m[2]]), "power of two");
        refused(rows::hash_packed::<KeccakSponge, _>(stream, m[0], 4), "2^4 rows at a time of a matrix of 8 rows");
        refused(rows::hash_packed::<KeccakSponge, _>(stream, m[3], 1), "40 columns");
        refused(rows::hash_packed::<KeccakSponge, _>(stream, m[2], 1), "power of two");
        assert!(Columns::new(m[0].values(), 3).is_err());
        assert!(Columns::new(m[0].values(), 0).is_err());
        assert_eq!(rows::hash::<KeccakSponge, _>(stream, &[m[0]]).unwrap().len(), 8);
    });
}

/// Columns that arrive in parts give the same leaves and tree as all of them at once.
#[test]
fn rows_in_parts() {
    fn check_parts<H: RowHash<F> + Sponge, F: Upstream>(rows: usize, blocks: &[usize], rest: usize) {
        let block = RowsInParts::<H>::block::<F>();
        let columns = blocks.iter().sum::<usize>() * block + rest;
        on_each_device(|stream| {
            let (on_device, _) = matrices::<F>(stream, &[(rows, columns)]);
            let whole = MerkleTree::<H>::new(stream, &[(&on_device[0]).into()], 0).unwrap();
            let part = |first, end| Columns::new(on_device[0].column_range(first, end).unwrap(), rows).unwrap();
            let mut parts = RowsInParts::<H>::new(stream, rows).unwrap();
            let mut first = 0;
            for count in blocks {
                parts.absorb(stream, part(first, first + count * block)).unwrap();
                first += count * block;
            }
            let tree = MerkleTree::from_parts(stream, parts, part(first, columns), 0).unwrap();
            let [expected, found] = [&whole, &tree].map(|tree| tree.digests().to_vec(stream).unwrap());
            assert_eq!(found, expected, "{} over {}: {blocks:?} blocks and {rest}", H::ROWS, F::NAME);
            if block > 1 {
                let wrong = RowsInParts::<H>::new(stream, rows).unwrap().absorb(stream, part(0, 1));
                assert!(wrong.unwrap_err().to_string().contains("multiple of the block size"));
            }
        });
    }
    for rest in [1, 3, 34, 40] {
        check_parts::<KeccakSponge, KoalaBear>(64, &[1, 2], rest);
    }
    check_parts::<KeccakSponge, Goldilocks>(128, &[1, 1, 1], 5);
    check_parts::<KeccakSponge, KoalaBear>(8, &[], 7);
    check_parts::<Keccak256, BabyBear>(4, &[2], 0);
    check_parts::<Keccak256, Goldilocks>(64, &[1], 17);
    check_parts::<KoalaBearPoseidon2Width16, KoalaBear>(32, &[1, 3], 9);
    check_parts::<BabyBearPoseidon2Width24, BabyBear>(32, &[2], 3);
    check_parts::<GoldilocksPoseidon2Width12, Goldilocks>(16, &[1, 2], 1);
}
