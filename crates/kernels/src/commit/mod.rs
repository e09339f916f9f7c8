//! Commitments to matrices: digests of their [`rows`] and [`merkle`] trees over the digests.
//!
//! Columns in bit-reversed order go in; a tree that answers with its cap and with paths comes out.

pub mod merkle;
pub mod rows;
