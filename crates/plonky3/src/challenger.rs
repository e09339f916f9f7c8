//! The transcript's challenger, with the proof-of-work search on the device.
//!
//! Upstream's transcripts are generic over the challenger, so a wrapper forwards everything except `grind`. The
//! search always returns the smallest witness, which is the one upstream finds with a single thread.

use p3_challenger::{
    CanFinalizeDigest, CanObserve, CanSample, CanSampleBits, DuplexChallenger, GrindingChallenger, HashChallenger,
    SerializingChallenger32, SerializingChallenger64,
};
use p3_field::PrimeField32;
use p3_keccak::Keccak256Hash;
use p3_symmetric::CryptographicPermutation;
use rayon::prelude::*;
use rigel_gpu::{Error, Fallback, Result, Stream};
use rigel_kernels::fri::grind;
use rigel_kernels::hash::{Constants, Poseidon2};

use crate::field::DeviceField;
use crate::poseidon2::{DevicePermutation, search_constants};

/// A challenger whose proof-of-work search has a kernel.
pub trait DeviceChallenger<V: DeviceField>:
    GrindingChallenger<Witness = V> + CanObserve<V> + CanSample<V> + CanSampleBits<usize> + Clone + Sync
{
    /// The constants that [`Self::search`] passes to its kernel, if it takes any.
    fn constants(&self) -> crate::Result<Constants> {
        Ok(Constants::NONE)
    }

    /// The smallest witness of `bits` bits for the current state, or `None` if there is none. `constants` are this
    /// challenger's, or others to try where upstream hides them.
    fn search(&self, stream: &Stream, constants: &Constants, bits: usize) -> Result<Option<V>>;
}

impl<V> DeviceChallenger<V> for SerializingChallenger32<V, HashChallenger<u8, Keccak256Hash, 32>>
where
    V: DeviceField + PrimeField32,
{
    fn search(&self, stream: &Stream, _: &Constants, bits: usize) -> Result<Option<V>> {
        // The search begins by squeezing, so each candidate is hashed after the digest of everything observed.
        let witness = grind::keccak256::<V::Device>(stream, self.clone().finalize(), bits as u32)?;
        Ok(witness.map(V::from_u64))
    }
}

impl<V: DeviceField> DeviceChallenger<V> for SerializingChallenger64<V, HashChallenger<u8, Keccak256Hash, 32>> {
    fn search(&self, stream: &Stream, _: &Constants, bits: usize) -> Result<Option<V>> {
        let witness = grind::keccak256::<V::Device>(stream, self.clone().finalize(), bits as u32)?;
        Ok(witness.map(V::from_u64))
    }
}

impl<V, P, const WIDTH: usize, const RATE: usize> DeviceChallenger<V> for DuplexChallenger<V, P, WIDTH, RATE>
where
    V: DeviceField,
    P: DevicePermutation<V> + CryptographicPermutation<[V; WIDTH]> + CryptographicPermutation<[V::Packing; WIDTH]>,
{
    fn constants(&self) -> crate::Result<Constants> {
        search_constants(&self.permutation)
    }

    fn search(&self, stream: &Stream, constants: &Constants, bits: usize) -> Result<Option<V>> {
        // Constants of another permutation.
        let Some(permutation) = Poseidon2::<P::Shape, P::Shape>::permutation(constants) else { return Ok(None) };
        // The state that absorbs the pending input and the witness: upstream's `duplexing` with one more element.
        let pending = self.input_buffer.len();
        let mut state = self.sponge_state;
        state[..pending].copy_from_slice(&self.input_buffer);
        state[pending..RATE].fill(V::ZERO);
        state[RATE] += V::from_u8(pending as u8 + 1);
        let state = V::as_device(&state);
        let on = (stream, &permutation);
        let witness = grind::duplex::<Poseidon2<_, _>>(on, state, pending, RATE - 1, bits as u32)?;
        Ok(witness.map(V::from_u64))
    }
}

/// A challenger that searches on the device.
///
/// Upstream's `grind` can't return an error. If the device fails, [`Self::finish`] returns the error, and the proof
/// is dropped.
pub(crate) struct Searching<'a, C> {
    inner: C,
    stream: &'a Stream,
    /// The constants with which to search, the likeliest first.
    constants: &'a [Constants],
    failed: Option<Error>,
    /// Bits of the searches that the host had to do.
    by_host: Vec<usize>,
}

impl<'a, C> Searching<'a, C> {
    pub(crate) fn new(inner: C, stream: &'a Stream, constants: &'a [Constants]) -> Self {
        Self { inner, stream, constants, failed: None, by_host: Vec::new() }
    }

    /// Returns the first error of a search, or what to report if the host searched.
    pub(crate) fn finish(self) -> Result<Option<Fallback>> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let bits: Vec<String> = self.by_host.iter().map(usize::to_string).collect();
        Ok((!bits.is_empty()).then(|| Fallback {
            part: "proof of work",
            ran_on: "CPU",
            reason: format!(
                "the kernel's witnesses of {} bits do not pass the challenger's check: the round constants of its \
                 Poseidon2 are not known; give them to Prover::with_hash",
                bits.join(", ")
            ),
        }))
    }
}

impl<T, C: CanObserve<T>> CanObserve<T> for Searching<'_, C> {
    fn observe(&mut self, value: T) {
        self.inner.observe(value);
    }

    fn observe_slice(&mut self, values: &[T])
    where
        T: Clone,
    {
        self.inner.observe_slice(values);
    }
}

impl<T, C: CanSample<T>> CanSample<T> for Searching<'_, C> {
    fn sample(&mut self) -> T {
        self.inner.sample()
    }
}

impl<T, C: CanSampleBits<T>> CanSampleBits<T> for Searching<'_, C> {
    fn sample_bits(&mut self, bits: usize) -> T {
        self.inner.sample_bits(bits)
    }
}

impl<V: DeviceField, C: DeviceChallenger<V>> GrindingChallenger for Searching<'_, C>
where
    C: GrindingChallenger<Witness = V>,
{
    type Witness = V;

    fn grind(&mut self, bits: usize) -> V {
        if bits == 0 {
            return V::ZERO;
        }
        // The kernel's permutation may not be this challenger's, so upstream's check decides. It hashes everything that
        // was observed since the last challenge: the challenger that has passed it goes on.
        let passed = |witness: V| {
            let mut challenger = self.inner.clone();
            challenger.check_witness(bits, witness).then_some((witness, challenger))
        };
        let mut found = None;
        for constants in self.constants {
            match self.inner.search(self.stream, constants, bits) {
                Ok(witness) => found = witness.and_then(passed),
                Err(error) => {
                    self.failed.get_or_insert(error);
                    return V::ZERO;
                }
            }
            if found.is_some() {
                break;
            }
        }
        if found.is_none() {
            self.by_host.push(bits);
            found = smallest(|&witness| passed(witness).is_some()).and_then(passed);
        }
        let Some((witness, challenger)) = found else {
            let detail = format!("no element of the field is a witness of {bits} bits; ask for fewer");
            self.failed.get_or_insert(Error::shape("proof of work", detail));
            return V::ZERO;
        };
        self.inner = challenger;
        witness
    }

    fn check_witness(&mut self, bits: usize, witness: V) -> bool {
        self.inner.check_witness(bits, witness)
    }
}

/// Candidates that the host's threads share at a time.
const CANDIDATES: u64 = 1 << 12;

/// The smallest element that passes. Upstream's own search returns any.
fn smallest<V: DeviceField>(passes: impl Fn(&V) -> bool + Sync) -> Option<V> {
    let blocks = (0..V::ORDER_U64).step_by(CANDIDATES as usize);
    let mut found = blocks.filter_map(|start| {
        let candidates = start..V::ORDER_U64.min(start.saturating_add(CANDIDATES));
        candidates.into_par_iter().map(V::from_u64).find_first(&passes)
    });
    found.next()
}
