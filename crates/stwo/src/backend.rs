//! The backend.

use serde::{Deserialize, Serialize};
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleChannelGeneric;
use stwo::prover::backend::{Backend, BackendForChannel};

/// Stwo's backend on a CUDA device, for the Blake2s channels.
///
/// It replaces `SimdBackend`: `CommitmentSchemeProver<CudaBackend, Blake2sMerkleChannel>` commits to columns on
/// the device, `FrameworkComponent`s are proved on it, and `stwo::prover::prove` gives the same proof as with
/// `SimdBackend`.
///
/// Upstream's traits can't return errors, so an operation that fails panics; see [`catch`](crate::catch).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CudaBackend;

impl Backend for CudaBackend {}

impl<const M31: bool> BackendForChannel<Blake2sMerkleChannelGeneric<M31>> for CudaBackend {}
