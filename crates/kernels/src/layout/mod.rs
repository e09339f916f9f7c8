//! The layout of values in device memory, and operations that only move them.
//!
//! A [`Matrix`](matrix::Matrix) owns columns, [`Columns`](columns::Columns) borrows them, and a [`slab`] is a column of
//! extension elements, stored as adjacent columns of coefficients. Values are of any plain type of four or eight bytes,
//! where rows are gathered also of more words; nothing here computes with them.

pub mod columns;
pub mod gather;
pub(crate) mod grid;
pub mod matrix;
pub mod parts;
pub mod permute;
pub mod slab;
