//! Elements at given places of memory.

use rayon::prelude::*;

use super::evaluate::PARALLEL_PLACES;

/// `out[i] = from[places[i]]` for elements of `size` bytes.
///
/// # Panics
/// If a place is outside `from`.
pub(crate) fn take(size: usize, from: &[u8], places: &[i64], out: &mut [u8]) {
    let work = |(out, &place): (&mut [u8], &i64)| out.copy_from_slice(&from[place as usize * size..][..size]);
    if places.len() < PARALLEL_PLACES {
        out.chunks_exact_mut(size).zip(places).for_each(work);
    } else {
        out.par_chunks_exact_mut(size).zip(places).with_min_len(PARALLEL_PLACES / 4).for_each(work);
    }
}

/// `to[places[i]] = values[i]` in order, for elements of `size` bytes. Negative places are skipped.
///
/// # Panics
/// If a place is past the end of `to`.
pub(crate) fn put(size: usize, to: &mut [u8], places: &[i64], values: &[u8]) {
    for (&place, value) in places.iter().zip(values.chunks_exact(size)) {
        if place >= 0 {
            to[place as usize * size..][..size].copy_from_slice(value);
        }
    }
}
