//! Tests of the repository itself; see `tests/tidy.rs`.
