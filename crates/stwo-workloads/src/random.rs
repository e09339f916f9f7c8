//! Reproducible random values, addressed by stream and index, so that rows can be generated in any order and on
//! any thread.

use stwo::core::fields::m31::{BaseField, P};

/// A stream of words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random {
    key: u64,
}

impl Random {
    /// Stream number `stream` of a seed.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self { key: mix(mix(seed) ^ stream) }
    }

    /// Word number `index`, uniform.
    pub(crate) fn word(self, index: usize) -> u32 {
        (mix(self.key.wrapping_add((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))) >> 32) as u32
    }

    /// Field element number `index`: the first of its words, masked to 31 bits, that is below P.
    pub(crate) fn field(self, index: usize) -> BaseField {
        let own = Self { key: mix(self.key ^ index as u64) };
        let word = (0..).map(|attempt| own.word(attempt) & P).find(|&word| word < P);
        BaseField::from_u32_unchecked(word.expect("the stream is infinite"))
    }
}

/// The finalizer of SplitMix64: a permutation of 64-bit words in which each output bit depends on all input bits.
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
