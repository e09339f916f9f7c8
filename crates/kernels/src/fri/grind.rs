//! Proof of work: the smallest witness, a field element as an integer or a nonce, after which a challenger's next
//! sample ends in a given number of zero bits.
//!
//! - [`keccak256`]: for Plonky3's `SerializingChallenger32` and `64` over a `HashChallenger` of Keccak-256
//! - [`duplex`]: for its `DuplexChallenger` over Poseidon2
//! - [`blake2s`]: for Stwo's `Blake2sChannel` and `Blake2sM31Channel`
//!
//! A candidate takes a thread one permutation (or compression). Candidates are tested in increasing order, a few for
//! each multiprocessor at a time, until one is a witness: all before it are tested, and few after it. A launch has at
//! most sixteen times as many as the bits of work make likely, and ends with a download of one word, for which the call
//! waits. The result does not depend on timing.

use std::marker::PhantomData;

use rigel_gpu::{Buffer, Device, Error, Result, Shape, Stream};

use crate::code::{Instances, KernelFile, Operation, parameters};
use crate::field::{Field, Mersenne31, Ring};
use crate::hash::{Blake2s, Blake2sM31, Hash, Hashing, Permutation, also, declare};

/// The smallest integer i below the field's order for which Keccak-256 of `digest` and the bytes of the element i gives
/// a sample whose `bits` lowest bits are zero, if there is one; 2^`bits` must be below the order.
///
/// The bytes are the 4 or 8 bytes of the hashed word, lowest first: Montgomery form for the 31-bit fields, canonical
/// for Goldilocks. The sample is the integer formed by the last bytes of the output, the very last being the lowest.
/// With `digest` the challenger's hash of everything observed before, this is upstream's `grind`, run in order.
pub fn keccak256<F: Field>(stream: &Stream, digest: [u8; 32], bits: u32) -> Result<Option<u64>> {
    let mask = mask::<F>("grind::keccak256", bits)?;
    let x = std::array::from_fn(|i| u64::from_le_bytes(std::array::from_fn(|byte| digest[8 * i + byte])));
    let kernel = GrindKeccak::<F>::kernel(stream.device(), ())?;
    // The last output byte, the highest of its word, is the sample's lowest.
    search(stream, F::ORDER, mask.swap_bytes(), |found, batch| {
        kernel.launch(stream, batch.shape(stream.device(), KECCAK_THREADS)?, (found, DigestWords { x }, batch))
    })
}

/// Permutes `state` with the element i at index `witness_index`, and returns the smallest integer i below the field's
/// order for which the `bits` lowest bits of the element at `output_index` are zero, if there is one; 2^`bits` must be
/// below the order.
///
/// With the state that a `DuplexChallenger` would permute after observing the witness, and the last index of the rate
/// as output, this is upstream's `grind`, run in order.
///
/// `on` is a stream, or a stream and a permutation with constants of its own.
pub fn duplex<'a, P: Permutation>(
    on: impl Into<Hashing<'a, P>>,
    state: &[P::Field],
    witness_index: usize,
    output_index: usize,
    bits: u32,
) -> Result<Option<u64>> {
    const NAME: &str = "grind::duplex";
    let on = on.into();
    let stream = on.stream();
    let mask = mask::<P::Field>(NAME, bits)?;
    if state.len() != P::WIDTH || witness_index >= P::WIDTH || output_index >= P::WIDTH {
        return Err(Error::shape(
            NAME,
            format!(
                "a state of {} elements with the witness at {witness_index} and the output at {output_index}; \
                 {} has width {}",
                state.len(),
                P::ROWS,
                P::WIDTH
            ),
        ));
    }
    let mut whole = SpongeState { s: [P::Field::ZERO; MOST_WIDTH] };
    whole.s[..P::WIDTH].copy_from_slice(state);
    let (witness, output) = (witness_index as u32, output_index as u32);
    let kernel = GrindDuplex::<P>::kernel(stream.device(), ())?;
    let constants = on.row_constants()?;
    search(stream, P::Field::ORDER, mask, |found, batch| {
        let arguments = (found, whole, witness, output, batch, constants.clone());
        kernel.launch(stream, batch.shape(stream.device(), DUPLEX_THREADS)?, arguments)
    })
}

/// The smallest nonce `a 2^32 + b`, a < 2^31 - 1 and b < 2^20, for which the first word of Blake2s-256 of `prefix` and
/// the nonce (40 bytes: ten little-endian words, b before a) ends in at least `bits` zeros, of at most 32. With `m31`
/// the word is reduced modulo 2^31 - 1 before its zeros are counted, as the digests of `Blake2sM31Channel` are.
///
/// With `prefix` the hash of upstream's prefix, the channel's digest and `bits`, this is `SimdBackend::grind`. It is an
/// error if no nonce satisfies this; with 2^51 nonces and at most 32 bits, this does not happen in practice.
pub fn blake2s(stream: &Stream, prefix: [u32; 8], bits: u32, m31: bool) -> Result<u64> {
    const NAME: &str = "grind::blake2s";
    if bits > u32::BITS {
        return Err(Error::shape(NAME, format!("{bits} bits of work; there must be at most 32")));
    }
    let device = stream.device();
    let kernel = match m31 {
        true => GrindBlake2s::<Blake2sM31>::kernel(device, ())?,
        false => GrindBlake2s::<Blake2s>::kernel(device, ())?,
    };
    let candidates = Mersenne31::ORDER << NONCE_LOW_BITS;
    let found = search(stream, candidates, (1 << bits) - 1, |found, batch| {
        kernel.launch(stream, batch.shape(device, BLAKE2S_THREADS)?, (found, PrefixWords { x: prefix }, batch))
    })?;
    let low = (1 << NONCE_LOW_BITS) - 1;
    found.map(|i| (i >> NONCE_LOW_BITS) << 32 | i & low).ok_or_else(|| {
        Error::shape(NAME, format!("none of {candidates} nonces gives {bits} zero bits; ask for fewer"))
    })
}

/// Threads per block.
const KECCAK_THREADS: u32 = 128;
const DUPLEX_THREADS: u32 = 64;
const BLAKE2S_THREADS: u32 = 128;
/// The number of bits of a Stwo nonce's low word.
const NONCE_LOW_BITS: u32 = 20;
/// The widest state.
const MOST_WIDTH: usize = 32;
/// Candidates per multiprocessor that are tested at a time: fewer take no less time.
const AT_ONCE: u64 = 256;
/// The most candidates per multiprocessor of a launch, so that none takes long.
const MOST: u64 = 1 << 15;

/// The bits of a sample that must be zero.
fn mask<F: Field>(operation: &'static str, bits: u32) -> Result<u64> {
    match 1u64.checked_shl(bits).filter(|&power| power < F::ORDER) {
        Some(power) => Ok(power - 1),
        None => Err(Error::shape(
            operation,
            format!("{bits} bits of work; over {} there must be fewer than {}", F::NAME, F::ORDER.ilog2() + 1),
        )),
    }
}

parameters! {
    /// The candidates first <= i < end, and the bits of the tested word that must be zero.
    struct Batch = "Batch" => {
        first: u64,
        end: u64,
        mask: u64,
    }
}

parameters! {
    struct DigestWords = "DigestWords" => {
        x: [u64; 4],
    }
}

parameters! {
    struct PrefixWords = "PrefixWords" => {
        x: [u32; 8],
    }
}

parameters! {
    /// A state before the permutation, large enough for the widest.
    struct SpongeState<F: Field> = format!("SpongeState<{}>", F::NAME) => {
        s: [F; MOST_WIDTH],
    }
}

impl Batch {
    /// The shape in which a device tests them, in blocks of `threads`.
    fn shape(self, device: &Device, threads: u32) -> Result<Shape> {
        let at_once = AT_ONCE * u64::from(device.properties().multiprocessors);
        Shape::cover((self.end - self.first).min(at_once) as usize, threads)
    }
}

/// Tests batches of the integers below `candidates` until `try_batch` has lowered its word to a witness.
fn search(
    stream: &Stream,
    candidates: u64,
    mask: u64,
    try_batch: impl Fn(&mut Buffer<u64>, Batch) -> Result<()>,
) -> Result<Option<u64>> {
    let mut found = stream.alloc::<u64>(1)?;
    stream.fill_bytes(&mut found, 0xff)?;
    let most = MOST * u64::from(stream.device().properties().multiprocessors);
    let size = (1u64 << mask.count_ones()).saturating_mul(16).min(most);
    let mut first = 0;
    while first < candidates {
        let end = first.saturating_add(size).min(candidates);
        try_batch(&mut found, Batch { first, end, mask })?;
        if let [witness] = found.to_vec(stream)?[..]
            && witness != u64::MAX
        {
            return Ok(Some(witness));
        }
        first = end;
    }
    Ok(None)
}

const FILE: KernelFile = KernelFile {
    path: "fri/grind.cu",
    text: include_str!("grind.cu"),
    constants: &[
        ("KECCAK_THREADS", KECCAK_THREADS as u64),
        ("DUPLEX_THREADS", DUPLEX_THREADS as u64),
        ("BLAKE2S_THREADS", BLAKE2S_THREADS as u64),
        ("NONCE_LOW_BITS", NONCE_LOW_BITS as u64),
        ("MOST_WIDTH", MOST_WIDTH as u64),
    ],
};

pub(crate) struct GrindKeccak<F>(PhantomData<F>);

impl<F: Field> Operation for GrindKeccak<F> {
    type Variant = ();

    const FILE: KernelFile = FILE;

    fn instances((): ()) -> Instances {
        Instances::one(format!("grind_keccak<{}>", F::NAME)).takes::<DigestWords>().takes::<Batch>()
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}

pub(crate) struct GrindDuplex<P>(PhantomData<P>);

impl<P: Permutation> Operation for GrindDuplex<P> {
    type Variant = ();

    const FILE: KernelFile = FILE;

    fn instances((): ()) -> Instances {
        declare::<P>(Instances::one(format!("grind_duplex<{}{}>", P::ROWS, also(P::ROW_CONSTANTS))))
            .takes::<SpongeState<P::Field>>()
            .takes::<Batch>()
            .assert(format!("{}::WIDTH == {}", P::ROWS, P::WIDTH))
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}

pub(crate) struct GrindBlake2s<H>(PhantomData<H>);

impl<H: Hash> Operation for GrindBlake2s<H> {
    type Variant = ();

    const FILE: KernelFile = FILE;

    fn instances((): ()) -> Instances {
        Instances::one(format!("grind_blake2s<{}>", H::ROWS)).takes::<PrefixWords>().takes::<Batch>()
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}
