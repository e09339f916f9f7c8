//! The measurements, one file per family.

mod array;
mod columns;
mod compile;
mod elementwise;
mod hashing;
mod launch;
mod movement;
mod pool;
mod transfer;
mod transform;

use super::measure::Case;
use crate::bench::Size;

/// The subject of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The engine's operations.
    Primitives,
    /// Arrays.
    Array,
}

/// Every case in the order of the report; `compile` adds those that compile all kernels.
pub fn all(family: Family, size: Size, compile: bool) -> Vec<Case> {
    if family == Family::Array {
        return array::cases(size);
    }
    let compiled = if compile { compile::cases() } else { Vec::new() };
    [
        transform::cases(size),
        hashing::cases(size),
        elementwise::cases(size),
        columns::cases(size),
        movement::cases(size),
        transfer::cases(size),
        pool::cases(size),
        launch::cases(size),
        compiled,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// `2^20` for powers of two from 256 on, the number itself otherwise.
fn count(n: usize) -> String {
    if n.is_power_of_two() && n >= 256 { format!("2^{}", n.trailing_zeros()) } else { n.to_string() }
}

/// Bytes of a matrix of `T`.
fn matrix_bytes<T>(rows: usize, columns: usize) -> f64 {
    (rows * columns * size_of::<T>()) as f64
}
