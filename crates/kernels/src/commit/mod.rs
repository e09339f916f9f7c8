//! Commitments to matrices: digests of their [`rows`], [`merkle`] trees over the digests, also over columns of
//! different lengths ([`lifted`]), and [`queries`] of them; [`mask`]s, for commitments that hide.
//!
//! Input: columns in bit-reversed order. Output: a tree that returns its cap and authentication paths.

pub mod lifted;
pub mod mask;
pub mod merkle;
pub mod queries;
pub mod rows;
