//! The channels that Rigel proves with.

use serde::Serialize;
use serde::de::DeserializeOwned;
use stwo::core::channel::MerkleChannel;
use stwo::core::vcs_lifted::blake2_merkle::{Blake2sM31MerkleChannel, Blake2sMerkleChannel};
use stwo::core::vcs_lifted::merkle_hasher::MerkleHasherLifted;
use stwo_cairo_prover::prover::ChannelHash;

/// A channel of upstream's that both backends have.
///
/// Upstream names it at run time, in [`ChannelHash`]; the types of its proofs depend on it.
pub trait CairoChannel: MerkleChannel<H: Serialize + DeserializeOwned + MerkleHasherLifted> + Sized + 'static {
    /// Upstream's name of the channel.
    const HASH: ChannelHash;
}

impl CairoChannel for Blake2sMerkleChannel {
    const HASH: ChannelHash = ChannelHash::Blake2s;
}

impl CairoChannel for Blake2sM31MerkleChannel {
    const HASH: ChannelHash = ChannelHash::Blake2sM31;
}
