//! How values lie in device memory, and operations that only move them.
//!
//! A [`Matrix`](matrix::Matrix) owns columns, [`Columns`](columns::Columns) borrows them, a [`slab`] is a column of
//! extension elements. Any plain type of four or eight bytes goes in; nothing here computes with values.

pub mod columns;
pub mod gather;
pub(crate) mod grid;
pub mod matrix;
pub mod permute;
pub mod slab;
