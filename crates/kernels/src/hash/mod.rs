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
//!
//! The two Keccak hashes absorb rows through `SerializingHasher`, and compress nodes with
//! `CompressionFunctionFromHasher` of the same hash. Poseidon2 compresses nodes with the `TruncatedPermutation` of
//! width 16 (8 for Goldilocks), whatever the width that hashes rows.
//!
//! Poseidon2 uses the round constants of upstream's default instances. Every digest is 32 bytes, with the same bytes on
//! the device and upstream: it can be copied or reinterpreted as upstream's type.

use std::fmt::Debug;

use rigel_gpu::Plain;

use crate::field::{BabyBear, Field, Goldilocks, KoalaBear, Mersenne31};

/// A hash for the rows of matrices and the nodes of trees.
pub trait Hash: Debug + Copy + Send + Sync + 'static {
    /// The digest type: 32 bytes.
    type Digest: Plain + Debug + Default + Eq;

    /// The C++ type that hashes rows.
    const ROWS: &'static str;
    /// The C++ type that compresses two digests to one.
    const NODES: &'static str;
    /// The header that declares both.
    const HEADER: &'static str;
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
    ($($(#[$doc:meta])* $hash:ident / $nodes:ident in $header:literal: [$($field:ty),*] -> $digest:ty;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $hash;

        impl Hash for $hash {
            type Digest = $digest;
            const ROWS: &'static str = stringify!($hash);
            const NODES: &'static str = stringify!($nodes);
            const HEADER: &'static str = $header;
        }

        $(impl RowHash<$field> for $hash {})*

        const _: () = assert!(size_of::<$digest>() == 32);
    )* };
}

hashes! {
    /// Keccak-f as an overwriting sponge of 64-bit words without padding.
    KeccakSponge / KeccakSponge in "hash/keccak.cuh": [BabyBear, KoalaBear, Mersenne31, Goldilocks] -> [u64; 4];
    /// Keccak-256 of the elements' bytes.
    Keccak256 / Keccak256 in "hash/keccak.cuh": [BabyBear, KoalaBear, Mersenne31, Goldilocks] -> [u8; 32];
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
