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

use crate::upstream::field::DeviceField;
use crate::upstream::poseidon2::{DevicePermutation, search_constants};

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
    fn search(&self, stream: &Stream, constants: &Constants, bits: usize)
    -> Result<Option<FoundWitness<V, Self>>>;
}

/// A witness that a search has found.
pub struct FoundWitness<V, C> {
    /// The witness.
    pub witness: V,
    /// The challenger after the squeeze with which upstream's check of a witness begins, if it hashes what was observed
    /// since the last challenge. It is used only if something was, and the rest of the check is made with it. `None` if
    /// the check does not begin so, or to have it made by upstream as a whole.
    pub squeezed: Option<C>,
}

impl<V> DeviceChallenger<V> for SerializingChallenger32<V, HashChallenger<u8, Keccak256Hash, 32>>
where
    V: DeviceField + PrimeField32,
{
    fn search(&self, stream: &Stream, _: &Constants, bits: usize) -> Result<Option<FoundWitness<V, Self>>> {
        search_keccak(stream, self.clone().finalize(), bits, Self::new)
    }
}

impl<V: DeviceField> DeviceChallenger<V> for SerializingChallenger64<V, HashChallenger<u8, Keccak256Hash, 32>> {
    fn search(&self, stream: &Stream, _: &Constants, bits: usize) -> Result<Option<FoundWitness<V, Self>>> {
        search_keccak(stream, self.clone().finalize(), bits, Self::new)
    }
}

/// A search begins by squeezing, so each candidate is hashed after the digest of everything observed. Of a wide table
/// that is so much that it is not hashed a second time.
fn search_keccak<V: DeviceField, C>(
    stream: &Stream,
    digest: [u8; 32],
    bits: usize,
    new: impl Fn(HashChallenger<u8, Keccak256Hash, 32>) -> C,
) -> Result<Option<FoundWitness<V, C>>> {
    let witness = grind::keccak256::<V::Device>(stream, digest, bits as u32)?;
    let squeezed = || Some(new(HashChallenger::new(digest.to_vec(), Keccak256Hash)));
    Ok(witness.map(|witness| FoundWitness { witness: V::from_u64(witness), squeezed: squeezed() }))
}

impl<V, P, const WIDTH: usize, const RATE: usize> DeviceChallenger<V> for DuplexChallenger<V, P, WIDTH, RATE>
where
    V: DeviceField,
    P: DevicePermutation<V> + CryptographicPermutation<[V; WIDTH]> + CryptographicPermutation<[V::Packing; WIDTH]>,
{
    fn constants(&self) -> crate::Result<Constants> {
        search_constants(&self.permutation)
    }

    fn search(
        &self,
        stream: &Stream,
        constants: &Constants,
        bits: usize,
    ) -> Result<Option<FoundWitness<V, Self>>> {
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
        Ok(witness.map(|witness| FoundWitness { witness: V::from_u64(witness), squeezed: None }))
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
    /// Whether something was observed since the last challenge, so that a squeeze hashes it.
    has_observed: bool,
    /// Bits of the searches that the host had to do.
    by_host: Vec<usize>,
}

impl<'a, C> Searching<'a, C> {
    pub(crate) fn new(inner: C, stream: &'a Stream, constants: &'a [Constants]) -> Self {
        Self { inner, stream, constants, failed: None, has_observed: false, by_host: Vec::new() }
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
        self.has_observed = true;
        self.inner.observe(value);
    }

    fn observe_slice(&mut self, values: &[T])
    where
        T: Clone,
    {
        self.has_observed |= !values.is_empty();
        self.inner.observe_slice(values);
    }
}

impl<T, C: CanSample<T>> CanSample<T> for Searching<'_, C> {
    fn sample(&mut self) -> T {
        self.has_observed = false;
        self.inner.sample()
    }
}

impl<T, C: CanSampleBits<T>> CanSampleBits<T> for Searching<'_, C> {
    fn sample_bits(&mut self, bits: usize) -> T {
        self.has_observed = false;
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
        // The kernel's permutation may not be this challenger's, so upstream's check decides. The challenger that has
        // passed it goes on.
        let passed = |witness: V| {
            let mut challenger = self.inner.clone();
            challenger.check_witness(bits, witness).then_some((witness, challenger))
        };
        let found_passed = |FoundWitness { witness, squeezed }: FoundWitness<V, C>| {
            // The rest of that check, after the squeeze.
            let Some(mut squeezed) = squeezed.filter(|_| self.has_observed) else { return passed(witness) };
            squeezed.observe(witness);
            (squeezed.sample_bits(bits) == 0).then_some((witness, squeezed))
        };
        let mut found = None;
        for constants in self.constants {
            match self.inner.search(self.stream, constants, bits) {
                Ok(witness) => found = witness.and_then(found_passed),
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
        (self.inner, self.has_observed) = (challenger, false);
        witness
    }

    fn check_witness(&mut self, bits: usize, witness: V) -> bool {
        self.has_observed = false;
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

#[cfg(test)]
mod tests {
    use p3_goldilocks::Goldilocks;
    use p3_koala_bear::KoalaBear;
    use rigel_gpu::testing::on_each_device;

    use super::*;

    type Hashing = HashChallenger<u8, Keccak256Hash, 32>;

    /// Searches wherever they may come: after observations, after challenges, after each other and at the beginning.
    fn check<V: DeviceField, C: DeviceChallenger<V> + GrindingChallenger<Witness = V>>(stream: &Stream, new: C) {
        const BITS: usize = 5;
        let (mut theirs, none) = (new.clone(), [Constants::NONE]);
        let mut ours = Searching::new(new, stream, &none);
        for (observed, sampled) in [(0, 0), (3, 0), (0, 1), (500, 2), (0, 0), (1, 3), (40, 0)] {
            let values: Vec<V> = (0..observed).map(|i| V::from_u64(i * i + 7)).collect();
            ours.observe_slice(&values);
            theirs.observe_slice(&values);
            for _ in 0..sampled {
                let challenges: [V; 2] = [ours.sample(), theirs.sample()];
                assert_eq!(challenges[0], challenges[1]);
            }
            let passes = |witness: &V| theirs.clone().check_witness(BITS, *witness);
            let expected = smallest(passes).unwrap();
            assert!(theirs.check_witness(BITS, expected));
            assert_eq!(ours.grind(BITS), expected, "{observed} observed, {sampled} sampled");
        }
        let challenges: [V; 2] = [ours.sample(), theirs.sample()];
        assert_eq!(challenges[0], challenges[1]);
    }

    #[test]
    fn searches_give_upstreams_witnesses() {
        on_each_device(|stream| {
            let inner = || Hashing::new(b"begin".to_vec(), Keccak256Hash);
            check::<KoalaBear, _>(stream, SerializingChallenger32::new(inner()));
            check::<Goldilocks, _>(stream, SerializingChallenger64::new(inner()));
        });
    }
}
