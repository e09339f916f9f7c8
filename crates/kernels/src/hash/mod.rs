//! The hashes for rows and Merkle trees, as types with their upstream names, the fields that they hash, and their
//! digests.
//!
//! | type | upstream | digest | fields |
//! |---|---|---|---|
//! | [`KeccakSponge`] | Plonky3 `PaddingFreeSponge<KeccakF, 25, 17, 4>` | `[u64; 4]` | all |
//! | [`Keccak256`] | Plonky3 `Keccak256Hash` | `[u8; 32]` | all |
//! | [`Blake2s`] | Stwo `Blake2sMerkleHasher` | `[u8; 32]` | 31-bit |
//! | [`Blake2sM31`] | Stwo `Blake2sM31MerkleHasher` | `[u8; 32]` | 31-bit |
//! | [`RiscZeroPoseidon2`] | RISC Zero `Poseidon2HashSuite` | `[BabyBear; 8]` | BabyBear |
//! | [`KoalaBearPoseidon2Width16`] … | Plonky3 `PaddingFreeSponge<Poseidon2, …>` | `[F; 8 or 4]` | its own |
//! | [`Poseidon2`] | the same with constants given at run time | `[F; 8 or 4]` | its own |
//!
//! The two Keccak hashes absorb rows through `SerializingHasher`, and compress nodes with
//! `CompressionFunctionFromHasher` of the same hash. Poseidon2 compresses nodes with the `TruncatedPermutation` of
//! width 16 (8 for Goldilocks), whatever the width that hashes rows.
//!
//! The Poseidon2 types with a field's name use the round constants of upstream's default instances. Every digest is 32
//! bytes, with the same bytes on the device and upstream: it can be copied or reinterpreted as upstream's type.

mod hashing;
pub mod poseidon2;

use std::fmt::Debug;

use rigel_gpu::Plain;

use crate::field::{BabyBear, Field, Goldilocks, KoalaBear, Mersenne31};

pub use hashing::{Constants, Hashing};
pub(crate) use hashing::{also, declare};
pub use poseidon2::{Poseidon2, RoundConstants};

/// A hash for the rows of matrices and the nodes of trees.
///
/// Other crates implement it for hashes of their own: [`TEXT`](Self::TEXT) is then the CUDA text of the two types. The
/// text may include this crate's headers, such as `field/word.cuh`, `hash/keccak.cuh` or `hash/blake2s.cuh`.
///
/// The type that hashes rows has
///
/// ```text
/// typedef u32 Word;                          // or u64, or a field: what a digest and a state consist of
/// static constexpr int DIGEST_WORDS = 8;     // so many words are 32 bytes
/// void init();
/// template <class Row> void absorb(const Row& row, u32 count);     // a whole row: row(i) is its element i
/// void finish(Word (&digest)[DIGEST_WORDS]) const;
/// ```
///
/// and, for rows that arrive in parts ([`Sponge`]),
///
/// ```text
/// static constexpr int STATE_WORDS = 16;
/// Word& state(int w);                                              // the state between two blocks
/// template <class Row> void absorb_whole(const Row& row, u32 count);   // whole blocks, after which more will come
/// ```
///
/// The type that compresses nodes has `Word`, `DIGEST_WORDS` and
///
/// ```text
/// static void compress(const Word (&left)[8], const Word (&right)[8], Word (&digest)[8]);
/// ```
///
/// All functions are `__device__`. An element of a row is a value of a field type: `canonical()` is the word that
/// upstream's `SerializingHasher` sees.
///
/// # Safety
///
/// The names are those of C++ types as described, whose functions access no memory but their arguments'. The types of
/// constants are those whose bytes the methods return.
pub unsafe trait Hash: Debug + Clone + Send + Sync + 'static {
    /// The digest type: 32 bytes.
    type Digest: Plain + Debug + Default + Eq;

    /// The C++ type that hashes rows.
    const ROWS: &'static str;
    /// The C++ type that compresses two digests to one.
    const NODES: &'static str;
    /// The header that declares both: one of this crate's, or the name that compilers use for [`TEXT`](Self::TEXT).
    const HEADER: &'static str;
    /// The CUDA text that declares both, for hashes of other crates.
    const TEXT: Option<&'static str> = None;
    /// The C++ type of the constants that `ROWS` takes at run time, as the last argument of `absorb` and
    /// `absorb_whole`.
    const ROW_CONSTANTS: Option<&'static str> = None;
    /// The C++ type of the constants that `NODES` takes at run time, as the last argument of `compress`.
    const NODE_CONSTANTS: Option<&'static str> = None;
    /// The threads that compress two digests together where there are few to compress, a power of two up to 16. With
    /// more than one, `NODES` has the types `Group` of such a thread (see `hash/keccak_group.cuh`) and `Half` of words
    /// that two threads share (see `hash/keccak.cuh`), its digests are words of 64 bits, and it takes no constants.
    /// This is for the Keccak hashes of this crate; hashes of other crates leave it at one.
    const NODE_LANES: u32 = 1;
    /// The C++ type that hashes rows as `ROWS` does, but of whose state a thread has half of every word, for few rows:
    /// see `hash/keccak.cuh`. It takes no constants. Hashes of other crates leave it at `None`.
    const ROW_PAIRS: Option<&'static str> = None;

    /// The constants for rows.
    fn row_constants(&self) -> Constants {
        Constants::NONE
    }

    /// The constants for nodes.
    fn node_constants(&self) -> Constants {
        Constants::NONE
    }
}

/// A hash that takes rows of elements of `F`.
pub trait RowHash<F: Field>: Hash {}

/// A hash that absorbs rows with a permutation of a state of field elements.
pub trait Permutation: Hash {
    /// The field of the state's elements.
    type Field: Field;
    /// The number of the state's elements.
    const WIDTH: usize;
}

macro_rules! hashes {
    ($($(#[$doc:meta])* $hash:ident / $nodes:ident $(by $lanes:literal)? in $header:literal:
        [$($field:ty),*] -> $digest:ty;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $hash;

        // SAFETY: the types of the header are as the trait demands, and digests have 32 bytes.
        unsafe impl Hash for $hash {
            type Digest = $digest;
            const ROWS: &'static str = stringify!($hash);
            const NODES: &'static str = stringify!($nodes);
            const HEADER: &'static str = $header;
            $(
                const NODE_LANES: u32 = $lanes;
                const ROW_PAIRS: Option<&'static str> = Some(concat!(stringify!($hash), "::Pair"));
            )?
        }

        $(impl RowHash<$field> for $hash {})*

        const _: () = assert!(size_of::<$digest>() == 32);
    )* };
}

hashes! {
    /// Keccak-f as an overwriting sponge of 64-bit words without padding.
    KeccakSponge / KeccakSponge by 16 in "hash/keccak.cuh":
        [BabyBear, KoalaBear, Mersenne31, Goldilocks] -> [u64; 4];
    /// Keccak-256 of the elements' bytes.
    Keccak256 / Keccak256 by 16 in "hash/keccak.cuh":
        [BabyBear, KoalaBear, Mersenne31, Goldilocks] -> [u8; 32];
    /// Blake2s-256 of the elements' bytes.
    Blake2s / Blake2s in "hash/blake2s.cuh": [BabyBear, KoalaBear, Mersenne31] -> [u8; 32];
    /// Blake2s-256 with every word of a digest reduced modulo 2^31 - 1.
    Blake2sM31 / Blake2sM31 in "hash/blake2s.cuh": [BabyBear, KoalaBear, Mersenne31] -> [u8; 32];
    /// Poseidon2 of width 16, rate 8.
    KoalaBearPoseidon2Width16 / KoalaBearPoseidon2Width16 in "hash/poseidon2_constants.cuh":
        [KoalaBear] -> [KoalaBear; 8];
    /// Poseidon2 of width 24, rate 16, for rows; of width 16 for nodes.
    KoalaBearPoseidon2Width24 / KoalaBearPoseidon2Width16 in "hash/poseidon2_constants.cuh":
        [KoalaBear] -> [KoalaBear; 8];
    /// Poseidon2 of width 16, rate 8.
    BabyBearPoseidon2Width16 / BabyBearPoseidon2Width16 in "hash/poseidon2_constants.cuh":
        [BabyBear] -> [BabyBear; 8];
    /// Poseidon2 of width 24, rate 16, for rows; of width 16 for nodes.
    BabyBearPoseidon2Width24 / BabyBearPoseidon2Width16 in "hash/poseidon2_constants.cuh":
        [BabyBear] -> [BabyBear; 8];
    /// Poseidon2 of width 24, rate 16, with RISC Zero's matrices, for rows and nodes.
    RiscZeroPoseidon2 / RiscZeroPoseidon2 in "hash/poseidon2_constants.cuh": [BabyBear] -> [BabyBear; 8];
    /// Poseidon2 of width 8, rate 4.
    GoldilocksPoseidon2Width8 / GoldilocksPoseidon2Width8 in "hash/poseidon2_constants.cuh":
        [Goldilocks] -> [Goldilocks; 4];
    /// Poseidon2 of width 12, rate 8, for rows; of width 8 for nodes.
    GoldilocksPoseidon2Width12 / GoldilocksPoseidon2Width8 in "hash/poseidon2_constants.cuh":
        [Goldilocks] -> [Goldilocks; 4];
}

macro_rules! permutations {
    ($($hash:ident: [$field:ty; $width:literal],)*) => { $(
        impl Permutation for $hash {
            type Field = $field;
            const WIDTH: usize = $width;
        }
    )* };
}

permutations! {
    KoalaBearPoseidon2Width16: [KoalaBear; 16],
    KoalaBearPoseidon2Width24: [KoalaBear; 24],
    BabyBearPoseidon2Width16: [BabyBear; 16],
    BabyBearPoseidon2Width24: [BabyBear; 24],
    GoldilocksPoseidon2Width8: [Goldilocks; 8],
    GoldilocksPoseidon2Width12: [Goldilocks; 12],
}

/// A hash that absorbs rows block by block, so that a row may arrive in parts.
pub trait Sponge: Hash {
    /// The bytes of field elements absorbed per permutation.
    const BLOCK_BYTES: usize;
    /// The bytes of the state between two permutations.
    const STATE_BYTES: usize;
}

/// A hash of blocks of 16 words of 4 bytes, whose state between two blocks is as large as a digest, as that of Blake2s.
/// It hashes columns of different lengths ([`lifted`](crate::commit::lifted)).
///
/// # Safety
///
/// The type that hashes rows has `u32 h[8]`, which is all of its state, the same as that of [`States`](Self::States)
/// until the last words are absorbed, and
///
/// ```text
/// static constexpr u32 BLOCK = 16;
/// // Whole blocks, after `before` words; more will come.
/// template <class Row> void absorb_blocks(const Row& row, u32 blocks, u32 before);
/// // The last words of the message, [first, count) of the row, at most a block.
/// template <class Row> void absorb_last(const Row& row, u32 first, u32 count, u32 before);
/// ```
pub unsafe trait Chained: Hash {
    /// The hash whose states between blocks are the same.
    type States: Chained<Digest = Self::Digest>;
}

// SAFETY: `hash/blake2s.cuh` has both types with these members.
unsafe impl Chained for Blake2s {
    type States = Self;
}
// SAFETY: as above; it differs from Blake2s in what it makes of the last state.
unsafe impl Chained for Blake2sM31 {
    type States = Blake2s;
}

macro_rules! sponges {
    ($($hash:ident: $block:expr, $state:expr;)*) => { $(
        impl Sponge for $hash {
            const BLOCK_BYTES: usize = $block;
            const STATE_BYTES: usize = $state;
        }
    )* };
}

sponges! {
    KeccakSponge: 17 * 8, 25 * 8;
    Keccak256: 17 * 8, 25 * 8;
    KoalaBearPoseidon2Width16: 8 * 4, 16 * 4;
    KoalaBearPoseidon2Width24: 16 * 4, 24 * 4;
    BabyBearPoseidon2Width16: 8 * 4, 16 * 4;
    BabyBearPoseidon2Width24: 16 * 4, 24 * 4;
    GoldilocksPoseidon2Width8: 4 * 8, 8 * 8;
    GoldilocksPoseidon2Width12: 8 * 8, 12 * 8;
}
