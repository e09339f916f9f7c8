//! Elements at given places of memory: [`take`] reads `out[i] = from[places[i]]`, [`put`] writes
//! `to[places[i]] = values[i]`.
//!
//! Elements have any type, and are only moved. A place outside the memory is not accessed: it reads as zeros, and is
//! not written. If a place is written twice, either value may remain. One launch each; an element costs its own bytes
//! twice and 8 for its place.

use rigel_gpu::{Error, Result, Shape, Stream, View, ViewMut};

use crate::code::{Instances, KernelFile, Operation};

/// The form of an element: `count` words of `bytes` bytes, to which it is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Words {
    /// The size of a word: 1, 2, 4 or 8.
    pub bytes: usize,
    /// The number of words.
    pub count: usize,
}

/// The forms of all element types.
const FORMS: [Words; 8] = {
    const fn form(bytes: usize, count: usize) -> Words {
        Words { bytes, count }
    }
    [form(1, 1), form(2, 1), form(4, 1), form(4, 2), form(4, 4), form(8, 1), form(8, 2), form(8, 3)]
};

/// `out[i] = from[places[i]]`.
pub fn take(
    stream: &Stream,
    form: Words,
    from: View<'_, u8>,
    places: View<'_, i64>,
    out: ViewMut<'_, u8>,
) -> Result<()> {
    let limit = checked("pick::take", form, from.len(), places.len(), out.len())?;
    if places.is_empty() {
        return Ok(());
    }
    let shape = Shape::cover(places.len(), THREADS)?;
    let count = places.len() as u64;
    Pick::kernels(stream.device(), form)?[0].launch(stream, shape, (out, from, places, count, limit))
}

/// `to[places[i]] = values[i]`.
pub fn put(
    stream: &Stream,
    form: Words,
    to: ViewMut<'_, u8>,
    places: View<'_, i64>,
    values: View<'_, u8>,
) -> Result<()> {
    let limit = checked("pick::put", form, to.len(), places.len(), values.len())?;
    if places.is_empty() {
        return Ok(());
    }
    let shape = Shape::cover(places.len(), THREADS)?;
    let count = places.len() as u64;
    Pick::kernels(stream.device(), form)?[1].launch(stream, shape, (to, values, places, count, limit))
}

/// The number of elements of the memory, if the lengths match.
fn checked(name: &'static str, form: Words, memory: usize, places: usize, listed: usize) -> Result<u64> {
    let size = form.bytes * form.count;
    if !FORMS.contains(&form) {
        return Err(Error::shape(name, format!("elements of {} words of {} bytes", form.count, form.bytes)));
    }
    if places.checked_mul(size) != Some(listed) {
        return Err(Error::shape(name, format!("{listed} bytes for {places} places of {size} bytes each")));
    }
    Ok((memory / size) as u64)
}

/// Threads per block.
const THREADS: u32 = 256;

/// A module for each form of elements.
pub(crate) struct Pick;

impl Operation for Pick {
    type Variant = Words;

    const FILE: KernelFile = KernelFile {
        path: "number/pick.cu",
        text: include_str!("pick.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64)],
    };

    fn instances(form: Words) -> Instances {
        let word = match form.bytes {
            1 => "unsigned char",
            2 => "unsigned short",
            4 => "u32",
            _ => "u64",
        };
        Instances::new(["take", "put"].map(|name| format!("{name}<{word}, {}>", form.count)))
    }

    /// Nothing to compile in advance: provers do not index arrays.
    fn warmed() -> Vec<Words> {
        Vec::new()
    }

    fn on_demand() -> Vec<Words> {
        FORMS.to_vec()
    }
}
