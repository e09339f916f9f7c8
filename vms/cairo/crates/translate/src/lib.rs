//! Translates upstream's witness code to CUDA kernels.
//!
//! StarkWare generates the witness of each component of Cairo's AIR: a file of straight-line Rust with one closure that
//! makes 16 rows at once. The generator uses few constructs: `let`, arithmetic on field elements and small integers,
//! tuples, arrays, reads of the memory, a write for each column, and the inputs of other components. This crate reads
//! such a file and prints the closure as a kernel that makes one row per thread, in a dialect of C++ whose types
//! (`M31`, `UInt16`, `Felt252`, ..) have upstream's names. Whoever compiles the kernel brings the types.
//!
//! | upstream | kernel |
//! |---|---|
//! | `let x = e;` | `const auto x = e;` |
//! | `*row[7] = e;` | `row.write(7, e);` |
//! | `memory_address_to_id_state.deduce_output(e)` | `row.memory_address_to_id(e)` |
//! | `*sub_component_inputs.range_check_9_9_b[0] = e;` | `row.count(RANGE_CHECK_9_9, 1, e);` |
//! | `*sub_component_inputs.cube_252[1] = e;` | `row.give(.., 1, e);` |
//! | `*lookup_data.x = e;` | nothing: the lookups are made from the columns |
//!
//! Long chains of rounds, which the generator unrolls, become loops (`chain.rs`).
//!
//! A file with any other construct is [unsupported](Unsupported), and its component stays on the host. Nothing of
//! upstream's text is kept: the translation happens when `rigel-cairo` is built, from the sources that cargo has
//! downloaded and checked.
//!
//! The files of about 50 components change with every version of upstream's. Kernels written by hand, or a table of
//! what goes into which column, would repeat thousands of lines and have to follow them. Recording, as constraints
//! are recorded, is not possible, because the code is over concrete SIMD types. Written by hand are upstream's types
//! in C++, the counts of the tables, and the deductions of hashes.

mod chain;
mod expression;
mod file;

pub use file::{Component, Inputs, input_words, translate, uses};

/// The reason why a component can't be translated.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unsupported(String);

type Result<T> = std::result::Result<T, Unsupported>;

fn unsupported<T>(what: impl Into<String>) -> Result<T> {
    Err(Unsupported(what.into()))
}
