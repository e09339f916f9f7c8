//! The backend.

use serde::{Deserialize, Serialize};
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleChannelGeneric;
use stwo::prover::backend::{Backend, BackendForChannel};

/// Stwo's backend on a CUDA device, for the Blake2s channels.
///
/// It takes the place of `SimdBackend`: `CommitmentSchemeProver<CudaBackend, Blake2sMerkleChannel>` commits to columns on the
/// device, `FrameworkComponent`s prove on it, and `stwo::prover::prove` makes the proof that `SimdBackend` makes.
///
/// Operations that fail (see [`catch`](crate::catch)) panic, as upstream's traits have no errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CudaBackend;

impl Backend for CudaBackend {}

impl<const M31: bool> BackendForChannel<Blake2sMerkleChannelGeneric<M31>> for CudaBackend {}
