//! The randomness of proofs that hide the trace, as in upstream's `HidingFriPcs` and `MerkleTreeHidingMmcs`.
//!
//! Every second row of a committed matrix is random, and so are its last columns; the chunks of the quotient have
//! random multiples of their vanishing polynomials added; a random polynomial joins the openings; every leaf of a tree
//! ends with random elements, its salt. Upstream draws all of that from generators of type `StdRng`, which is ChaCha,
//! so the device computes any part of their streams ([`uniform`]). The order of the draws is upstream's: with the same
//! seeds the proofs are equal.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rigel_gpu::Lock;

use crate::base::error::{Error, Result};

/// The stream of `rand`'s `StdRng`, computed on the device. Make one as upstream's generator is made: `from_seed`,
/// `seed_from_u64` and `from_rng` of [`SeedableRng`] give the same stream as those of `StdRng`.
///
/// As with upstream, a proof hides the trace only if nobody can guess the seed, and no seed may serve twice: not in two
/// provers, and not in a prover and in the configuration with which upstream proves.
pub struct Keystream {
    pub(crate) key: [u32; 8],
    /// The number of words of 32 bits that were drawn.
    pub(crate) position: u64,
}

impl SeedableRng for Keystream {
    type Seed = [u8; 32];

    fn from_seed(seed: [u8; 32]) -> Self {
        let word = |i: usize| u32::from_le_bytes([seed[4 * i], seed[4 * i + 1], seed[4 * i + 2], seed[4 * i + 3]]);
        Self { key: std::array::from_fn(word), position: 0 }
    }
}

impl Keystream {
    /// The stream that upstream's `clone` of a hiding PCS or of a hiding tree gives to the clone. Configurations give
    /// a clone of the trees to FRI, so its stream is a fork of the trees' one.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        let mut seed = [0; 32];
        self.key
            .iter()
            .zip(seed.chunks_exact_mut(4))
            .for_each(|(word, to)| to.copy_from_slice(&word.to_le_bytes()));
        let mut theirs = StdRng::from_seed(seed);
        for _ in 0..self.position {
            theirs.next_u32();
        }
        self.position += 8;
        Self::from_rng(&mut theirs)
    }
}

impl std::fmt::Debug for Keystream {
    /// Shows the stream without its key, which nobody may see.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keystream").field("position", &self.position).finish_non_exhaustive()
    }
}

/// The parameters of a hiding configuration that upstream keeps private, for
/// [`Prover::hiding`](crate::Prover::hiding).
#[derive(Debug)]
pub struct Hiding {
    pub(crate) random_codewords: usize,
    pub(crate) masks: Lock<Keystream>,
    pub(crate) input_salts: Lock<Keystream>,
    pub(crate) fri_salts: Lock<Keystream>,
}

impl Hiding {
    /// `random_codewords` is that of the PCS. The streams stand for the generators of the PCS, of its trees and of the
    /// trees of FRI.
    pub fn new(random_codewords: usize, pcs: Keystream, trees: Keystream, fri_trees: Keystream) -> Self {
        let [masks, input_salts, fri_salts] = [pcs, trees, fri_trees].map(Lock::new);
        Self { random_codewords, masks, input_salts, fri_salts }
    }

    /// Goes on with other streams.
    pub(crate) fn replace(&self, other: Self) -> Result<()> {
        if other.random_codewords != self.random_codewords {
            let (ours, theirs) = (self.random_codewords, other.random_codewords);
            let detail = format!("{theirs} random codewords for a prover that was made with {ours}");
            return Err(Error::Unsupported(detail));
        }
        for (ours, theirs) in [
            (&self.masks, other.masks),
            (&self.input_salts, other.input_salts),
            (&self.fri_salts, other.fri_salts),
        ] {
            std::mem::swap(&mut *ours.lock(), &mut *theirs.lock());
        }
        Ok(())
    }

    /// Hiding with streams that no proof uses.
    pub(crate) fn for_check(&self) -> Self {
        let [pcs, trees, fri_trees] = [1, 2, 3].map(Keystream::seed_from_u64);
        Self::new(self.random_codewords, pcs, trees, fri_trees)
    }

    pub(crate) fn random_codewords(&self) -> usize {
        self.random_codewords
    }
}
