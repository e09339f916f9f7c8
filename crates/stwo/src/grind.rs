//! Proof of work, which also determines the queries.

use rigel_kernels::fri::grind;
use stwo::core::channel::{Blake2sChannelGeneric, Channel};
use stwo::core::proof_of_work::GrindOps;
use stwo::core::vcs::blake2_hash::Blake2sHasherGeneric;

use crate::CudaBackend;
use crate::batch::set_queries;
use crate::device::{device, stream};
use crate::failure::OrFail;
use crate::report::phase;

impl<const M31: bool> GrindOps<Blake2sChannelGeneric<M31>> for CudaBackend {
    /// The smallest nonce `(a << 32) | b` with b < 2^20, as upstream's SIMD backend finds it.
    fn grind(channel: &Blake2sChannelGeneric<M31>, pow_bits: u32) -> u64 {
        let _phase = phase("proof of work");
        // H(prefix, 12 zero bytes, digest, bits), as `Channel::verify_pow_nonce` hashes it.
        let mut hasher = Blake2sHasherGeneric::<M31>::default();
        hasher.update(&Blake2sChannelGeneric::<M31>::POW_PREFIX.to_le_bytes());
        hasher.update(&[0; 12]);
        hasher.update(&channel.digest().0);
        hasher.update(&pow_bits.to_le_bytes());
        let words = bytemuck::cast(hasher.finalize().0);
        let nonce = grind::blake2s(&stream(&device()), words, pow_bits, M31).or_fail("search for a proof of work");
        // The prover draws the queries next, so derive them from a copy of the channel.
        let mut ahead = channel.clone();
        ahead.mix_u64(nonce);
        set_queries(move || ahead.draw_u32s());
        nonce
    }
}
