//! Evaluation of polynomials at points outside their domain, and the quotients that prove the values.
//!
//! Input: committed columns and points. Output: values, and columns of reduced quotients for FRI. [`opening`] works on
//! two-adic cosets, [`multi_opening`] too, for many short matrices at once, [`circle_opening`] and [`circle_quotients`]
//! on circle domains, [`mod@evaluate`] and [`deep`] on polynomials in coefficient form.

pub mod circle_opening;
pub mod circle_quotients;
pub mod deep;
pub mod evaluate;
pub mod multi_opening;
pub mod opening;
