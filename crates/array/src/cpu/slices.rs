//! Casts bytes of arrays to slices of elements.

use std::borrow::Cow;

use rayon::prelude::*;

/// The number of bytes that one thread copies at a time.
const COPY_BYTES: usize = 1 << 20;

/// Copies `from` to the first bytes of `to`, on all threads if they are many.
///
/// # Panics
/// If `to` is shorter.
pub(crate) fn copy(to: &mut [u8], from: &[u8]) {
    let to = &mut to[..from.len()];
    if from.len() < 4 * COPY_BYTES {
        return to.copy_from_slice(from);
    }
    to.par_chunks_mut(COPY_BYTES).zip(from.par_chunks(COPY_BYTES)).for_each(|(to, from)| to.copy_from_slice(from));
}

/// The bytes as elements, copied if they are not aligned.
///
/// # Safety
/// Every bit pattern is a valid `T`, or these bytes hold valid values.
pub(crate) unsafe fn elements<T: Copy>(bytes: &[u8]) -> Cow<'_, [T]> {
    // SAFETY: guaranteed by the caller.
    let (before, elements, after) = unsafe { bytes.align_to::<T>() };
    if before.is_empty() && after.is_empty() {
        return Cow::Borrowed(elements);
    }
    let count = bytes.len() / size_of::<T>();
    let mut copied = Vec::<T>::with_capacity(count);
    // SAFETY: there is space for the bytes, and they are valid values of `T`.
    unsafe {
        bytes.as_ptr().copy_to_nonoverlapping(copied.as_mut_ptr().cast(), count * size_of::<T>());
        copied.set_len(count);
    }
    Cow::Owned(copied)
}

/// Runs `work` with the bytes as elements, or with an aligned copy that is copied back afterwards.
///
/// # Safety
/// As for [`elements`]; and a `T` has no gaps.
pub(crate) unsafe fn with_elements_mut<T: Copy, R>(bytes: &mut [u8], work: impl FnOnce(&mut [T]) -> R) -> R {
    // SAFETY: guaranteed by the caller.
    let (before, found, after) = unsafe { bytes.align_to_mut::<T>() };
    if before.is_empty() && after.is_empty() {
        return work(found);
    }
    // SAFETY: guaranteed by the caller.
    let mut copied = unsafe { elements::<T>(bytes) }.into_owned();
    let result = work(&mut copied);
    // SAFETY: the elements have no padding, so all their bytes are initialized.
    let done = unsafe { std::slice::from_raw_parts(copied.as_ptr().cast(), size_of_val(&copied[..])) };
    bytes[..done.len()].copy_from_slice(done);
    result
}
