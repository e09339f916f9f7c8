//! Writes to memory that this host's cores will not read: past their caches.
//!
//! A store to a line that is not in the cache reads the line first. What goes to pinned memory in short pieces, such as
//! some columns of a matrix by rows, would so cost three accesses to memory for each one that is needed.

/// The bytes that are put together in the cache before they are written.
const PIECE: usize = 16 << 10;

/// Memory that begins where a line of the cache does.
#[repr(align(64))]
struct Aligned([u8; PIECE]);

/// Fills `to`, whose first byte has this offset: `part(offset, bytes)` writes the bytes from an offset on, for parts that
/// follow each other.
pub(super) fn fill(to: &mut [u8], offset: usize, part: impl Fn(usize, &mut [u8])) {
    let mut piece = Aligned([0; PIECE]);
    for (i, to) in to.chunks_mut(PIECE).enumerate() {
        let from = &mut piece.0[..to.len()];
        part(offset + i * PIECE, from);
        write(to, from);
    }
    end();
}

/// Copies `from` to `to`, which is as long.
#[cfg(target_arch = "x86_64")]
fn write(to: &mut [u8], from: &[u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    const WORD: usize = size_of::<__m128i>();
    // SAFETY: any bytes are such a word, and the word may be written as a whole: `align_to_mut` gives those of the slice.
    let (head, words, tail) = unsafe { to.align_to_mut::<__m128i>() };
    let (first, rest) = from.split_at(head.len());
    head.copy_from_slice(first);
    for (word, from) in words.iter_mut().zip(rest.chunks_exact(WORD)) {
        // SAFETY: the chunk has the bytes of a word, and the word is aligned.
        unsafe { _mm_stream_si128(word, _mm_loadu_si128(from.as_ptr().cast())) };
    }
    tail.copy_from_slice(&rest[words.len() * WORD..]);
}

/// Orders the writes before what comes after them: the device reads them once a later store tells it to.
#[cfg(target_arch = "x86_64")]
fn end() {
    // SAFETY: it only waits.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

#[cfg(not(target_arch = "x86_64"))]
fn write(to: &mut [u8], from: &[u8]) {
    to.copy_from_slice(from);
}

#[cfg(not(target_arch = "x86_64"))]
fn end() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_arrives() {
        let expected = |i: usize| (i * 31 + i / 251) as u8;
        for (start, len) in
            [(0, 0), (1, 1), (3, 40), (0, PIECE), (5, 3 * PIECE + 7), (16, PIECE + 16), (15, PIECE - 1)]
        {
            let mut memory = vec![7u8; start + len + 9];
            fill(&mut memory[start..start + len], 100, |at, part| {
                part.iter_mut().enumerate().for_each(|(i, byte)| *byte = expected(at + i));
            });
            let right = (0..len).all(|i| memory[start + i] == expected(100 + i));
            assert!(right, "{len} bytes from {start} on");
            assert!(
                memory[..start].iter().chain(&memory[start + len..]).all(|&byte| byte == 7),
                "{len} from {start}"
            );
        }
    }
}
