//! The channels that Rigel proves with.

use serde::Serialize;
use serde::de::DeserializeOwned;
use stwo::core::channel::MerkleChannel;
use stwo::core::vcs_lifted::blake2_merkle::{Blake2sM31MerkleChannel, Blake2sMerkleChannel};
use stwo::core::vcs_lifted::merkle_hasher::MerkleHasherLifted;
use stwo_cairo_prover::prover::ChannelHash;

use crate::place::{Place, Proves};

/// A channel of upstream's that both backends have.
///
/// Upstream names it at run time, in [`ChannelHash`]; the types of its proofs depend on it.
pub trait CairoChannel:
    MerkleChannel<H: MerkleHasherLifted<Hash: Serialize + DeserializeOwned> + Serialize + DeserializeOwned> + 'static
{
    /// Upstream's name of the channel.
    const HASH: ChannelHash;

    /// The place where proofs with this channel are made. It hides the bounds of both backends.
    #[doc(hidden)]
    type Place: Proves<Self>;
}

impl CairoChannel for Blake2sMerkleChannel {
    const HASH: ChannelHash = ChannelHash::Blake2s;
    type Place = Place<Self>;
}

impl CairoChannel for Blake2sM31MerkleChannel {
    const HASH: ChannelHash = ChannelHash::Blake2sM31;
    type Place = Place<Self>;
}
