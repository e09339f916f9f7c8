//! The words of a column that is opened, wherever they lie: on a device, in host memory or in blocks.

use rigel_gpu::{Device, View};
use rigel_kernels::field::Mersenne31;

use crate::deferred::Place;
use crate::words::Words;

/// A column's words.
pub(crate) enum Held {
    /// Words on a device. For values on a canonic domain, with the logarithm of the number of coefficients that
    /// determine them, if it is known.
    Here(Words, Option<u8>),
    /// Words in host memory.
    Deferred(Place),
    /// Words in blocks of rows, one on each of several devices.
    Blocks(Vec<Words>),
}

impl Held {
    /// The number of words.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Here(words, _) => words.len(),
            Self::Deferred(place) => place.of.column_len(),
            Self::Blocks(blocks) => blocks.iter().map(Words::len).sum(),
        }
    }

    /// The logarithm of a number of coefficients that determine the values, at most that of their own number.
    pub(crate) fn log_coefficients(&self) -> u32 {
        let known = if let Self::Here(_, known) = self { *known } else { None };
        known.map_or(self.len().ilog2(), u32::from)
    }

    /// The number of blocks that the column is in.
    pub(crate) fn blocks(&self) -> usize {
        if let Self::Blocks(blocks) = self { blocks.len() } else { 1 }
    }

    /// The words of a block on a device; `None` if the host has them.
    pub(crate) fn block(&self, block: usize) -> Option<View<'_, Mersenne31>> {
        match self {
            Self::Here(words, _) => Some(words.view()),
            Self::Deferred(_) => None,
            Self::Blocks(blocks) => Some(blocks[block].view()),
        }
    }

    /// The device of a block.
    pub(crate) fn device(&self, block: usize) -> &Device {
        match self {
            Self::Here(words, _) => words.device(),
            Self::Deferred(place) => place.of.device(),
            Self::Blocks(blocks) => blocks[block].device(),
        }
    }
}
