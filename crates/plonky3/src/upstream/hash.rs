//! Maps upstream's tree hashes to kernels.

use std::fmt::{self, Debug};

use p3_baby_bear::{BabyBear, Poseidon2BabyBear};
use p3_commit::ExtensionMmcs;
use p3_fri::{HidingFriPcs, TwoAdicFriPcs};
use p3_goldilocks::{Goldilocks, Poseidon2Goldilocks};
use p3_keccak::{Keccak256Hash, KeccakF};
use p3_koala_bear::{KoalaBear, Poseidon2KoalaBear};
use p3_merkle_tree::{MerkleTreeHidingMmcs, MerkleTreeMmcs};
use p3_symmetric::{
    CompressionFunctionFromHasher, CryptographicHasher, PaddingFreeSponge, PseudoCompressionFunction,
    SerializingHasher, TruncatedPermutation,
};
use rigel_kernels::hash::poseidon2 as shapes;
use rigel_kernels::hash::{Hash, Keccak256, KeccakSponge, Poseidon2, RowHash, Sponge};

use crate::base::error::Result;
use crate::upstream::field::DeviceField;
use crate::upstream::poseidon2::{DevicePermutation, printed_by_trees};

/// Upstream's hash of rows of `V`, for which there is a kernel if digests are compressed by `C`.
///
/// To use a hash of your own, implement upstream's traits for its two types, [`Hash`] with its CUDA text for a type
/// that names the kernels' side, and this trait for the type that hashes rows: the example `own_hash`.
///
/// [`Prover::new`](crate::Prover::new) commits to a small matrix on both sides, so that kernels that do not compute the
/// same are an error there.
pub trait TreeHash<V: DeviceField, C, Digest>: Sized {
    /// The kernel type.
    type Kernel: RowHash<V::Device> + Sponge;

    /// Converts a digest to upstream's type.
    fn digest(digest: <Self::Kernel as Hash>::Digest) -> Digest;

    /// The kernels' hash, with the constants that the PCS's trees use if it has any.
    fn kernel(pcs: &impl TreePcs<Self, C>) -> Result<Self::Kernel>;

    /// The trees' hash on the host, if it needs nothing of the PCS. The host then makes the smallest trees of FRI,
    /// for which it takes less time than for a round trip to the device, in proofs of one device that do not hide
    /// the trace. [`Prover::new`](crate::Prover::new) compares it with the kernels'.
    fn on_host() -> Option<HostHash<V, <Self::Kernel as Hash>::Digest>> {
        None
    }
}

/// A hash of rows of `V` and of pairs of digests on the host. Digests are the kernels', whose bytes are upstream's.
pub struct HostHash<V, Digest> {
    /// The digest of a row. In trees of FRI, that is the coefficients of all extension elements of a leaf.
    pub row: fn(&[V]) -> Digest,
    /// The digest of two digests.
    pub node: fn([Digest; 2]) -> Digest,
}

/// Upstream's PCS over trees of the hash `H` for rows and `C` for nodes: `TwoAdicFriPcs` over `MerkleTreeMmcs`, or
/// `HidingFriPcs` over `MerkleTreeHidingMmcs`.
pub trait TreePcs<H, C> {
    /// Prints the PCS: upstream's types do not show their parts in any other way.
    fn print(&self, to: &mut dyn fmt::Write) -> fmt::Result
    where
        H: Debug,
        C: Debug;
}

impl<V: Debug, EF: Debug, Dft: Debug, P: Debug, PW: Debug, H, C, const N: usize> TreePcs<H, C>
    for TwoAdicFriPcs<
        V,
        Dft,
        MerkleTreeMmcs<P, PW, H, C, 2, N>,
        ExtensionMmcs<V, EF, MerkleTreeMmcs<P, PW, H, C, 2, N>>,
    >
{
    fn print(&self, to: &mut dyn fmt::Write) -> fmt::Result
    where
        H: Debug,
        C: Debug,
    {
        write!(to, "{self:?}")
    }
}

impl<V: Debug, EF: Debug, Dft: Debug, P: Debug, PW: Debug, H, C, R, const N: usize, const S: usize> TreePcs<H, C>
    for HidingFriPcs<
        V,
        Dft,
        MerkleTreeHidingMmcs<P, PW, H, C, R, 2, N, S>,
        ExtensionMmcs<V, EF, MerkleTreeHidingMmcs<P, PW, H, C, R, 2, N, S>>,
        R,
    >
where
    R: Debug,
{
    fn print(&self, to: &mut dyn fmt::Write) -> fmt::Result
    where
        H: Debug,
        C: Debug,
    {
        write!(to, "{self:?}")
    }
}

type KeccakFSponge = PaddingFreeSponge<KeccakF, 25, 17, 4>;

impl<V: DeviceField> TreeHash<V, CompressionFunctionFromHasher<KeccakFSponge, 2, 4>, [u64; 4]>
    for SerializingHasher<KeccakFSponge>
where
    KeccakSponge: RowHash<V::Device>,
{
    type Kernel = KeccakSponge;

    fn digest(digest: [u64; 4]) -> [u64; 4] {
        digest
    }

    fn kernel(_: &impl TreePcs<Self, CompressionFunctionFromHasher<KeccakFSponge, 2, 4>>) -> Result<KeccakSponge> {
        Ok(KeccakSponge)
    }

    fn on_host() -> Option<HostHash<V, [u64; 4]>> {
        const SPONGE: KeccakFSponge = KeccakFSponge::new(KeccakF);
        Some(HostHash {
            row: |row| SerializingHasher::new(SPONGE).hash_slice(row),
            node: |digests| CompressionFunctionFromHasher::new(SPONGE).compress(digests),
        })
    }
}

impl<V: DeviceField> TreeHash<V, CompressionFunctionFromHasher<Keccak256Hash, 2, 32>, [u8; 32]>
    for SerializingHasher<Keccak256Hash>
where
    Keccak256: RowHash<V::Device>,
{
    type Kernel = Keccak256;

    fn digest(digest: [u8; 32]) -> [u8; 32] {
        digest
    }

    fn kernel(_: &impl TreePcs<Self, CompressionFunctionFromHasher<Keccak256Hash, 2, 32>>) -> Result<Keccak256> {
        Ok(Keccak256)
    }

    fn on_host() -> Option<HostHash<V, [u8; 32]>> {
        Some(HostHash {
            row: |row| SerializingHasher::new(Keccak256Hash).hash_slice(row),
            node: |digests| CompressionFunctionFromHasher::new(Keccak256Hash).compress(digests),
        })
    }
}

/// Every combination of a sponge for rows and a permutation for nodes.
macro_rules! poseidon2 {
    ($($field:ident $permutation:ident, digest $digest:literal, read by $read:ident:
        rows [$($shape:ident $width:literal / $rate:literal),*] nodes $nodes:tt;)*) => { $( $(
        poseidon2! { @rows $field $permutation $digest $read $shape $width $rate $nodes }
    )* )* };
    (@rows $field:ident $permutation:ident $digest:literal $read:ident $shape:ident $width:literal $rate:literal
        [$($node_shape:ident $node:literal),*]) => { $(
        impl TreeHash<$field, TruncatedPermutation<$permutation<$node>, 2, $digest, $node>, [$field; $digest]>
            for PaddingFreeSponge<$permutation<$width>, $width, $rate, $digest>
        {
            type Kernel = Poseidon2<shapes::$shape, shapes::$node_shape>;

            fn digest(digest: <Self::Kernel as Hash>::Digest) -> [$field; $digest] {
                digest.map(|word| $field::from_device(&[word])[0])
            }

            fn kernel(
                pcs: &impl TreePcs<Self, TruncatedPermutation<$permutation<$node>, 2, $digest, $node>>,
            ) -> Result<Self::Kernel> {
                poseidon2!(@$read $field $permutation $width $node pcs)
            }
        }
    )* };
    (@print $field:ident $permutation:ident $width:literal $node:literal $pcs:ident) => {{
        let [rows, nodes] = printed_by_trees::<$field>(|to| $pcs.print(to))?;
        Ok(Poseidon2::new(&rows, &nodes)?)
    }};
    (@defaults $field:ident $permutation:ident $width:literal $node:literal $pcs:ident) => {{
        let _ = $pcs;
        Ok(Poseidon2::new(&$permutation::<$width>::defaults(), &$permutation::<$node>::defaults())?)
    }};
}

poseidon2! {
    KoalaBear Poseidon2KoalaBear, digest 8, read by print:
        rows [
            KoalaBearWidth16 16 / 8, KoalaBearWidth24Rate8 24 / 8, KoalaBearWidth24 24 / 16,
            KoalaBearWidth32Rate8 32 / 8, KoalaBearWidth32Rate16 32 / 16, KoalaBearWidth32 32 / 24
        ]
        nodes [KoalaBearWidth16 16, KoalaBearWidth24 24, KoalaBearWidth32 32];
    BabyBear Poseidon2BabyBear, digest 8, read by print:
        rows [
            BabyBearWidth16 16 / 8, BabyBearWidth24Rate8 24 / 8, BabyBearWidth24 24 / 16,
            BabyBearWidth32Rate8 32 / 8, BabyBearWidth32Rate16 32 / 16, BabyBearWidth32 32 / 24
        ]
        nodes [BabyBearWidth16 16, BabyBearWidth24 24, BabyBearWidth32 32];
    Goldilocks Poseidon2Goldilocks, digest 4, read by defaults:
        rows [
            GoldilocksWidth8 8 / 4, GoldilocksWidth12Rate4 12 / 4, GoldilocksWidth12 12 / 8,
            GoldilocksWidth16Rate4 16 / 4, GoldilocksWidth16Rate8 16 / 8, GoldilocksWidth16 16 / 12
        ]
        nodes [GoldilocksWidth8 8, GoldilocksWidth12 12, GoldilocksWidth16 16];
}
