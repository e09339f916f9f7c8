//! Proof of work against upstream's challengers, tried witness by witness, and against Stwo's own search.

use p3_baby_bear::{default_babybear_poseidon2_16, default_babybear_poseidon2_24};
use p3_challenger::{
    CanFinalizeDigest, CanObserve, CanSample, DuplexChallenger, GrindingChallenger, HashChallenger,
    SerializingChallenger32, SerializingChallenger64,
};
use p3_field::{PrimeCharacteristicRing, PrimeField64};
use p3_goldilocks::{default_goldilocks_poseidon2_8, default_goldilocks_poseidon2_12};
use p3_keccak::Keccak256Hash;
use p3_koala_bear::{default_koalabear_poseidon2_16, default_koalabear_poseidon2_24};
use p3_symmetric::CryptographicPermutation;
use rand::RngExt;
use rigel_gpu::Stream;
use rigel_kernels::field::{BabyBear, Field, Goldilocks, KoalaBear, Mersenne31, Ring};
use rigel_kernels::fri::grind::{blake2s, duplex, keccak256};
use rigel_kernels::hash::*;
use stwo::core::channel::{Blake2sChannelGeneric, Channel};
use stwo::core::proof_of_work::GrindOps;
use stwo::core::vcs::blake2_hash::{Blake2sHash, Blake2sHasherGeneric};
use stwo::prover::backend::simd::SimdBackend;

use crate::oracle::assert_says;
use crate::support::{Upstream, on_each_device, random, rng};

/// The smallest witness that upstream accepts.
fn smallest<C: GrindingChallenger + Clone>(challenger: &C, bits: u32) -> u64 {
    let accepts = |&i: &u64| challenger.clone().check_witness(bits as usize, C::Witness::from_u64(i));
    (0..).find(accepts).unwrap()
}

/// Compares after each of a few observations, for every number of bits.
fn check_keccak<F: Upstream, C>(stream: &Stream, challenger: C)
where
    C: GrindingChallenger<Witness = F::P3> + CanObserve<F::P3> + CanFinalizeDigest<Digest = [u8; 32]> + Clone,
{
    let mut challenger = challenger;
    for bits in 1..=10 {
        for x in random::<F>(&mut rng(u64::from(bits)), bits as usize) {
            challenger.observe(x.upstream());
        }
        let found = keccak256::<F>(stream, challenger.clone().finalize(), bits).unwrap();
        assert_eq!(found, Some(smallest(&challenger, bits)), "{} {bits} bits", F::NAME);
    }
}

type Bytes = HashChallenger<u8, Keccak256Hash, 32>;

#[test]
fn keccak_equals_plonky3() {
    on_each_device(|stream| {
        let bytes = Bytes::new(vec![], Keccak256Hash);
        check_keccak::<KoalaBear, _>(stream, SerializingChallenger32::new(bytes.clone()));
        check_keccak::<BabyBear, _>(stream, SerializingChallenger32::new(bytes.clone()));
        check_keccak::<Mersenne31, _>(stream, SerializingChallenger32::new(bytes.clone()));
        check_keccak::<Goldilocks, _>(stream, SerializingChallenger64::new(bytes));
    });
}

/// Checks a duplex challenger after each number of pending observations from none to one less than the rate.
fn check_duplex<P, T, const WIDTH: usize, const RATE: usize>(stream: &Stream, permutation: T)
where
    P: Permutation,
    P::Field: Upstream,
    T: CryptographicPermutation<[<P::Field as Upstream>::P3; WIDTH]>
        + CryptographicPermutation<[<<P::Field as Upstream>::P3 as p3_field::Field>::Packing; WIDTH]>,
{
    type Theirs<P> = <<P as Permutation>::Field as Upstream>::P3;
    let mut rng = rng(WIDTH as u64);
    let mut challenger = DuplexChallenger::<Theirs<P>, T, WIDTH, RATE>::new(permutation);
    for bits in 1..=10 {
        for x in random::<P::Field>(&mut rng, RATE + bits as usize) {
            challenger.observe(x.upstream());
        }
        if bits % 3 == 0 {
            let _: Theirs<P> = challenger.sample();
        }
        // The state that the challenger permutes after observing the witness.
        let pending = challenger.input_buffer.len();
        let mut state = challenger.sponge_state;
        state[..pending].copy_from_slice(&challenger.input_buffer);
        state[pending..RATE].fill(Theirs::<P>::ZERO);
        state[RATE] += Theirs::<P>::from_usize(pending + 1);
        let state = state.map(|x| P::Field::from_u64(x.as_canonical_u64()));
        let found = duplex::<P>(stream, &state, pending, RATE - 1, bits).unwrap();
        assert_eq!(found, Some(smallest(&challenger, bits)), "{} {bits} bits", P::ROWS);
    }
}

#[test]
fn poseidon2_equals_plonky3() {
    on_each_device(|stream| {
        check_duplex::<KoalaBearPoseidon2Width16, _, 16, 8>(stream, default_koalabear_poseidon2_16());
        check_duplex::<KoalaBearPoseidon2Width24, _, 24, 16>(stream, default_koalabear_poseidon2_24());
        check_duplex::<BabyBearPoseidon2Width16, _, 16, 8>(stream, default_babybear_poseidon2_16());
        check_duplex::<BabyBearPoseidon2Width24, _, 24, 16>(stream, default_babybear_poseidon2_24());
        check_duplex::<GoldilocksPoseidon2Width8, _, 8, 4>(stream, default_goldilocks_poseidon2_8());
        check_duplex::<GoldilocksPoseidon2Width12, _, 12, 8>(stream, default_goldilocks_poseidon2_12());
    });
}

/// The smallest witness is found where it takes more work than the first batch does, on a device with few
/// multiprocessors.
#[test]
fn later_batches_find_the_smallest_too() {
    on_each_device(|stream| {
        let mut challenger = SerializingChallenger32::new(Bytes::new(vec![1, 2, 3], Keccak256Hash));
        CanObserve::<p3_koala_bear::KoalaBear>::observe(&mut challenger, KoalaBear::new(5).upstream());
        let found = keccak256::<KoalaBear>(stream, challenger.clone().finalize(), 15).unwrap();
        assert_eq!(found, Some(smallest(&challenger, 15)));
    });
}

/// The prefix that Stwo hashes before a nonce.
fn prefix<const M31: bool>(channel: &Blake2sChannelGeneric<M31>, bits: u32) -> [u32; 8] {
    let mut hasher = Blake2sHasherGeneric::<M31>::default();
    hasher.update(&Blake2sChannelGeneric::<M31>::POW_PREFIX.to_le_bytes());
    hasher.update(&[0; 12]);
    hasher.update(channel.digest().as_ref());
    hasher.update(&bits.to_le_bytes());
    let digest = hasher.finalize().0;
    std::array::from_fn(|i| u32::from_le_bytes(std::array::from_fn(|byte| digest[4 * i + byte])))
}

/// Compares for a random digest, and returns the nonce.
fn check_blake2s<const M31: bool>(stream: &Stream, bits: u32, seed: u64) -> u64
where
    SimdBackend: GrindOps<Blake2sChannelGeneric<M31>>,
{
    let mut channel = Blake2sChannelGeneric::<M31>::default();
    channel.update_digest(Blake2sHash(rng(seed).random()));
    let found = blake2s(stream, prefix(&channel, bits), bits, M31).unwrap();
    assert_eq!(found, SimdBackend::grind(&channel, bits), "{bits} bits");
    assert!(channel.verify_pow_nonce(bits, found));
    found
}

#[test]
fn blake2s_equals_stwo() {
    on_each_device(|stream| {
        for bits in 0..=16 {
            for seed in 0..3 {
                check_blake2s::<false>(stream, bits, seed);
                check_blake2s::<true>(stream, bits, seed);
            }
        }
    });
}

/// A digest for which no nonce below 2^20 works: the next is 2^32.
#[test]
fn blake2s_nonces_continue_in_the_high_word() {
    on_each_device(|stream| {
        let found = check_blake2s::<false>(stream, 18, 157);
        assert_eq!(found >> 32, 1, "{found:#x}");
    });
}

#[test]
fn no_work_is_the_first_witness_and_too_much_is_refused() {
    on_each_device(|stream| {
        assert_eq!(keccak256::<KoalaBear>(stream, [7; 32], 0).unwrap(), Some(0));
        assert_says(
            keccak256::<KoalaBear>(stream, [7; 32], 31),
            &["grind::keccak256", "31 bits", "fewer than 31"],
        );
        assert_says(keccak256::<Goldilocks>(stream, [7; 32], 64), &["64 bits", "fewer than 64"]);
        let state = [KoalaBear::ONE; 16];
        let grind = |state: &[KoalaBear], witness, output| {
            duplex::<KoalaBearPoseidon2Width16>(stream, state, witness, output, 1)
        };
        assert_says(grind(&state[..8], 0, 7), &["grind::duplex", "a state of 8", "has width 16"]);
        assert_says(grind(&state, 16, 7), &["witness at 16"]);
        assert_says(grind(&state, 0, 16), &["output at 16"]);
        assert_eq!(blake2s(stream, [7; 8], 0, true).unwrap(), 0);
        assert_says(blake2s(stream, [7; 8], 33, false), &["grind::blake2s", "33 bits", "at most 32"]);
    });
}
