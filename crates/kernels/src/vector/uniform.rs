//! Uniform field elements from a seed, as `rand`'s `StdRng` gives them to Plonky3's `StandardUniform`.
//!
//! The generator is ChaCha with 12 rounds and a nonce of zeros; its words are a keystream that any thread can enter at
//! any block. An element takes one word of 32 bits, shifted right by one (KoalaBear, BabyBear), or two words
//! (Goldilocks); a value of at least the modulus is skipped. Cost: the keystream twice, about 80 operations per word,
//! and one write per element. Waits for the stream, because how many words were skipped is known only afterwards.

use std::marker::PhantomData;

use rigel_gpu::{Error, Result, Shape, Stream, ViewMut};

use crate::code::{Instances, KernelFile, Operation};
use crate::field::Field;

/// Fills `out` with the elements that follow word `position` of the keystream of `key`. Returns the position after
/// the last one. Positions count words of 32 bits.
pub fn fill<F: Field>(stream: &Stream, mut out: ViewMut<'_, F>, key: [u32; 8], position: u64) -> Result<u64> {
    const NAME: &str = "uniform::fill";
    let words = size_of::<F>() as u64 / 4;
    if !position.is_multiple_of(words) {
        let detail = format!("position {position} of the keystream; elements of {words} words begin at multiples");
        return Err(Error::shape(NAME, detail));
    }
    let count = out.len() as u64;
    if count == 0 {
        return Ok(position);
    }
    let key = stream.upload(&key)?;
    let kernels = Uniform::<F>::kernels(stream.device(), ())?;
    // At least half of all words are kept; 15/16 of BabyBear's, more of the others'. A draw that is too short is
    // repeated with more.
    let mut candidates = count + count / 12 + 64;
    loop {
        let blocks = (position % WORDS + candidates * words).div_ceil(WORDS * u64::from(THREADS));
        let grid = u32::try_from(blocks).map_err(|_| Error::shape(NAME, format!("{count} elements at once")))?;
        let mut counts = stream.alloc::<u64>(grid as usize)?;
        let mut end = stream.upload(&[u64::MAX])?;
        let shape = Shape::new(grid, THREADS);
        kernels[COUNT].launch(stream, shape, (&mut counts, &key, position))?;
        kernels[SUM].launch(stream, Shape::new(1, THREADS), (&mut counts, grid))?;
        let arguments = (out.reborrow(), &mut end, &counts, &key, position, count);
        kernels[WRITE].launch(stream, shape, arguments)?;
        match end.to_vec(stream)?[0] {
            u64::MAX => candidates *= 2,
            end => return Ok(end),
        }
    }
}

/// The words of a block of the keystream.
const WORDS: u64 = 16;
/// Threads per block, each with one block of the keystream.
const THREADS: u32 = 256;
/// The rounds of `StdRng`'s generator.
const ROUNDS: u64 = 12;

const COUNT: usize = 0;
const SUM: usize = 1;
const WRITE: usize = 2;

pub(crate) struct Uniform<F>(PhantomData<F>);

impl<F: Field> Operation for Uniform<F> {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "vector/uniform.cu",
        text: include_str!("uniform.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64), ("CHACHA_ROUNDS", ROUNDS)],
    };

    fn instances((): ()) -> Instances {
        let field = F::NAME;
        Instances::new([format!("count_kept<{field}>"), "sum_counts".into(), format!("write_kept<{field}>")])
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}
