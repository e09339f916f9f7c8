//! Single values from many buffers, for opening a prover's queries: value k of the result is `sources[s][i]` for the
//! k-th pick [s, i].
//!
//! However many buffers there are, it takes one upload of the sources' addresses, one of the picks, one launch, and one
//! download by the caller. Each value costs 32 bytes of device memory traffic per 32 bytes or part thereof.

use rigel_gpu::{Buffer, Error, Plain, Result, Shape, Stream, View};

use crate::code::{Instances, KernelFile, Operation};

/// The values at `picks`, each the index of a source and an index in it, one after another as `width_words` words of
/// four bytes each: 1 for an element of a 31-bit field, 8 for a digest of 32 bytes. That must be the size of `T`.
///
/// The sources must stay allocated until this returns; the reads are then enqueued on the stream.
pub fn words<T: Plain>(
    stream: &Stream,
    sources: &[View<'_, T>],
    picks: &[[u32; 2]],
    width_words: usize,
) -> Result<Buffer<u32>> {
    const NAME: &str = "gather::words";
    if size_of::<T>() == 0 || width_words.checked_mul(4) != Some(size_of::<T>()) {
        return Err(Error::shape(
            NAME,
            format!(
                "values of {width_words} words of four bytes from sources of values of {} bytes",
                size_of::<T>()
            ),
        ));
    }
    let Some(words) = picks.len().checked_mul(width_words).and_then(|words| u32::try_from(words).ok()) else {
        return Err(Error::shape(
            NAME,
            format!("{} values of {width_words} words; at most 2^32 - 1 words are supported", picks.len()),
        ));
    };
    for &[source, index] in picks {
        let Some(values) = sources.get(source as usize) else {
            return Err(Error::shape(
                NAME,
                format!("source {source} does not exist; there are {}", sources.len()),
            ));
        };
        if index as usize >= values.len() {
            let detail = format!("value {index} does not exist in source {source}, which has {}", values.len());
            return Err(Error::shape(NAME, detail));
        }
    }
    let mut out = stream.alloc(words as usize)?;
    if words > 0 {
        let kernel = Gather::kernel(stream.device(), ())?;
        let (addresses, picks) = (stream.addresses(sources)?, stream.upload(picks)?);
        let shape = Shape::cover(words as usize, THREADS)?;
        kernel.launch(stream, shape, (&mut out, &addresses, &picks, words, width_words as u32))?;
    }
    Ok(out)
}

/// Threads per block.
const THREADS: u32 = 256;

pub(crate) struct Gather;

impl Operation for Gather {
    type Variant = ();

    const FILE: KernelFile = KernelFile {
        path: "layout/gather.cu",
        text: include_str!("gather.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64)],
    };

    fn instances((): ()) -> Instances {
        Instances::one("gather_words")
    }

    fn warmed() -> Vec<()> {
        vec![()]
    }
}
