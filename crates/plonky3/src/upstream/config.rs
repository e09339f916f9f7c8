//! Plonky3 configurations that the device supports.

use p3_challenger::CanObserve;
use p3_commit::OpenedValues;
use p3_commit::{ExtensionMmcs, Mmcs, UnivariateStarkPcs};
use p3_dft::TwoAdicSubgroupDft;
use p3_field::coset::TwoAdicMultiplicativeCoset;
use p3_field::{PackedValue, TwoAdicField};
use p3_fri::{BatchMultiOpening, FriProof, HidingFriPcs, TwoAdicFriPcs};
use p3_matrix::dense::RowMajorMatrix;
use p3_merkle_tree::{MerkleTreeHidingMmcs, MerkleTreeMmcs, PrunedMerklePaths};
use p3_symmetric::{CryptographicHasher, MerkleCap, PseudoCompressionFunction};
use p3_uni_stark::{StarkConfig, StarkGenericConfig};
use rand::distr::{Distribution, StandardUniform};
use rand::rngs::StdRng;
use rigel_kernels::hash::{Hash, RowHash, Sponge};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::base::error::{Error, Result};
use crate::upstream::challenger::DeviceChallenger;
use crate::upstream::field::{DeviceExtension, DeviceField};
use crate::upstream::hash::{HostHash, TreeHash};

/// A configuration that the device supports: maps upstream's types to kernels.
///
/// Implemented for `StarkConfig<TwoAdicFriPcs<…, MerkleTreeMmcs<…>, ExtensionMmcs<…>>, …>`, and for proofs that hide
/// the trace for `StarkConfig<HidingFriPcs<…, MerkleTreeHidingMmcs<…, StdRng, …>, ExtensionMmcs<…>, StdRng>, …>`, over
/// every [`DeviceField`], [`DeviceExtension`], [`TreeHash`] and [`DeviceChallenger`]: to add a field, hash or
/// challenger, implement one of these. Any other configuration does not compile.
pub trait DeviceConfig:
    StarkGenericConfig<
        Pcs: UnivariateStarkPcs<
            Self::Challenge,
            Self::Challenger,
            Domain = TwoAdicMultiplicativeCoset<Self::Value>,
            Commitment = Self::Commitment,
            Proof = Self::OpeningProof,
            ProverData: Send + Sync,
            ProverError: Into<Error> + Send,
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

    /// Upstream's proof of openings.
    type OpeningProof: Send;

    /// Whether proofs hide the trace.
    const HIDING: bool;
    /// The number of random elements in each leaf of a tree.
    const SALTS: usize;

    /// The kernels' hash, with the constants of this configuration's trees.
    fn hash(&self) -> Result<Self::Hash>;
    /// The trees' hash on the host, if the host can compute it: see [`TreeHash::on_host`].
    fn host_hash() -> Option<HostHash<Self::Value, Digest<Self>>>;
    /// Makes a commitment from digests.
    fn cap(digests: Vec<Digest<Self>>) -> Self::Commitment;
    /// The number of a commitment's digests.
    fn cap_len(commitment: &Self::Commitment) -> usize;
    /// Makes the paths of an opening of a tree over the base field, with the salts of the opened leaves by query and
    /// matrix.
    fn input_paths(
        siblings: Vec<Digest<Self>>,
        salts: Salts<Self>,
    ) -> <Self::InputMmcs as Mmcs<Self::Value>>::MultiProof;
    /// Makes the paths of an opening of a tree over the extension.
    fn fri_paths(
        siblings: Vec<Digest<Self>>,
        salts: Salts<Self>,
    ) -> <Self::FriMmcs as Mmcs<Self::Challenge>>::MultiProof;
    /// Makes the proof of openings, with the opened values of random columns.
    fn opening_proof(fri: DeviceFriProof<Self>, random: OpenedValues<Self::Challenge>) -> Self::OpeningProof;
    /// The FRI proof in a proof of openings.
    fn fri_proof(proof: &Self::OpeningProof) -> &DeviceFriProof<Self>;
}

/// The salts of opened leaves, by query and matrix.
pub type Salts<SC> = Vec<Vec<Vec<<SC as DeviceConfig>::Value>>>;

/// Upstream's FRI proof of a configuration.
pub type DeviceFriProof<SC> = FriProof<
    <SC as StarkGenericConfig>::Challenge,
    <SC as DeviceConfig>::FriMmcs,
    <SC as DeviceConfig>::Value,
    Vec<BatchMultiOpening<<SC as DeviceConfig>::Value, <SC as DeviceConfig>::InputMmcs>>,
>;

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
    <MerkleTreeMmcs<P, PW, H, C, 2, N> as Mmcs<V>>::ProverData<RowMajorMatrix<V>>: Send + Sync,
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
    type OpeningProof = DeviceFriProof<Self>;

    const HIDING: bool = false;
    const SALTS: usize = 0;

    fn hash(&self) -> Result<Self::Hash> {
        H::kernel(self.pcs())
    }

    fn host_hash() -> Option<HostHash<V, Digest<Self>>> {
        H::on_host()
    }

    fn cap(digests: Vec<Digest<Self>>) -> Self::Commitment {
        MerkleCap::new(upstream::<Self, _>(digests, H::digest))
    }

    fn cap_len(commitment: &Self::Commitment) -> usize {
        commitment.num_roots()
    }

    fn input_paths(siblings: Vec<Digest<Self>>, _: Salts<Self>) -> PrunedMerklePaths<PW::Value, N> {
        PrunedMerklePaths { sibling_hashes: upstream::<Self, _>(siblings, H::digest) }
    }

    fn fri_paths(siblings: Vec<Digest<Self>>, salts: Salts<Self>) -> PrunedMerklePaths<PW::Value, N> {
        Self::input_paths(siblings, salts)
    }

    fn opening_proof(fri: DeviceFriProof<Self>, _: OpenedValues<EF>) -> DeviceFriProof<Self> {
        fri
    }

    fn fri_proof(proof: &DeviceFriProof<Self>) -> &DeviceFriProof<Self> {
        proof
    }
}

/// Upstream's hiding trees of the hash `H` for rows and `C` for nodes.
type HidingMmcs<P, PW, H, C, const N: usize, const S: usize> = MerkleTreeHidingMmcs<P, PW, H, C, StdRng, 2, N, S>;
/// Upstream's hiding PCS over such trees.
type HidingPcs<V, EF, Dft, M> = HidingFriPcs<V, Dft, M, ExtensionMmcs<V, EF, M>, StdRng>;

impl<V, Dft, P, PW, H, C, EF, Challenger, const N: usize, const S: usize> DeviceConfig
    for StarkConfig<HidingPcs<V, EF, Dft, HidingMmcs<P, PW, H, C, N, S>>, EF, Challenger>
where
    V: DeviceField,
    StandardUniform: Distribution<V>,
    EF: DeviceExtension<V> + TwoAdicField,
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
    HidingMmcs<P, PW, H, C, N, S>: Mmcs<
            V,
            Commitment = MerkleCap<V, [PW::Value; N]>,
            MultiProof = (Vec<Vec<Vec<V>>>, PrunedMerklePaths<PW::Value, N>),
            Error: Sync,
        >,
    PrunedMerklePaths<PW::Value, N>: Send + Sync,
    <HidingMmcs<P, PW, H, C, N, S> as Mmcs<V>>::ProverData<RowMajorMatrix<V>>: Send + Sync,
    HidingMmcs<P, PW, H, C, N, S>: Send + Sync,
    Self: StarkGenericConfig<
            Pcs = HidingPcs<V, EF, Dft, HidingMmcs<P, PW, H, C, N, S>>,
            Challenge = EF,
            Challenger = Challenger,
        >,
{
    type Value = V;
    type Hash = <H as TreeHash<V, C, [PW::Value; N]>>::Kernel;
    type Commitment = MerkleCap<V, [PW::Value; N]>;
    type InputMmcs = HidingMmcs<P, PW, H, C, N, S>;
    type FriMmcs = ExtensionMmcs<V, EF, HidingMmcs<P, PW, H, C, N, S>>;
    type OpeningProof = (OpenedValues<EF>, DeviceFriProof<Self>);

    const HIDING: bool = true;
    const SALTS: usize = S;

    fn hash(&self) -> Result<Self::Hash> {
        H::kernel(self.pcs())
    }

    fn host_hash() -> Option<HostHash<V, Digest<Self>>> {
        H::on_host()
    }

    fn cap(digests: Vec<Digest<Self>>) -> Self::Commitment {
        MerkleCap::new(upstream::<Self, _>(digests, H::digest))
    }

    fn cap_len(commitment: &Self::Commitment) -> usize {
        commitment.num_roots()
    }

    fn input_paths(
        siblings: Vec<Digest<Self>>,
        salts: Salts<Self>,
    ) -> (Salts<Self>, PrunedMerklePaths<PW::Value, N>) {
        (salts, PrunedMerklePaths { sibling_hashes: upstream::<Self, _>(siblings, H::digest) })
    }

    fn fri_paths(
        siblings: Vec<Digest<Self>>,
        salts: Salts<Self>,
    ) -> (Salts<Self>, PrunedMerklePaths<PW::Value, N>) {
        Self::input_paths(siblings, salts)
    }

    fn opening_proof(fri: DeviceFriProof<Self>, random: OpenedValues<EF>) -> Self::OpeningProof {
        (random, fri)
    }

    fn fri_proof(proof: &Self::OpeningProof) -> &DeviceFriProof<Self> {
        &proof.1
    }
}

/// Converts the kernels' digests to upstream's.
fn upstream<SC: DeviceConfig, D>(digests: Vec<Digest<SC>>, digest: impl Fn(Digest<SC>) -> D) -> Vec<D> {
    digests.into_iter().map(digest).collect()
}
