//! Plonky3 configurations that the device supports.

use p3_challenger::CanObserve;
use p3_commit::{ExtensionMmcs, Mmcs, UnivariateStarkPcs};
use p3_dft::TwoAdicSubgroupDft;
use p3_field::PackedValue;
use p3_field::coset::TwoAdicMultiplicativeCoset;
use p3_fri::{BatchMultiOpening, FriProof, FriProverError, TwoAdicFriPcs};
use p3_matrix::dense::RowMajorMatrix;
use p3_merkle_tree::{MerkleTreeMmcs, PrunedMerklePaths};
use p3_symmetric::{CryptographicHasher, MerkleCap, PseudoCompressionFunction};
use p3_uni_stark::{StarkConfig, StarkGenericConfig};
use rigel_kernels::hash::{Hash, RowHash, Sponge};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::challenger::DeviceChallenger;
use crate::error::Result;
use crate::field::{DeviceExtension, DeviceField};
use crate::hash::TreeHash;

/// A configuration that the device supports: maps upstream's types to kernels.
///
/// Implemented for `StarkConfig<TwoAdicFriPcs<…, MerkleTreeMmcs<…>, ExtensionMmcs<…>>, …>` over every
/// [`DeviceField`],
/// [`DeviceExtension`], [`TreeHash`] and [`DeviceChallenger`]: to add a field, hash or challenger, implement one
/// of these. Any other configuration does not compile.
pub trait DeviceConfig:
    StarkGenericConfig<
        Pcs: UnivariateStarkPcs<
            Self::Challenge,
            Self::Challenger,
            Domain = TwoAdicMultiplicativeCoset<Self::Value>,
            Commitment = Self::Commitment,
            Proof = FriProof<
                Self::Challenge,
                Self::FriMmcs,
                Self::Value,
                Vec<BatchMultiOpening<Self::Value, Self::InputMmcs>>,
            >,
            ProverData: Sync,
            ProverError = FriProverError,
        > + Sync,
        Challenge: DeviceExtension<Self::Value>,
        Challenger: DeviceChallenger<Self::Value> + CanObserve<Self::Commitment>,
    >
{
    /// The base field.
    type Value: DeviceField;
    /// The kernels of the tree hash.
    type Hash: RowHash<Base<Self>> + Sponge;
    /// The commitment to a tree: a cap.
    type Commitment: Clone + PartialEq + std::fmt::Debug + Sync;
    /// Upstream's trees over the base field.
    type InputMmcs: Mmcs<Self::Value, Commitment = Self::Commitment>;
    /// Upstream's trees over the extension.
    type FriMmcs: Mmcs<Self::Challenge, Commitment = Self::Commitment>;

    /// The kernels' hash, with the constants of this configuration's trees.
    fn hash(&self) -> Result<Self::Hash>;
    /// Makes a commitment from digests.
    fn cap(digests: Vec<Digest<Self>>) -> Self::Commitment;
    /// The number of a commitment's digests.
    fn cap_len(commitment: &Self::Commitment) -> usize;
    /// Makes the paths of an opening of a tree over the base field.
    fn input_paths(siblings: Vec<Digest<Self>>) -> <Self::InputMmcs as Mmcs<Self::Value>>::MultiProof;
    /// Makes the paths of an opening of a tree over the extension.
    fn fri_paths(siblings: Vec<Digest<Self>>) -> <Self::FriMmcs as Mmcs<Self::Challenge>>::MultiProof;
}

/// The base field on the device.
pub type Base<SC> = <<SC as DeviceConfig>::Value as DeviceField>::Device;
/// The extension on the device.
pub type Ext<SC> = <<SC as StarkGenericConfig>::Challenge as DeviceExtension<<SC as DeviceConfig>::Value>>::Device;
/// A digest as the kernels produce it.
pub type Digest<SC> = <<SC as DeviceConfig>::Hash as Hash>::Digest;

impl<V, Dft, P, PW, H, C, EF, Challenger, const N: usize> DeviceConfig
    for StarkConfig<
        TwoAdicFriPcs<
            V,
            Dft,
            MerkleTreeMmcs<P, PW, H, C, 2, N>,
            ExtensionMmcs<V, EF, MerkleTreeMmcs<P, PW, H, C, 2, N>>,
        >,
        EF,
        Challenger,
    >
where
    V: DeviceField,
    EF: DeviceExtension<V>,
    Dft: TwoAdicSubgroupDft<V> + Sync + std::fmt::Debug,
    P: PackedValue<Value = V> + std::fmt::Debug,
    PW: PackedValue<Value: Eq + Clone + std::fmt::Debug> + std::fmt::Debug,
    H: TreeHash<V, C, [PW::Value; N]>,
    H: CryptographicHasher<V, [PW::Value; N]> + CryptographicHasher<P, [PW; N]> + Clone + Sync,
    C: PseudoCompressionFunction<[PW::Value; N], 2> + PseudoCompressionFunction<[PW; N], 2> + Clone + Sync,
    [PW::Value; N]: Serialize + DeserializeOwned,
    Challenger: DeviceChallenger<V>
        + p3_challenger::FieldChallenger<V>
        + CanObserve<MerkleCap<V, [PW::Value; N]>>
        + p3_challenger::CanSample<EF>,
    MerkleTreeMmcs<P, PW, H, C, 2, N>: Mmcs<
            V,
            Commitment = MerkleCap<V, [PW::Value; N]>,
            MultiProof = PrunedMerklePaths<PW::Value, N>,
            Error: Sync,
        >,
    PrunedMerklePaths<PW::Value, N>: Sync,
    <MerkleTreeMmcs<P, PW, H, C, 2, N> as Mmcs<V>>::ProverData<RowMajorMatrix<V>>: Sync,
    MerkleTreeMmcs<P, PW, H, C, 2, N>: Sync,
    Self: StarkGenericConfig<
            Pcs = TwoAdicFriPcs<
                V,
                Dft,
                MerkleTreeMmcs<P, PW, H, C, 2, N>,
                ExtensionMmcs<V, EF, MerkleTreeMmcs<P, PW, H, C, 2, N>>,
            >,
            Challenge = EF,
            Challenger = Challenger,
        >,
{
    type Value = V;
    type Hash = <H as TreeHash<V, C, [PW::Value; N]>>::Kernel;
    type Commitment = MerkleCap<V, [PW::Value; N]>;
    type InputMmcs = MerkleTreeMmcs<P, PW, H, C, 2, N>;
    type FriMmcs = ExtensionMmcs<V, EF, MerkleTreeMmcs<P, PW, H, C, 2, N>>;

    fn hash(&self) -> Result<Self::Hash> {
        H::kernel(self.pcs())
    }

    fn cap(digests: Vec<Digest<Self>>) -> Self::Commitment {
        MerkleCap::new(upstream::<Self, _>(digests, H::digest))
    }

    fn cap_len(commitment: &Self::Commitment) -> usize {
        commitment.num_roots()
    }

    fn input_paths(siblings: Vec<Digest<Self>>) -> PrunedMerklePaths<PW::Value, N> {
        PrunedMerklePaths { sibling_hashes: upstream::<Self, _>(siblings, H::digest) }
    }

    fn fri_paths(siblings: Vec<Digest<Self>>) -> PrunedMerklePaths<PW::Value, N> {
        Self::input_paths(siblings)
    }
}

/// Converts the kernels' digests to upstream's.
fn upstream<SC: DeviceConfig, D>(digests: Vec<Digest<SC>>, digest: impl Fn(Digest<SC>) -> D) -> Vec<D> {
    digests.into_iter().map(digest).collect()
}
