//! Kernel source text and the headers that it includes.

use rigel_gpu::Source;

macro_rules! headers {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../", $name)))),*]
    };
}

/// Headers by the name they are included with.
const HEADERS: &[(&str, &str)] = headers![
    "domain/circle_domain.cuh",
    "domain/roots.cuh",
    "field/baby_bear.cuh",
    "field/extension.cuh",
    "field/goldilocks.cuh",
    "field/koala_bear.cuh",
    "field/mersenne31.cuh",
    "field/monty31.cuh",
    "field/operators.cuh",
    "field/word.cuh",
    "hash/blake2s.cuh",
    "hash/digest.cuh",
    "hash/keccak.cuh",
    "hash/keccak_group.cuh",
    "hash/poseidon2.cuh",
    "hash/poseidon2_constants.cuh",
    "layout/column.cuh",
    "layout/quads.cuh",
    "layout/slab.cuh",
    "number/complex.cuh",
    "number/complex64.cuh",
    "number/dot.cuh",
    "number/field.cuh",
    "number/narrow.cuh",
    "number/number.cuh",
];

/// Kernel source with those of this crate's headers that it includes, directly or indirectly, ready for its kernels to
/// be named.
///
/// `layout/slab.cuh` includes every field and extension (`KoalaBear4`, ..) with its operators and delayed sums, under
/// the names in [`Ring::NAME`](crate::field::Ring::NAME).
///
/// # Safety
///
/// The caller vouches for every launch of the kernels in `text`, as for [`Source::new`]: they access only memory within
/// the buffers that they are given, and write only through pointers that are not `const`. A kernel that trusts its
/// numbers is kept private to code that checks them. Kernel text is native code; on the emulated device it runs as host
/// code.
pub unsafe fn source(name: &str, text: &str) -> Source {
    // SAFETY: the caller vouches for the text, and this crate for its headers.
    let mut source = unsafe { Source::new(name, text) };
    // Only headers that the text includes are part of the cache key: a change in one hash leaves the others compiled.
    let mut reached: Vec<&str> = Vec::new();
    let mut open = vec![text];
    while let Some(text) = open.pop() {
        for &(header, body) in HEADERS {
            if !reached.contains(&header) && text.contains(&format!("#include \"{header}\"")) {
                reached.push(header);
                open.push(body);
            }
        }
    }
    reached.sort_unstable();
    for &(header, body) in HEADERS.iter().filter(|(header, _)| reached.contains(header)) {
        source = source.header(header, body);
    }
    source
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every `#include` of a header names a known header.
    #[test]
    fn headers_are_complete() {
        for (name, text) in HEADERS {
            for line in text.lines().filter_map(|line| line.strip_prefix("#include \"")) {
                let included = line.trim_end().trim_end_matches('"');
                assert!(HEADERS.iter().any(|(known, _)| *known == included), "{name} includes {included}");
            }
        }
    }
}
